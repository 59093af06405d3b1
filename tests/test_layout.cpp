// Layouts of scales and codes: literal addresses from the published definitions, and that going there and back changes
// nothing, whatever the shape.
#include <algorithm>
#include <catch2/catch.hpp>

#include "src/arith/spec_text.h"
#include "src/files/tensor_writer.h"
#include "src/layout/digit_layout.h"
#include "src/stream/quantize_files.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::golden;

namespace {

struct Address {
  int64_t rows, cols, row, col, at;
};

void check(const Placing& placing, std::initializer_list<Address> addresses) {
  for (const Address& a : addresses) {
    INFO(address_text(placing) << ": " << a.row << ", " << a.col << " of " << a.rows << " x " << a.cols);
    CHECK(Placement(placing, a.rows, a.cols).at(a.row, a.col) == a.at);
  }
}

void check(ScaleLayout layout, std::initializer_list<Address> addresses) {
  check(row_of(scale_layout_table, layout).placing, addresses);
}
void check(CodeLayout layout, std::initializer_list<Address> addresses) {
  check(row_of(code_layout_table, layout).placing, addresses);
}

const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {3, 5}, {33, 7}, {130, 9}, {257, 67}};

// 1, 2, .., 15, 1, ..: never 0, which is padding.
std::vector<uint8_t> counted(int64_t n) {
  std::vector<uint8_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<uint8_t>(i % 15 + 1));
  return out;
}

int64_t filled(const std::vector<uint8_t>& codes) {
  return std::count_if(codes.begin(), codes.end(), [](uint8_t c) { return c != 0; });
}

}  // namespace

TEST_CASE("scales lie where the documents say", "[quick]") {
  // cuBLAS: tile of 128 x 4, (r%32)*16 + (r/32)*4 + c
  check(ScaleLayout::tile_128x4, {{128, 4, 1, 0, 16}, {128, 4, 33, 2, 16 + 4 + 2}, {256, 8, 128, 5, 3 * 512 + 1}});
  // TensorRT-LLM: [rows/8, cols/4, 8, 4]
  check(ScaleLayout::tile_8x4, {{8, 8, 1, 0, 4}, {8, 8, 7, 3, 31}, {8, 8, 0, 4, 32}, {9, 7, 8, 0, 64}});
  // AITER: view (rows/32, 2, 16, cols/8, 2, 4), permute (0, 3, 5, 2, 4, 1)
  for (const ScaleLayout layout : {ScaleLayout::amd_preshuffled, ScaleLayout::gfx950})
    check(layout, {{32, 8, 16, 0, 1}, {32, 8, 0, 4, 2}, {32, 8, 1, 0, 4}, {32, 8, 0, 1, 64}, {32, 16, 0, 8, 256}});
  CHECK(padded_size(ScaleLayout::amd_preshuffled, 33, 9) == 256 * 16);
  CHECK(padded_size(ScaleLayout::gfx950, 33, 9) == 64 * 16);
  // DeepGEMM: int32 [cols/4, rows padded to 4], column mod 4 is the byte
  check(ScaleLayout::deepgemm, {{5, 6, 3, 0, 12}, {5, 6, 0, 1, 1}, {5, 6, 0, 4, 32}, {5, 6, 4, 5, 49}});
  check(ScaleLayout::column_major, {{5, 6, 3, 2, 13}});
  CHECK(address_text(row_of(scale_layout_table, ScaleLayout::tile_128x4).placing) ==
        "r/128, c/4, r%32, r/32%4, c%4; padded to 128 x 4");
}

