// What is written says what was measured: every scheme with every preset, and schemes that say their factor wrongly.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "fp4/presets.h"
#include "src/files/gguf.h"
#include "src/files/output.h"
#include "src/files/tensor_writer.h"
#include "src/model/decode.h"
#include "src/model/model_write.h"
#include "src/model/weight_reader.h"
#include "src/text/error.h"
#include "tests/support/support.h"

namespace {

using namespace fp4;

// [rows, 128] of the size of weights, no two rows alike; rows and columns fit every scheme.
std::vector<float> made_up(int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows * 128));
  uint32_t state = 12345;
  for (size_t i = 0; i < x.size(); ++i) {
    float sum = -6;
    for (int k = 0; k < 12; ++k) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<float>(state >> 8) * 0x1p-24f;
    }
    x[i] = sum * 0.02f * static_cast<float>(1 + i / 128 % 3);
  }
  return x;
}

// The NMSE of a folder's decoded weight against x.
double loss_of(const std::string& folder, const std::string& out, const std::string& name,
               const std::vector<float>& x) {
  ModelJob job;
  job.in = folder;
  job.out = out;
  job.force = true;
  convert_model(job);
  const FloatTensor y = load_floats(out + "/m.safetensors:" + name);
  REQUIRE(y.values.size() == x.size());
  double errors = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    errors += std::pow(static_cast<double>(y.values[i]) - static_cast<double>(x[i]), 2);
    squares += std::pow(static_cast<double>(x[i]), 2);
  }
  return errors / squares;
}

// A weight that the scheme takes: those of experts alone are in FP4 in two of them, gpt-oss's as stacks [E, in, out].
struct Weights {
  explicit Weights(const test::TemporaryFolder& folder, const std::string& scheme = "")
      : path(folder / "m.safetensors"), x(made_up(48)) {
    set_output_sync(false);
    std::filesystem::remove(path);
    Shape shape = {48, 128};
    if (scheme == "deepseek_mxfp4") name = "l.experts.0.up_proj.weight";
    if (scheme == "gpt_oss_mxfp4") name = "l.experts.down_proj", shape = {1, 128, 48};
    const auto fill = [&](auto&& writer) {
      writer.write(x.data(), x.size() * sizeof(float));
      writer.commit();
    };
    if (scheme.starts_with("ggml")) {
      path = folder / "m.gguf";
      fill(GgufWriter(path, {}, {{name, &gguf_type_of("test", Dtype::f32), shape, 0, 0}}, true));
    } else {
      fill(SafetensorsWriter(path, {{name, Dtype::f32, shape}}));
    }
  }
  std::string path, name = "l.up_proj.weight";
  std::vector<float> x;
};

}  // namespace

TEST_CASE("every scheme with every preset decodes within its reported error or is refused", "[cli]") {
  const test::TemporaryFolder folder;
  for (const CheckpointScheme& scheme : checkpoint_schemes) {
    const Weights source(folder, std::string(scheme.name));
    int written = 0;
    for (const Preset& preset : preset_table)
      for (const char* more : {"", ",decode=divide_global", ",decode=amax_first", ",rounding=stochastic"}) {
        ModelJob job;
        job.in = source.path;
        job.out = folder / "out";
        job.scheme = &scheme;
        job.words = (scheme.is_fp8() ? scheme.spec : std::string(preset.name)) + more;
        if (scheme.is_fp8() && std::string(preset.name) != "mxfp8") continue;
        job.force = true;
        job.backend = "auto";
        ModelResult result;
        try {
          result = convert_model(job);
        } catch (const Error& error) {
          REQUIRE(error.kind == fp4::Error::bad_input);  // refused; 1 is what was written and not read back
          continue;
        }
        INFO(scheme.name << " --spec " << job.words);
        ++written;
        const double told = result.lines.at(0).report.nmse();
        const double found = loss_of(job.out, folder / "back", source.name, source.x);
        CHECK(found == Approx(told).epsilon(1e-5));
        CHECK(found < (job.words.ends_with("stochastic") ? 0.06 : 0.05));  // .054 under rounded-up scales
        std::filesystem::remove_all(job.out);
      }
    INFO(scheme.name);
    // A scheme that refuses everything would pass the loop; mlx_nvfp4 has no tensor scale, so one preset fewer fits,
    // and FP8 has its own words alone.
    CHECK(written >= (scheme.is_fp8() ? 2 : std::string(scheme.name) == "mlx_nvfp4" ? 7 : 8));
  }
}

