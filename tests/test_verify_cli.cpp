// `fp4sim verify` without a bundle, on tiles with padding, on values in bf16; `golden pack` and its reader; bundles of
// hashes.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fp4/arithmetic.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "src/layout/digit_layout.h"
#include "tests/support/support.h"

using fp4::test::run_cli;
using fp4::test::TemporaryFolder;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

std::string out_of(const std::string& words, int exit_code) {
  const auto result = run_cli(words);
  INFO(words << "\n" << result.out << result.err);
  REQUIRE(result.exit_code == exit_code);
  return result.out + result.err;
}

}  // namespace

TEST_CASE("a dump is judged beside its input and a spec, without a bundle", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "";
  out_of("golden make --spec vllm_nvfp4 --shape 16x64 --out " + at + "g", 0);
  const std::string x = at + "g/vllm_nvfp4.boundary.16x64/input.npy";
  out_of("quantize " + x + " --spec vllm_nvfp4 --out " + at + "right", 0);
  CHECK_THAT(out_of("verify --input " + x + " --spec vllm_nvfp4 --candidate " + at + "right", 0),
             Catch::Contains("equal in 1 of 1 cases; stages scales tensor_scale codes dequantized"));
  const auto& bytes = fp4::load_raw(x).bytes;  // the same without a header; the dump's files have theirs
  std::ofstream(at + "x.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const std::string raw = "verify --input " + at + "x.bin --spec vllm_nvfp4 --candidate " + at + "right";
  CHECK_THAT(out_of(raw + " --dtype f32 --shape 16x64", 0), Catch::Contains("equal in 1 of 1 cases"));
  CHECK_THAT(out_of(raw + " --dtype f31 --shape 16x64", 2), Catch::Contains("unknown") && Catch::Contains("f32"));
  out_of("quantize " + x + " --spec vllm_nvfp4,scale_rounding=stochastic --seed 5 --out " + at + "drawn", 0);
  const Json drawn =
      Json::parse(out_of("verify --input " + x + " --spec vllm_nvfp4 --seed 5 --json --candidate " + at + "drawn", 1));
  REQUIRE(drawn.at("diagnosis").at(0).at("cause") == "scale_rounding=stochastic");
  // The words that it prints make the dump again.
  const std::string words = drawn.at("diagnosis").at(0).at("spec");
  out_of("quantize " + x + " --spec " + words + " --seed 5 --out " + at + "again", 0);
  for (const char* name : {"codes", "scales"})
    CHECK(fp4::test::read_text(at + "again/" + name + ".npy") == fp4::test::read_text(at + "drawn/" + name + ".npy"));
  // A product, whose adder is the cause.
  out_of("golden make --spec mxfp4 --shape 4x3x512 --accumulators exact,fused25_rz --out " + at + "p", 0);
  const std::string p = at + "p/gemm.mxfp4.spread.4x512x3/";
  fs::create_directory(at + "dump");
  fs::copy_file(p + "output_fused25_rz.npy", at + "dump/output.npy");
  const std::string product = "verify --input " + p + "a.npy --input-b " + p + "b.npy --spec mxfp4 --candidate " + at +
                              "dump --accumulator exact";
  CHECK_THAT(out_of(product, 1), Catch::Contains("equals accumulator=fused25_rz"));
  CHECK_THAT(out_of("verify --candidate " + at + "dump", 2), Catch::Contains("say --golden DIR, or --spec"));
  CHECK_THAT(out_of("verify --golden " + at + "g --spec mxfp4 --candidate " + at + "dump", 2),
             Catch::Contains("--golden DIR has its own inputs"));
  CHECK_THAT(out_of("verify --spec mxfp4 --candidate " + at + "dump", 2),
             Catch::Contains("both --spec SPEC and --input"));
}

TEST_CASE("padding of tiles is told apart from scales, and can be required to be zero", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "", name = "vllm_nvfp4.boundary.40x80";
  out_of("golden make --spec vllm_nvfp4 --shape 40x80 --input-type bf16 --seed 3 --out " + at + "g", 0);
  fp4::RawTensor scales = fp4::load_raw(at + "g/" + name + "/scales_128x4.npy");
  const auto& tiles = fp4::row_of(fp4::golden::scale_layout_table, fp4::golden::ScaleLayout::tile_128x4);
  const fp4::golden::Placement place(tiles.placing, 40, 5);
  std::vector<bool> is_real(scales.bytes.size(), false);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t k = 0; k < 5; ++k) is_real[static_cast<size_t>(place.at(r, k))] = true;
  for (size_t i = 0; i < is_real.size(); ++i)
    if (!is_real[i]) scales.bytes[i] = static_cast<unsigned char>(1 + i % 126);
  fs::create_directories(at + "d/" + name);
  const auto save = [&] {
    fp4::save_tensor(at + "d/" + name + "/scales_128x4.npy", fp4::Dtype::u8, scales.shape, scales.bytes.data(), true);
  };
  save();
  const std::string verify = "verify --golden " + at + "g --candidate " + at + "d";
  const std::string alone = out_of(verify, 0);
  CHECK_THAT(alone, Catch::Contains("not judged: 824 elements of padding that are not zero"));
  CHECK_THAT(alone, Catch::Contains("equal in 1 of 1 cases"));
  CHECK_THAT(out_of(verify + " --require padding", 1), Catch::Contains("--require padding: 824"));
  scales.bytes[static_cast<size_t>(place.at(3, 2))] ^= 1;
  save();
  const std::string wrong = out_of(verify, 1);
  CHECK_THAT(wrong, Catch::Contains("[3, 2]"));
  CHECK_THAT(wrong, Catch::Contains("1 of 200 elements differ"));
}