TEST_CASE("codes lie where the documents say", "[quick]") {
  check(CodeLayout::low_first, {{2, 3, 1, 0, 4}, {2, 3, 0, 1, 1}});
  check(CodeLayout::high_first, {{2, 3, 0, 0, 1}, {2, 3, 0, 1, 0}, {2, 3, 1, 2, 7}});
  // ggml: block_mxfp4 has j and j+16 in byte j, block_nvfp4 j and j+8 of each 16
  check(CodeLayout::half_split_32, {{1, 64, 0, 16, 1}, {1, 64, 0, 1, 2}, {1, 64, 0, 31, 31}, {1, 64, 0, 32, 32}});
  check(CodeLayout::half_split_16, {{1, 64, 0, 8, 1}, {1, 64, 0, 1, 2}, {1, 64, 0, 17, 18}});
  // GPTQ: words [K/8, rows]
  check(CodeLayout::gptq, {{3, 16, 2, 9, (3 + 2) * 8 + 1}});
  // Marlin: the first word of get_weight_perm(4) is elements 0 128 8 136 16 144 24 152 of a 16 x 16 tile [K, rows]
  const int64_t first[] = {0, 128, 8, 136, 16, 144, 24, 152};
  for (int64_t i = 0; i < 8; ++i) check(CodeLayout::marlin, {{64, 16, first[i] % 16, first[i] / 16, i}});
  // its words follow by tile of 16 rows, then by lane (K pair, then row); then tiles of 64 rows, then 16 of K
  check(
      CodeLayout::marlin,
      {{128, 32, 16, 0, 8}, {128, 32, 0, 2, 32}, {128, 32, 1, 0, 128}, {128, 32, 64, 0, 1024}, {128, 32, 0, 16, 2048}});
  // AITER: bytes viewed (rows/16, 16, K/32, 2, 16), permuted to (rows/16, K/32, 2, 16, 16)
  check(CodeLayout::fp6_low_first, {{2, 3, 1, 0, 4}, {2, 3, 0, 1, 1}});
  // 7.5, -7.5, 0, 1 in E2M3; GCC's test of HIP's fp6x32 has the first two in DF 0F
  CHECK(to_layout(CodeLayout::fp6_low_first, {0x1F, 0x3F, 0x00, 0x08}, 1, 4) == std::vector<uint8_t>{0xDF, 0x0F, 0x20});
  check(CodeLayout::aiter,
        {{32, 128, 1, 0, 32}, {32, 128, 0, 32, 512}, {32, 128, 0, 64, 1024}, {32, 128, 16, 0, 2048}});
}

TEST_CASE("a layout and back is the identity, and padding is zero", "[quick]") {
  for (const auto& [rows, cols] : shapes) {
    const std::vector<uint8_t> given = counted(rows * cols);
    for (const ScaleLayoutInfo& layout : scale_layout_table) {
      INFO(layout.name << " " << rows << " x " << cols);
      const auto moved = to_layout(layout.id, given, rows, cols);
      CHECK(filled(moved) == rows * cols);
      CHECK(from_layout(layout.id, moved, rows, cols, "test") == given);
      auto longer = moved;
      longer.push_back(0);
      CHECK_THROWS_WITH(from_layout(layout.id, longer, rows, cols, "s.npy"), Catch::Contains(layout.name));
    }
    for (const CodeLayoutInfo& layout : code_layout_table) {
      INFO(layout.name << " " << rows << " x " << cols);
      const auto moved = to_layout(layout.id, given, rows, cols);
      CHECK(std::ssize(moved) == padded_bytes(layout.id, rows, cols));
      std::vector<uint8_t> codes;  // bit by bit
      const size_t bits = static_cast<size_t>(layout.bits);
      for (size_t at = 0; at < 8 * moved.size(); ++at) {
        if (at % bits == 0) codes.push_back(0);
        codes.back() = static_cast<uint8_t>(codes.back() | (moved[at / 8] >> at % 8 & 1) << at % bits);
      }
      CHECK(filled(codes) == rows * cols);
      CHECK(from_layout(layout.id, moved, rows, cols, "test") == given);
    }
    // Six bits: every code.
    std::vector<uint8_t> wide;
    for (int64_t i = 0; i < rows * cols; ++i) wide.push_back(static_cast<uint8_t>(63 - i % 64));
    const auto packed = to_layout(CodeLayout::fp6_low_first, wide, rows, cols);
    CHECK(from_layout(CodeLayout::fp6_low_first, packed, rows, cols, "test") == wide);
    CHECK(packed.size() == static_cast<size_t>(rows * ((cols + 3) / 4) * 3));
  }
}

