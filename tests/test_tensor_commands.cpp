// The tensor commands with the real binary: files judged by numpy (tensor_commands.py), bits by the oracle, and the
// independence of how a tensor is cut into bands.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/arith/spec_text.h"
#include "src/files/tensor_writer.h"
#include "src/stream/quantize_files.h"
#include "tests/support/support.h"

using fp4::test::fp4sim_path;
using fp4::test::read_text;
using fp4::test::run_shell;

namespace {

std::string python() {
  const char* given = std::getenv("FP4SIM_PYTHON");
  return given != nullptr ? given : "/usr/bin/python3";
}

}  // namespace

TEST_CASE("numpy agrees with files, shapes, worked examples and refusals", "[cli]") {
  const auto result = run_shell(python() + " tests/tensor_commands.py '" + fp4sim_path() + "'");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("the oracle agrees with the binary in every bit", "[cli]") {
  const auto result =
      run_shell(python() + " tools/scripts/oracle.py check '" + fp4sim_path() + "' --cases 60 --seed 20261120");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("how a tensor is cut into bands changes no file", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  constexpr std::size_t rows = 75, cols = 2050;  // several pieces of a band
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = fp4::random_uniform({9, 1, 0}, i) * 10.0f - 5.0f;
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {rows, cols}, x.data());
  for (const char* words : {"nvfp4,rounding=stochastic,scale_rounding=stochastic",
                            "mxfp4,block=32x32,rounding=stochastic", "nvfp4,tensor_scale=outer128",
                            "mxfp4,block=tensor", "nvfp4,block=16x16", "bf16", "nvfp4,nonfinite=tensor_nan"}) {
    INFO(words);
    x[0] = std::string_view(words).ends_with("tensor_nan") ? std::nanf("") : 1.0f;  // the first thread's
    fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {rows, cols}, x.data(), true);
    fp4::folder::QuantizeJob job;
    job.in = folder / "x.npy";
    job.spec = fp4::quant_spec_from_words(words);
    job.place = {3, 32, 7};
    job.force = true;
    job.out = folder / "whole";
    const auto whole = fp4::folder::quantize_to_folder(job);
    job.out = folder / "bands";
    job.band_bytes = 1;  // one block of rows at a time
    job.threads = 2;
    const auto bands = fp4::folder::quantize_to_folder(job);
    CHECK((whole.nmse() == bands.nmse() || (std::isnan(whole.nmse()) && std::isnan(bands.nmse()))));
    CHECK(whole.clipped == bands.clipped);
    for (const char* name : {"codes.npy", "tensor_scale.npy", "dequantized.npy", "scales.npy"}) {
      if (!job.spec.has_scale() && std::string_view(name) == "scales.npy") continue;
      INFO(name);
      CHECK(read_text(folder / "whole/" + name) == read_text(folder / "bands/" + name));
    }
  }
}

