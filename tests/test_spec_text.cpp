// Do words and JSON say what they mean, and is every wrong word answered with the accepted ones?
#include <catch2/catch.hpp>

#include "fp4/presets.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/text/embedded.h"
#include "src/text/json_reader.h"
#include "sweeps/carried_files.h"  // peers.json is among them

using namespace fp4;
using Catch::Contains;

TEST_CASE("every preset survives JSON and key=value", "[quick]") {
  for (const Preset& p : preset_table) {
    INFO(p.name);
    QuantSpec back = nvfp4_spec;
    set_quant(back, to_json(p.spec), "test");
    CHECK(back == p.spec);
    std::string words;
    const Json object = to_json(p.spec);
    for (const auto& [key, value] : object.items()) {
      std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (value.is_array()) text = value[0].dump() + "x" + value[1].dump();
      words += (words.empty() ? "" : ",") + key + "=" + text;
    }
    CHECK(quant_spec_from_words(words) == p.spec);
  }
}

TEST_CASE("words change single fields", "[quick]") {
  const QuantSpec s = quant_spec_from_words("nvfp4,rounding=stochastic,block=32x32,scale_floor=2^-6,target=1/6");
  CHECK(s.rounding == Rounding::stochastic);
  CHECK(s.block == BlockShape{BlockKind::square, 32});
  CHECK(s.scale_floor == 0.015625f);
  CHECK(s.target == 1.0f / 6.0f);
  CHECK(quant_spec_from_words("mxfp4,block=row").block.kind == BlockKind::row);
  CHECK(preset_of_words("nvfp4,block=32") == "nvfp4");
  CHECK(preset_of_words("block=32").empty());
}

TEST_CASE("wrong words name the place and the accepted words", "[quick]") {
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp5"), Contains("mxfp5") && Contains("mxfp4"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,roundin=stochastic"), Contains("roundin") && Contains("rounding"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,rounding=stochstic"),
                    Contains("stochstic") && Contains("nearest_even"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,block=33"), Contains("block must be"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,block=16x32"), Contains("block"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,prescale=0.5"), Contains("prescale"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,random_bits=7"), Contains("random_bits"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,random_bits=abc"), Contains("abc"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp8,scale_rule=uos"), Contains("uos"));
  CHECK_THROWS_WITH(quant_spec_from_words("graphcore_2509_encode,arithmetic=te"), Contains("te"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,tensor_scale=outer128,block=16x16"), Contains("outer128"));
  CHECK_THROWS_WITH(accumulator_from("k64", "test"), Contains("k64_rz"));
  CHECK_THROWS_WITH(accumulator_from(Json{{"kind", "group"}, {"groups", 3}}, "test"), Contains("groups"));
  HadamardSpec h;
  CHECK_THROWS_WITH(set_hadamard(h, {{"size", 24}}, "test"), Contains("24"));
}

TEST_CASE("dead fields are erased from canonical forms", "[quick]") {
  const auto same = [](const char* a, const char* b) {
    return canonical(quant_spec_from_words(a)) == canonical(quant_spec_from_words(b));
  };
  CHECK(same("mxfp4,random_bits=16", "mxfp4"));
  CHECK(!same("mxfp4,rounding=stochastic,random_bits=16", "mxfp4,rounding=stochastic"));
  CHECK(same("mxfp4,target=256,hold_steps=7", "mxfp4"));
  CHECK(same("nvfp4,target=448", "nvfp4"));
  CHECK(!same("nvfp4,target=256", "nvfp4"));
  CHECK(same("mxfp4,zero_scale=one,scale_rounding=toward_positive", "mxfp4"));
  CHECK(!same("nvfp4,zero_scale=one", "nvfp4"));
  CHECK(same("mxfp4,arithmetic=te", "mxfp4"));
  CHECK(!same("mxfp4,arithmetic=te,rounding=away_from_zero", "mxfp4,rounding=away_from_zero"));
  CHECK(!same("nvfp4,arithmetic=te", "nvfp4"));
  CHECK(same("bf16,block=64,scale_rule=ceil,tensor_scale=current", "bf16"));
  HadamardSpec none;
  none.signs = HadamardSigns::per_step;
  CHECK(canonical(none) == HadamardSpec{});
  EstimatorSpec e;
  e.alpha = 3;
  e.temperature = 7;
  CHECK(canonical(e) == EstimatorSpec{});
}

TEST_CASE("a product is read with * before single operands", "[quick]") {
  GemmSpec g;
  set_gemm(g, Json::parse(R"({"*": {"preset": "nvfp4"}, "b": {"rounding": "stochastic"}, "hadamard": {"size": 16},
                              "accumulator": "k64_rz"})"),
           "test");
  CHECK(g.a.quant == nvfp4_spec);
  CHECK(g.b.quant.rounding == Rounding::stochastic);
  CHECK(g.hadamard.size == 16);
  GemmSpec back;
  set_gemm(back, to_json(g, true), "test");
  CHECK(back == g);
  CHECK_THROWS_WITH(set_gemm(g, Json::parse(R"({"c": {}})"), "test"), Contains("'c'"));
}