TEST_CASE("a factor that is written with another meaning is caught before anything is kept", "[cli]") {
  const test::TemporaryFolder folder;
  int flipped = 0;
  for (const CheckpointScheme& scheme : checkpoint_schemes)
    for (const Factor meaning : {Factor::direct, Factor::reciprocal, Factor::amax}) {
      if (scheme.meaning == Factor::one || scheme.meaning == meaning) continue;
      const Weights source(folder, scheme.name);
      CheckpointScheme wrong = scheme;
      wrong.meaning = meaning;
      ModelJob job;
      job.in = source.path;
      job.out = folder / "flipped";
      job.scheme = &wrong;
      job.words = "nvfp4";
      INFO(scheme.name << " with meaning " << static_cast<int>(meaning));
      ++flipped;
      CHECK_THROWS_WITH(convert_model(job), Catch::Contains("read back") && Catch::Contains("l.up_proj.weight"));
      CHECK(!std::filesystem::exists(job.out));
    }
  CHECK(flipped == 6);  // three schemes have factors
}

TEST_CASE("codes or scales in another order than the scheme's are caught before anything is kept", "[cli]") {
  const test::TemporaryFolder folder;
  const Weights source(folder);
  CheckpointScheme wrong = scheme_of("test", "modelopt_nvfp4");
  wrong.scales = "weight_scale_inv";  // a name that the scheme's reader does not know
  ModelJob job;
  job.in = source.path;
  job.out = folder / "names";
  job.scheme = &wrong;
  CHECK_THROWS_WITH(convert_model(job), Catch::Contains("read back"));
  CHECK(!std::filesystem::exists(job.out));
}

TEST_CASE("codes with the even column in the high nibble decode alike", "[cli]") {
  const test::TemporaryFolder folder;
  const Weights source(folder);
  std::vector<unsigned char> codes[2];
  std::vector<float> decoded[2];
  for (const bool high : {false, true}) {
    ModelJob job;
    job.in = source.path;
    job.out = folder / (high ? "high" : "low");
    job.scheme = &scheme_of("test", "modelopt_nvfp4");
    if (high) job.layouts.nibbles = golden::CodeLayout::high_first;
    convert_model(job);
    codes[high] = load_raw(job.out + "/m.safetensors:" + source.name).bytes;
    WeightReader reader(model_tensors({job.out + "/m.safetensors"}, job.layouts).at(0));
    decoded[high].resize(source.x.size());
    reader.read_rows(0, reader.rows(), decoded[high].data(), 1);
  }
  CHECK(decoded[0] == decoded[1]);
  REQUIRE(codes[0].size() == codes[1].size());
  for (size_t i = 0; i < codes[0].size(); ++i)
    REQUIRE(codes[1][i] == static_cast<unsigned char>(codes[0][i] >> 4 | codes[0][i] << 4));
}

TEST_CASE("weights that engines join share the factor of the largest, by hand", "[cli]") {
  const test::TemporaryFolder folder;
  set_output_sync(false);
  const char* const names[] = {"l.self_attn.q_proj", "l.self_attn.k_proj", "l.self_attn.v_proj"};
  const float largest[] = {2688.0f, 5376.0f, 1344.0f};  // 448 * 6 is the amax whose factor is 1
  ModelJob job;
  job.in = folder / "m.safetensors";
  std::vector<TensorInfo> infos;
  for (const char* name : names) infos.push_back({std::string(name) + ".weight", Dtype::f32, {48, 128}});
  SafetensorsWriter writer(job.in, infos);
  for (const float amax : largest) {
    std::vector<float> x = made_up(48);
    x[100] = amax;
    writer.write(x.data(), x.size() * sizeof(float));
  }
  writer.commit();
  job.out = folder / "out";
  job.scheme = &scheme_of("test", "modelopt_nvfp4");
  convert_model(job);
  for (const char* name : names)
    CHECK(load_floats(job.out + "/m.safetensors:" + name + ".weight_scale_2").values == std::vector<float>{2.0f});
}