TEST_CASE("compare measures what quantize measures, tensor by tensor, and totals", "[cli]") {
  using Json = nlohmann::json;
  const fp4::test::TemporaryFolder folder;
  std::vector<float> a(4 * 32), b(8 * 32);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = fp4::random_uniform({1, 1, 0}, i) - 0.5f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = i % 32 == 0 ? 6.0f : 3.0f;  // exact in every format
  std::filesystem::create_directory(folder / "model");
  const std::int32_t count = 7;
  const auto shard = [&](const char* name, std::vector<fp4::TensorInfo> tensors, const std::vector<float>& x) {
    fp4::SafetensorsWriter out(folder / "model/" + name, tensors);
    out.write(x.data(), x.size() * 4);
    if (tensors.size() > 1) out.write(&count, 4);
    out.commit();
  };
  shard("model-1.safetensors", {{"a", fp4::Dtype::f32, {4, 32}}}, a);
  shard("model-2.safetensors", {{"b", fp4::Dtype::f32, {8, 32}}, {"count", fp4::Dtype::i32, {1}}}, b);
  const auto result = fp4::test::run_cli("compare " + (folder / "model") + " --specs mxfp4 nvfp4 --json");
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("count: i32 (1,) left out"));
  const Json rows = Json::parse(result.out).at("rows");
  REQUIRE(rows.size() == 6);
  for (const Json& row : rows) {
    // mxfp4: 4 bits and 8 for each 32; nvfp4: 4 bits, 8 for each 16, and 32 for the tensor
    const double elements = row.at("elements"), tensors = row.at("tensor") == "all" ? 2 : 1;
    const double scales = row.at("spec") == "mxfp4" ? 8.0 / 32 : 8.0 / 16;
    const double factors = row.at("spec") == "mxfp4" ? 0 : 32 * tensors / elements;
    CHECK(row.at("bits_per_element").get<double>() == Approx(4 + scales + factors));
  }
  CHECK(rows[2].at("nmse") == 0.0);
  CHECK(rows[2].at("decibels").is_null());
  CHECK(rows[2].at("best") == true);
  CHECK(rows[3].at("best") == false);  // of equal ones the first
  const auto one = fp4::test::run_cli("quantize " + (folder / "model/model-1.safetensors") +
                                      " --spec nvfp4 --json --out " + (folder / "q"));
  CHECK(Json::parse(one.out).at("nmse") == rows[1].at("nmse"));
  double squares = 0;
  for (const float x : a) squares += static_cast<double>(x) * static_cast<double>(x);
  const double noise = rows[1].at("nmse").get<double>() * squares;
  for (const float x : b) squares += static_cast<double>(x) * static_cast<double>(x);
  CHECK(rows[5].at("nmse").get<double>() == Approx(noise / squares));
}

TEST_CASE("compare of a model measures what quantising it changes", "[cli]") {
  using Json = nlohmann::json;
  using fp4::Dtype;
  const fp4::test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  const std::vector<fp4::TensorInfo> tensors = {
      {"0.bias", Dtype::f32, {32}},       {"0.weight", Dtype::f32, {32, 64}},    {"1.norm.weight", Dtype::f32, {64}},
      {"2.weight", Dtype::f32, {16, 64}}, {"embed.weight", Dtype::f32, {8, 64}}, {"temperature", Dtype::f32, {2, 16}}};
  fp4::SafetensorsWriter out(folder / "model/model.safetensors", tensors);
  for (const fp4::TensorInfo& t : tensors)
    for (std::uint64_t i = 0; i < fp4::byte_count("test", t.dtype, t.shape) / 4; ++i) {
      const float x = fp4::random_uniform({1, 1, 0}, i) - 0.5f;
      out.write(&x, 4);
    }
  out.commit();
  const std::string model = folder / "model";
  const auto compare = [&](const std::string& words) {
    const auto result = fp4::test::run_cli("compare " + model + words + " --specs nvfp4 mxfp4 --json");
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return std::pair(Json::parse(result.out).at("rows"), result.err);
  };
  const auto [rows, notes] = compare("");
  REQUIRE(rows.size() == 6);  // two weights and all
  CHECK(rows[0].at("tensor") == "0.weight");
  CHECK(rows[2].at("tensor") == "2.weight");
  CHECK_THAT(notes, Catch::Contains("1 bias, 1 embedding, 1 no weight by its name, 1 norm; --all-tensors"));
  const auto quantised =
      fp4::test::run_cli("quantize " + model + " --scheme modelopt_nvfp4 --json --out " + (folder / "q"));
  INFO(quantised.err);
  REQUIRE(quantised.exit_code == 0);
  CHECK(rows[4].at("nmse").get<double>() ==
        Approx(Json::parse(quantised.out).at("nmse").get<double>()).epsilon(1e-5));  // decodes in another order
  CHECK(compare(" --all-tensors").first.size() == 14);
  CHECK(compare("/model.safetensors:0.bias").first.size() == 2);  // named
  const auto note = fp4::test::run_cli("compare " + model + " --specs element=e2m1,scale=ue4m3,block=16");
  CHECK_THAT(note.err, Catch::Contains("scale_rule=floor") && Catch::Contains("mantissa of ue4m3 is unused"));
}