TEST_CASE("numbers are written short and read back", "[quick]") {
  CHECK(json_number(0.1f).dump() == "0.1");
  CHECK(json_number(1.0f / 6.0f).dump() == "0.16666667");
  CHECK(json_number(448.0f).dump() == "448");
  CHECK(number_from_text("2^-6", "t") == 0.015625);
  CHECK_THROWS(number_from_text("", "t"));
}

TEST_CASE("a tensor scale that a kernel is given is a number, or a file that holds one", "[quick]") {
  const QuantSpec s = quant_spec_from_words("te_nvfp4,tensor_scale=1344");
  CHECK(s.tensor_scale == TensorScale::given);
  CHECK(s.factor == 1344.0f);
  QuantSpec back;
  set_quant(back, to_json(s), "test");
  CHECK(back == s);
  CHECK(quant_spec_from_words("te_nvfp4,tensor_scale=1344,tensor_scale=current").factor == 0.0f);
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,tensor_scale=none_of_them"), Contains("a file that holds one"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,tensor_scale=given"), Contains("factor"));
  // S = 1344 stands for an amax of 2: a tensor of maximum 1 has half the scale codes' range
  const float x[16] = {1.0f, -0.5f, 0.25f};
  Quantized q;
  reference_backend().quantize({.x = view_of(x, 1, 16), .spec = s}, q);
  CHECK(q.scales[0] == 0x76);  // 1344 * 1/6 = 224
  CHECK(q.tensor_scale[0] == 1.0f / 1344.0f);
  Quantized fast;
  Dispatcher("auto").quantize({.x = view_of(x, 1, 16), .spec = s}, fast);
  CHECK(fast.scales == q.scales);
  CHECK(fast.codes == q.codes);
  CHECK(fast.tensor_scale == q.tensor_scale);
}

TEST_CASE("a comparison with a peer names a preset, and says why not all values were equal", "[quick]") {
  const Json peers = parse_json(embedded("peers.json"), "peers.json");
  const auto check = [&](const std::string& topic, size_t count, const auto& is_known) {
    REQUIRE(peers.at(topic).size() >= count);
    for (const auto& [name, peer] : peers.at(topic).items()) {
      INFO(name);
      const int64_t equal = peer.at("values_equal"), compared = peer.at("values_compared");
      CHECK(is_known(name));
      CHECK((equal > 0 && equal <= compared));
      CHECK((equal == compared || peer.at("difference") != ""));
    }
  };
  check("presets", 26, [](const std::string& name) { return find_preset(name) != nullptr; });
  check("accumulators", 3, [](const std::string& name) { return find_row(accumulator_table, name) != nullptr; });
}

TEST_CASE("words that contradict each other are refused by reason", "[quick]") {
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,compute=bf16"), Contains("arithmetic must not be exact"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,exponent=float_log2,scale_rule=uos"), Contains("floor, ceil, rceil"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,decode=divide_global"), Contains("starts from S"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,decode=factor_first,prescale=0.75"), Contains("prescale"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,scale_rule=encode,arithmetic=vllm"),
                    Contains("scale_rule encode is defined for"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,payload=vllm"), Contains("need an arithmetic in fp32"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,arithmetic=divide,payload=divide_global"), Contains("read S"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,payload_type=bf16"), Contains("takes no tensor scale"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,factor_order=inverse"), Contains("starts from S"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,factor=2"), Contains("tensor_scale=NUMBER"));
  CHECK_THROWS_WITH(quant_spec_from_words("te_nvfp4,error_order=scaled"), Contains("four_over_six or mse"));
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,scale_add=1e-8"), Contains("quest_floor"));
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,scale_ceiling=1,scale_floor=2"), Contains("scale_ceiling"));
  for (const Preset& p : preset_table) CHECK(invalid_reason(p.spec).empty());
}