TEST_CASE("shards have an index with the bytes that were written, and tensors random bits of their own", "[cli]") {
  const test::TemporaryFolder folder;
  set_output_sync(false);
  const std::vector<float> x = made_up(48);
  ModelJob job;
  job.in = folder / "model";
  std::filesystem::create_directory(job.in);
  for (const char* name : {"a", "b"}) {
    SafetensorsWriter writer(job.in + "/" + name + ".safetensors",
                             {{std::string(name) + ".down_proj.weight", Dtype::f32, {48, 128}}});
    writer.write(x.data(), x.size() * sizeof(float));
    writer.commit();
  }
  job.out = folder / "out";
  job.scheme = &scheme_of("test", "modelopt_nvfp4");
  job.words = "nvfp4,rounding=stochastic";
  convert_model(job);
  // Two weights of 48 * 64 bytes of codes, 48 * 8 of scales and a factor.
  CHECK_THAT(test::read_text(job.out + "/model.safetensors.index.json"), Catch::Contains("\"total_size\": 6920"));
  const auto codes = [&](const std::string& name) {
    return load_raw(job.out + "/" + name + ".safetensors:" + name + ".down_proj.weight").bytes;
  };
  CHECK(codes("a").size() == 48 * 64);
  CHECK(codes("a") != codes("b"));  // of the same numbers
}

// Every code under every scale, factors that overflow and vanish.
TEST_CASE("weights decode bit for bit as the core does in every order", "[quick]") {
  for (const CheckpointScheme& scheme : checkpoint_schemes)
    for (const Decode order :
         {Decode::scale_then_tensor, Decode::factor_first, Decode::divide_global, Decode::amax_first})
      for (const float factor : {1.0f, 0.0021f, 3e38f, 1e-38f, 1e-44f}) {
        if (scheme.is_fp8()) continue;
        Quantized q;
        q.spec = reading_spec(scheme);
        q.spec.decode = order;
        q.rows = 256;
        q.cols = scheme.block;
        q.geometry = geometry_of(q.spec, q.rows, q.cols);
        const uint32_t scales = uint32_t{1} << format_of(q.spec.scale).code_bits();
        for (uint32_t row = 0; row < 256; ++row) {
          q.scales.push_back(static_cast<uint8_t>(row % scales));
          for (uint32_t i = 0; i < static_cast<uint32_t>(scheme.block) / 2; ++i)
            q.codes.push_back(static_cast<uint8_t>(i * 17 + row * 31));
        }
        q.tensor_scale = {factor};
        std::vector<float> fast(static_cast<size_t>(q.rows * q.cols)), core(fast.size());
        decode_weight(Dispatcher(), q, fast.data(), 1);
        Dispatcher("reference").dequantize(q, core.data());
        INFO(scheme.name << " " << row_of(decode_table, order).name << " " << factor);
        CHECK(std::memcmp(fast.data(), core.data(), fast.size() * sizeof(float)) == 0);
      }
}

// By hand: 448 * 6 = 2688.
TEST_CASE("a factor is said in each meaning", "[quick]") {
  CHECK(factor_in(Factor::reciprocal, Factor::direct, 0.25f, 2688.0f) == 4.0f);
  CHECK(factor_in(Factor::direct, Factor::reciprocal, 4.0f, 2688.0f) == 0.25f);
  CHECK(factor_in(Factor::amax, Factor::direct, 0.25f, 2688.0f) == 672.0f);
  CHECK(factor_in(Factor::direct, Factor::amax, 672.0f, 2688.0f) == Approx(0.25f));
  CHECK(factor_in(Factor::direct, Factor::direct, 3.0f, 2688.0f) == 3.0f);
  CHECK(meaning_of(Decode::scale_then_tensor) == Factor::direct);
  CHECK(meaning_of(Decode::factor_first) == Factor::direct);
  CHECK(meaning_of(Decode::divide_global) == Factor::reciprocal);
  CHECK(meaning_of(Decode::amax_first) == Factor::amax);
}