TEST_CASE("bits an element count a bf16 scale as 16", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<float> x(4 * 64, 1.0f);
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {4, 64}, x.data());
  const auto result = fp4::test::run_cli("compare " + (folder / "x.npy") +
                                         " --specs mxfp4,scale=bf16,block=16 mxfp4,scale=fp32 --json");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  CHECK(rows[0].at("bits_per_element") == 5.0);  // 4 + 16/16
  CHECK(rows[1].at("bits_per_element") == 5.0);  // 4 + 32/32
}

// Sizes by hand: of 4, 1, 3, 2 the elements 4 and 3 stay, of the pairs (4, 1), (3, 2), (4, 1), (3, 2) the first two; of
// 6, 0, 0, -6, 1, 1, 1, 2 the sixes, 2 and the earlier 1, and the pairs of the sixes. All are exact in mxfp4.
TEST_CASE("compare counts what a mask leaves out as error, and half of the codes", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  std::vector<float> x;
  for (int i = 0; i < 8; ++i) x.insert(x.end(), {4, 1, 3, 2});
  for (int i = 0; i < 4; ++i) x.insert(x.end(), {6, 0, 0, -6, 1, 1, 1, 2});
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {2, 32}, x.data());
  const std::string words = "compare " + (folder / "x.npy") + " --specs mxfp4 --json --sparse ";
  const auto result = fp4::test::run_cli(words + "none 2:4 --sparse 4:8");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  REQUIRE(rows.size() == 3);
  const struct {
    const char* sparse;
    double squares, largest, bits;
  } expected[] = {{"none", 0, 0, 4.25},
                  {"2:4", 8 * 5 + 4 * 2, 2, 4.0 / 2 + 1 + 8.0 / 32},
                  {"4:8", 4 * 30 + 4 * 7, 4, 4.0 / 2 + 0.5 + 8.0 / 32}};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(rows[i].at("sparse") == expected[i].sparse);
    CHECK(rows[i].at("nmse").get<double>() == Approx(expected[i].squares / (8 * 30 + 4 * 79)));
    CHECK(rows[i].at("largest_error") == expected[i].largest);
    CHECK(rows[i].at("bits_per_element") == expected[i].bits);
  }
  CHECK(rows[0].at("best") == true);
  const auto refused = fp4::test::run_cli(words + "2:3");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("'2:3'") && Catch::Contains("none, 2:4, 4:8"));
  const auto small = fp4::test::run_cli("compare " + (folder / "x.npy") + " --specs mxfp4,block=8 --sparse 2:4");
  CHECK(small.exit_code == 2);
  CHECK_THAT(small.err, Catch::Contains("mxfp4,block=8") && Catch::Contains("at least 16"));
}