TEST_CASE("files in any layout decode to the same bits", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  constexpr size_t rows = 75, cols = 2050;  // more than is decoded at a time
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = random_uniform({9, 1, 0}, i) * 10.0f - 5.0f;
  save_tensor(folder / "x.npy", Dtype::f32, {rows, cols}, x.data());
  const auto decoded = [&](const std::string& nibbles, const std::string& scales, const std::string& words) {
    folder::QuantizeJob job;
    job.in = folder / "x.npy";
    job.spec = quant_spec_from_words(words);
    job.out = folder / "out";
    job.force = true;
    job.nibbles = nibbles;
    job.scale_layout = scales;
    job.band_bytes = 80 * cols;  // 20 rows, or 32 of a tile
    folder::quantize_to_folder(job);
    folder::dequantize_folder(folder / "out", folder / "y.npy", true, "auto", 1);
    return fp4::test::read_text(folder / "y.npy");
  };
  const auto check = [&](const std::string& words, const std::vector<std::pair<std::string, std::string>>& orders) {
    const std::string plain = decoded("low_first", "linear", words);
    CHECK(plain == fp4::test::read_text(folder / "out/dequantized.npy"));
    for (const auto& [codes, scales] : orders) {
      INFO(words << " " << codes << " " << scales);
      CHECK(decoded(codes, scales, words) == plain);
    }
  };
  std::vector<std::pair<std::string, std::string>> each;
  for (const CodeLayoutInfo& codes : code_layout_table)
    if (holds(codes, 4))
      each.emplace_back(codes.name,
                        scale_layout_table[static_cast<size_t>(codes.id) % std::size(scale_layout_table)].name);
  check("nvfp4", each);
  check("mxfp4,block=32x32", {{"marlin_uint32", "8x4"}});
  check("mxfp4,scale=none", {{"high_first", "linear"}});
  check("mxfp6", {{"fp6_low_first", "128x4"}, {"unpacked", "linear"}});
  check("mxfp6_e3m2,scale=none", {{"fp6_low_first", "linear"}});  // 2050 codes are 1539 bytes
  CHECK_THROWS_WITH(decoded("marlin_uint32", "linear", "mxfp6"),
                    Catch::Contains("accepted for element e2m3: low_first, unpacked, fp6_low_first"));
  CHECK_THROWS_WITH(decoded("fp6_low_first", "linear", "mxfp4"), Catch::Contains("is one of 6-bit codes"));
  CHECK_THROWS_WITH(decoded("marlin_uint32", "linear", "mxfp8"),
                    Catch::Contains("accepted for element e4m3: low_first"));
  CHECK_THROWS_WITH(decoded("low_first", "8x4", "bf16"), Catch::Contains("accepted for scale none: linear"));
}