TEST_CASE("a dump of one's own is named by its file, and its mismatches can be checked by hand", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "";
  // One block of mxfp4 a row; the largest is 6, so the scale is 1 and the code that of x itself.
  std::vector<float> x(4 * 32, 0.0f);
  for (size_t r = 0; r < 4; ++r) x[32 * r] = 6, x[32 * r + 1] = 1.25f, x[32 * r + 2] = -0.75f, x[32 * r + 3] = 1.4f;
  fp4::save_tensor(at + "mine.npy", fp4::Dtype::f32, {4, 32}, x.data());
  out_of("quantize " + at + "mine.npy --spec mxfp4,rounding=nearest_away --no-sync --out " + at + "d", 0);
  const std::string verify = "verify --input " + at + "mine.npy --spec mxfp4 --candidate " + at + "d";
  const std::string text = out_of(verify, 1);
  CHECK_THAT(text, Catch::Contains("mxfp4.mine.4x32") && !Catch::Contains("boundary"));
  CHECK_THAT(text, Catch::Contains("x/scale"));
  const Json first = Json::parse(out_of(verify + " --json", 1)).at("first").at(0);
  CHECK(first.at("index") == Json::array({0, 1}));
  CHECK(first.at("x") == 1.25);
  CHECK(first.at("scale") == 1.0);
  CHECK(first.at("payload") == 1.25);
  // Under nvfp4 the scale is that of the block times that of the tensor: 6/2688 * 448 = 1.
  out_of("quantize " + at + "mine.npy --spec nvfp4,rounding=toward_zero --no-sync --out " + at + "n", 0);
  const Json nvfp4 =
      Json::parse(out_of("verify --input " + at + "mine.npy --spec nvfp4 --json --candidate " + at + "n", 1));
  CHECK(nvfp4.at("first").at(0).at("scale").get<double>() == Approx(1).epsilon(1e-6));
}

TEST_CASE("a dump that lacks rows is told at once, and scales of another place are named", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "";
  out_of("golden make --spec nvfp4 --shape 16x128 --input gaussian --out " + at + "g", 0);
  const std::string name = at + "g/nvfp4.gaussian.16x128/", input = name + "input.npy";
  const auto verify = [&](int exit_code) {
    return out_of("verify --input " + input + " --spec nvfp4 --candidate " + at + "d", exit_code);
  };
  fs::create_directories(at + "d");
  const fp4::RawTensor codes = fp4::load_raw(name + "codes.npy");
  fp4::save_tensor(at + "d/codes.npy", fp4::Dtype::u8, {8, 64}, codes.bytes.data());
  const std::string half = verify(1);
  CHECK_THAT(half, Catch::Contains("codes has 1024 elements, 2048 were expected: 8 of 16 rows are missing"));
  fs::remove(at + "d/codes.npy");
  const fp4::RawTensor scales = fp4::load_raw(name + "scales.npy");
  const auto moved = [&](int64_t down, int64_t right, bool rolls) {
    std::vector<unsigned char> out(16 * 8, 1);
    for (int64_t r = 0; r < 16; ++r)
      for (int64_t k = 0; k < 8; ++k) {
        const int64_t row = r + down, col = k + right;
        const bool is_inside = row >= 0 && row < 16 && col >= 0 && col < 8;
        if (is_inside || rolls)
          out[static_cast<size_t>((row + 16) % 16 * 8 + (col + 8) % 8)] = scales.bytes[static_cast<size_t>(r * 8 + k)];
      }
    fp4::save_tensor(at + "d/scales.npy", fp4::Dtype::u8, {16, 8}, out.data(), true);
  };
  moved(0, 1, true);
  CHECK_THAT(verify(1),
             Catch::Contains("equals scales=columns_moved (scales: column 0 is column 7 of the answer; columns "
                             "1 to 7 are columns 0 to 6 of the answer)"));
  moved(0, -2, false);
  CHECK_THAT(verify(1),
             Catch::Contains("columns 0 to 5 are columns 2 to 7 of the answer; columns 6 to 7 hold none of it"));
  moved(1, 0, true);
  CHECK_THAT(verify(1),
             Catch::Contains("equals scales=rows_moved (scales: row 0 is row 15 of the answer; rows 1 to 15 are "
                             "rows 0 to 14 of the answer)"));
}