TEST_CASE("inspect finds the parts of a weight in every scheme", "[cli]") {
  using fp4::Dtype;
  const fp4::test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  const auto shard = [&](const char* name, const std::vector<fp4::TensorInfo>& tensors) {
    fp4::SafetensorsWriter out(folder / "model/" + name, tensors);
    for (const fp4::TensorInfo& t : tensors) {
      const std::vector<char> zeros(fp4::byte_count("test", t.dtype, t.shape));
      out.write(zeros.data(), zeros.size());
    }
    out.commit();
  };
  // The layouts as the projects document them; a weight's parts may lie in two shards.
  shard("model-00001-of-00002.safetensors", {{"a.weight", Dtype::u8, {8, 32}},
                                             {"a.weight_scale", Dtype::f8_e4m3, {8, 4}},
                                             {"a.weight_scale_2", Dtype::f32, {}},
                                             {"b.weight_packed", Dtype::u8, {4, 64}},
                                             {"b.weight_scale", Dtype::f8_e4m3, {4, 8}},
                                             {"c.gate_up_proj_blocks", Dtype::u8, {2, 6, 3, 16}},
                                             {"d.weight", Dtype::i8, {4, 16}},
                                             {"norm.weight", Dtype::bf16, {64}}});
  shard("model-00002-of-00002.safetensors", {{"b.weight_global_scale", Dtype::f32, {1}},
                                             {"c.gate_up_proj_scales", Dtype::u8, {2, 6, 3}},
                                             {"d.scale", Dtype::f8_e8m0, {4, 1}},
                                             {"e.weight_packed", Dtype::u8, {2, 32}},
                                             {"e.weight_scale", Dtype::u8, {2, 2}},
                                             {"f.weight", Dtype::u8, {2, 32}},
                                             {"f.weight_scale", Dtype::f8_e4m3, {2, 5}}});
  const auto result = fp4::test::run_cli("inspect " + (folder / "model") + " --json");
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::map<std::string, nlohmann::json> rows;
  const nlohmann::json all = nlohmann::json::parse(result.out);
  for (const auto& row : all.at("rows")) rows[row.at("tensor")] = row;
  const auto check = [&](const char* name, const char* scheme, std::vector<int> shape, int bytes) {
    INFO(name);
    CHECK(rows.at(name).at("scheme") == scheme);
    CHECK(rows.at(name).at("shape") == nlohmann::json(shape));
    CHECK(rows.at(name).at("bytes") == bytes);
  };
  check("a.weight", "modelopt_nvfp4", {8, 64}, 256 + 32 + 4);
  check("b.weight_packed", "compressed_tensors_nvfp4", {4, 128}, 256 + 32 + 4);
  check("c.gate_up_proj_blocks", "gpt_oss_mxfp4", {2, 6, 96}, 576 + 36);
  check("d.weight", "deepseek_mxfp4", {4, 32}, 64 + 4);
  check("e.weight_packed", "compressed_tensors_mxfp4", {2, 64}, 64 + 4);
  CHECK(rows.at("norm.weight").at("scheme").is_null());
  // 5 scales a row are none of blocks of 16: the weight is named, with its scales, and not understood.
  CHECK_THAT(rows.at("f.weight").at("note").get<std::string>(), Catch::Contains("f.weight_scale has shape (2, 5)"));
  CHECK(all.at("not_understood") == 1);
  CHECK(rows.size() == 7);
}

TEST_CASE("a tensor that the index names and its shard lacks is refused by name", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  const std::vector<float> x(2 * 32, 1.0f);
  fp4::SafetensorsWriter shard(folder / "model/m-1.safetensors", {{"l0.weight", fp4::Dtype::f32, {2, 32}}});
  shard.write(x.data(), x.size() * 4);
  shard.commit();
  const auto index = [&](const std::string& tensors) {
    fp4::test::write_text(folder / "model/model.safetensors.index.json", "{\"weight_map\": {" + tensors + "}}");
  };
  const std::string out = folder / "out", held = R"("l0.weight": "m-1.safetensors")";
  index(held + R"(, "l1.weight": "m-1.safetensors")");
  for (const std::string& command :
       {"inspect " + (folder / "model"), "compare " + (folder / "model") + " --specs mxfp4",
        "quantize " + (folder / "model") + " --scheme modelopt_nvfp4 --out " + out}) {
    const auto result = fp4::test::run_cli(command);
    INFO(command << result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains("model.safetensors.index.json") && Catch::Contains("m-1.safetensors") &&
                               Catch::Contains("l1.weight: the file has no such tensor"));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  index(held);
  CHECK(fp4::test::run_cli("inspect " + (folder / "model")).exit_code == 0);
}

TEST_CASE("a model is not written beside remains of another", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<float> x(2 * 32, 1.0f);
  for (const char* name : {"one", "two"}) {
    fp4::SafetensorsWriter model(folder / (std::string(name) + ".safetensors"),
                                 {{"l.weight", fp4::Dtype::f32, {2, 32}}});
    model.write(x.data(), x.size() * 4);
    model.commit();
  }
  const auto quantise = [&](const std::string& name) {
    return fp4::test::run_cli("quantize " + (folder / name) + " --scheme modelopt_nvfp4 --force --out " +
                              (folder / "out"));
  };
  REQUIRE(quantise("one.safetensors").exit_code == 0);
  CHECK(quantise("one.safetensors").exit_code == 0);
  const auto other = quantise("two.safetensors");
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Catch::Contains("out/one.safetensors: is of another model"));
  CHECK_FALSE(std::filesystem::exists(folder / "out/two.safetensors"));
  std::filesystem::remove(folder / "out/one.safetensors");
  fp4::test::write_text(folder / "out/model.safetensors.index.json", "{}");
  CHECK_THAT(quantise("two.safetensors").err, Catch::Contains("model.safetensors.index.json: is of another model"));
}