TEST_CASE("convert goes between layouts, and verify takes them", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const auto run = [&](const std::string& words, int exit_code) {
    const auto result = fp4::test::run_cli(words);
    INFO(words << result.out << result.err);
    CHECK(result.exit_code == exit_code);
    return result;
  };
  const std::string at = folder / "";
  run("golden make --suite smoke --out " + at + "g", 0);
  const std::string dir = at + "g/nvfp4.boundary.8x64/";
  run("convert " + dir + "scales.npy --size 8x4 --scale-layout 128x4 --out " + at + "tiles.npy", 0);
  CHECK(fp4::test::read_text(at + "tiles.npy") == fp4::test::read_text(dir + "scales_128x4.npy"));
  run("convert " + at + "tiles.npy --size 8x4 --scale-layout 128x4:deepgemm --type f8_e4m3 --out " + at +
          "scales.safetensors",
      0);
  run("convert " + dir + "codes.npy --size 8x64 --nibbles marlin_uint32 --out " + at + "codes.npy", 0);
  const std::string verify = "verify --golden " + at + "g --case nvfp4.boundary.8x64 --stage ";
  run(verify + "codes --nibbles marlin_uint32 --candidate " + at + "codes.npy", 0);
  CHECK_THAT(run(verify + "codes --candidate " + at + "codes.npy", 0).out,
             Catch::Contains("order found: nibble_order=marlin_uint32"));
  CHECK_THAT(run(verify + "codes --nibbles aiter_16x16 --candidate " + at + "codes.npy", 1).out,
             Catch::Contains("nibble_order=marlin_uint32"));
  // bytes with a type of safetensors, named tensor
  run("convert " + at + "scales.safetensors --size 8x4 --scale-layout deepgemm:linear --out " + at + "scales.npy", 0);
  CHECK(fp4::test::read_text(at + "scales.npy") == fp4::test::read_text(dir + "scales.npy"));
  // six-bit codes: four fill three bytes or four, said or not, right or wrong
  struct {
    std::string spec, name, width;
  } const cases[] = {{"mxfp6", "mxfp6", "64"}, {"mxfp6_e3m2,scale=none", "mxfp6_e3m2.scale-none", "50"}};
  for (const auto& [spec, name, width] : cases) {
    const std::string g = at + "g_" + name, d = at + "d_" + name;
    run("golden make --spec " + spec + " --shape 6x50 --out " + g, 0);
    const auto judged = [&, spec = spec, name = name](const std::string& words, const std::string& options,
                                                      int exit_code) {
      run("quantize --force " + g + "/" + name + ".boundary.6x50/input.npy --spec " + words +
              " --nibbles fp6_low_first --out " + d,
          0);
      return run("verify --golden " + g + " --stage codes --candidate " + d + "/codes.npy " + options, exit_code).out;
    };
    for (const char* options : {"", "--nibbles fp6_low_first"}) {
      CHECK_THAT(judged(spec, options, 0), Catch::Contains("equal in 1 of 1 cases"));
      CHECK_THAT(judged(spec + ",rounding=toward_zero", options, 1),
                 Catch::Contains("diagnosis: equals ") && Catch::Contains("rounding=toward_zero"));
    }
    const std::string size = " --size 6x" + width + " --nibbles ";
    run("convert " + d + "/codes.npy" + size + "fp6_low_first:unpacked --out " + d + "/u.npy", 0);
    run("convert " + d + "/u.npy" + size + "fp6_low_first --type f6_e2m3 --out " + d + "/p.safetensors", 0);
    run("convert " + d + "/p.safetensors" + size + "fp6_low_first:unpacked --out " + d + "/v.npy", 0);
    CHECK(fp4::test::read_text(d + "/u.npy") == fp4::test::read_text(d + "/v.npy"));
  }
  CHECK_THAT(
      run("convert " + at + "d_mxfp6/codes.npy --size 6x64 --nibbles fp6_low_first:marlin_uint32 --out " + at + "w.npy",
          2)
          .err,
      Catch::Contains("fp6_low_first holds codes of 6 bits, marlin_uint32 of 4"));
  // A type says how many bits a code has: another width, or numbers taken for codes, would be read as something else.
  const auto refused = [&](const std::string& words, const std::string& reason) {
    CHECK_THAT(run("convert " + words + " --out " + at + "w.safetensors", 2).err, Catch::Contains(reason));
    CHECK_FALSE(std::filesystem::exists(at + "w.safetensors"));
  };
  const std::string codes = dir + "codes.npy --size 8x64 --nibbles ", scales = dir + "scales.npy --size 8x4 ";
  refused(codes + "unpacked --type f4_e2m1", "f4_e2m1 is no type of 4-bit codes in layout unpacked; accepted: u8, i8");
  refused(codes + "unpacked --type f8_e4m3", "f8_e4m3 is no type of 4-bit codes in layout unpacked");
  refused(codes + "low_first --type f8_e4m3",
          "f8_e4m3 is no type of 4-bit codes in layout low_first; accepted: f4_e2m1");
  refused(scales + "--scale-layout 8x4 --type f4_e2m1", "f4_e2m1 is no type of scales; accepted: f8_e4m3");
  const std::vector<float> numbers(8 * 64);
  fp4::save_tensor(at + "numbers.npy", fp4::Dtype::f32, {8, 64}, numbers.data());
  refused(at + "numbers.npy --size 32x128 --nibbles high_first", "numbers.npy: f32 is no type of codes");
  refused(at + "numbers.npy --size 32x64 --scale-layout 8x4", "numbers.npy: f32 is no type of scales");
  run("convert " + codes + "high_first --type f4_e2m1 --out " + at + "f4.safetensors", 0);
  CHECK(fp4::load_raw(at + "f4.safetensors").shape == fp4::Shape{8, 64});
  CHECK_THAT(run("convert " + dir + "scales.npy --size 8x5 --scale-layout 8x4 --out " + at + "w.npy", 2).err,
             Catch::Contains("32 bytes; 8 x 5 in layout linear has 40"));
  CHECK_THAT(run("convert " + dir + "scales.npy --size 8x4 --scale-layout 8x5 --out " + at + "w.npy", 2).err,
             Catch::Contains("did you mean '8x4'"));
}