TEST_CASE("decoded values in bf16 are judged as bf16", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "";
  out_of("golden make --spec nvfp4 --shape 8x64 --input gaussian --out " + at + "g", 0);
  const std::string name = "nvfp4.gaussian.8x64";
  const fp4::FloatTensor y = fp4::load_floats(at + "g/" + name + "/dequantized.npy");
  std::vector<uint16_t> half;
  std::vector<float> rounded;
  for (const float v : y.values) {
    const uint32_t bits = fp4::bits_of(fp4::rounded_to_bf16(v));
    half.push_back(static_cast<uint16_t>(bits >> 16));
    rounded.push_back(fp4::float_of(bits));
  }
  const std::string dump = at + "d/" + name + "/dequantized.npy",
                    verify = "verify --golden " + at + "g --candidate " + at + "d";
  fs::create_directories(at + "d/" + name);
  fp4::save_tensor(dump, fp4::Dtype::u16, y.shape, half.data());
  CHECK_THAT(out_of(verify + " --bf16", 0), Catch::Contains("equal in 1 of 1 cases"));
  fp4::save_tensor(dump, fp4::Dtype::f32, y.shape, rounded.data(), true);
  CHECK_THAT(out_of(verify, 1), Catch::Contains("equals dequantized=bf16"));
  out_of(verify + " --output-type bf16", 0);
  CHECK_THAT(out_of(verify + " --activation swish", 2), Catch::Contains("none, relu, gelu, gelu_tanh, silu"));
}

TEST_CASE("a file beyond 2^20 elements becomes a bundle of hashes", "[cli]") {
  const TemporaryFolder folder;
  const std::string at = folder / "";
  std::vector<float> x(1030 * 1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 2654435761u % 4001u) - 2000);
  fp4::save_tensor(at + "x.npy", fp4::Dtype::f32, {1030, 1024}, x.data());
  out_of("golden make --spec mxfp4 --input " + at + "x.npy --no-sync --out " + at + "g", 0);
  CHECK_FALSE(fs::exists(at + "g/mxfp4.boundary.1030x1024/codes.npy"));
  out_of("golden check " + at + "g", 0);
  out_of("quantize " + at + "x.npy --spec mxfp4 --no-sync --out " + at + "right", 0);
  out_of("verify --golden " + at + "g --candidate " + at + "right", 0);
  out_of("quantize " + at + "x.npy --spec mxfp4,scale_rule=rceil --no-sync --out " + at + "wrong", 0);
  const std::string wrong = out_of("verify --golden " + at + "g --candidate " + at + "wrong", 1);
  CHECK_THAT(wrong, Catch::Contains("-> 0  scale_rule=rceil"));
}

TEST_CASE("the conformance pack is read without this program", "[cli]") {
  const TemporaryFolder folder;
  const std::string pack = folder / "pack";
  const Json made = Json::parse(out_of("golden pack " + pack + " --no-sync --json", 0));
  const Json manifest = Json::parse(fp4::test::read_text(pack + "/manifest.json"));
  CHECK(manifest.at("files").size() == made.at("files").get<size_t>());
  for (const char* part : {"presets", "accumulators", "packings", "layouts", "formats", "roundings"})
    CHECK_FALSE(manifest.at(part).empty());
  if (std::system("/usr/bin/python3 -c 'import numpy' 2> /dev/null") != 0) {
    WARN("no numpy here: read_pack.py was not run");
    return;
  }
  const std::string read = "/usr/bin/python3 tools/examples/read_pack.py " + pack + " > " + (folder / "out");
  REQUIRE(std::system(read.c_str()) == 0);
  CHECK_THAT(fp4::test::read_text(folder / "out"), Catch::Contains("all equal"));
  // A flipped bit is damage.
  const std::string file = pack + "/layouts/scales_128x4.npy";
  std::string bytes = fp4::test::read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fp4::test::write_text(file, bytes);
  CHECK(std::system((read + " 2>&1").c_str()) != 0);
}