TEST_CASE("options that would do nothing are refused", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<float> x(2 * 32, 1.0f);
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {2, 32}, x.data());
  fp4::SafetensorsWriter model(folder / "m.safetensors", {{"l.weight", fp4::Dtype::f32, {2, 32}}});
  model.write(x.data(), x.size() * 4);
  model.commit();
  REQUIRE(fp4::test::run_cli("quantize " + (folder / "x.npy") + " --spec mxfp4 --out " + (folder / "q")).exit_code ==
          0);
  const std::string out = " --out " + (folder / "out.npy");
  const auto refused = [&](const std::string& command, const std::string& option, const std::string& owner) {
    const auto result = fp4::test::run_cli(command + " " + option + out);
    INFO(command << " " << option << ": " << result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(option.substr(0, option.find(' ')) + " belongs to " + owner));
    CHECK_FALSE(std::filesystem::exists(folder / "out.npy"));
  };
  for (const char* option : {"--transpose", "--unpacked", "--entry foo", "--shape 3x4", "--dtype bf16", "--bf16",
                             "--explain", "--random-words none.npy"})
    refused("quantize " + (folder / "m.safetensors") + " --scheme modelopt_nvfp4", option, "one tensor with --spec");
  for (const char* option : {"--tensors '*'", "--keep '*'"})
    refused("quantize " + (folder / "x.npy") + " --spec mxfp4", option, "--scheme");
  for (const char* option : {"--type nope", "--type bf16", "--tensors foo", "--json"})
    refused("dequantize " + (folder / "q"), option, "models, and " + (folder / "q") + " is none");
  const std::string codes = folder / "q", numbers = folder / "x.npy";
  refused("gemm " + codes + " " + codes, "--spec nvfp4", "operands of numbers; " + codes);
  refused("gemm " + codes + " " + numbers + " --spec-b mxfp4", "--spec nvfp4", "operands of numbers; " + codes);
  refused("gemm " + numbers + " " + codes + " --spec mxfp4", "--spec-b nvfp4", "operands of numbers; " + codes);
  for (const char* option : {"--signs fixed", "--normalise fold", "--hadamard-output bf16"})
    refused("gemm " + numbers + " " + numbers + " --spec mxfp4", option, "--hadamard");
}

TEST_CASE("results of one array are not written under the name of a container", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<float> x(2 * 32, 1.0f);
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {2, 32}, x.data());
  REQUIRE(fp4::test::run_cli("quantize " + (folder / "x.npy") + " --spec mxfp4 --out " + (folder / "q")).exit_code ==
          0);
  for (const std::string& command : {"hadamard " + (folder / "x.npy") + " --size 16", "dequantize " + (folder / "q"),
                                     "gemm " + (folder / "x.npy") + " " + (folder / "x.npy") + " --spec mxfp4",
                                     std::string("random --bits 8 --count 4")})
    for (const char* name : {"y.safetensors", "y.npz", "y.gguf"}) {
      const auto result = fp4::test::run_cli(command + " --out " + (folder / name));
      INFO(command << " " << name << ": " << result.err);
      CHECK(result.exit_code == 2);
      CHECK_THAT(result.err, Catch::Contains(name) && Catch::Contains("accepted: .npy"));
      CHECK_FALSE(std::filesystem::exists(folder / name));
    }
}

TEST_CASE("--force leaves no scales of the result before it", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<float> x(2 * 32, 1.0f);
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {2, 32}, x.data());
  const std::string command = "quantize " + (folder / "x.npy") + " --out " + (folder / "q") + " --spec ";
  REQUIRE(fp4::test::run_cli(command + "nvfp4").exit_code == 0);
  REQUIRE(std::filesystem::exists(folder / "q/scales.npy"));
  fp4::test::write_text(folder / "q/notes.txt", "mine");
  REQUIRE(fp4::test::run_cli(command + "bf16 --force").exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "q/scales.npy"));
  CHECK(read_text(folder / "q/notes.txt") == "mine");
}
