// What kernels do wrong by accident, damage by damage, with the sentence that verify must give: in a dump of codes and
// scales, in decoded values alone, in outputs alone. Answers and damages are worked out here, on bytes and in fp64.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "src/arith/spec_text.h"
#include "src/golden/faulty_kernel.h"
#include "tests/support/golden_bench.h"
#include "tests/support/share.h"

using namespace fp4;
using namespace fp4::golden;
using test::Bench, test::find;

namespace {

// A matrix of words; `unit` columns of the tensor are one of its columns.
struct Table {
  int64_t rows, cols, unit;
  std::vector<uint32_t> at;
  uint32_t& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * cols + c)]; }
  bool is_float = false, is_scale = false;
  uint32_t nan() const { return is_float ? 0x7FC00000u : is_scale ? 0x7Fu : 0u; }
};

// An operand of nvfp4 as its arrays say it.
struct Operand4 {
  Table codes, scales;
  double g;
};

constexpr double e2m1[] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};

double ue4m3(uint32_t u) {
  return u >> 3 == 0 ? std::ldexp(u & 7, -9) : std::ldexp(8 + (u & 7), static_cast<int>(u >> 3) - 10);
}

Operand4 operand_of(std::vector<Array>& arrays, int64_t rows, int64_t cols) {
  Operand4 o = {{rows, cols, 1, {}}, {rows, cols / 16, 16, {}}, 0};
  for (const unsigned char byte : find(arrays, "codes").bytes)
    o.codes.at.insert(o.codes.at.end(), {uint32_t{byte} & 15u, uint32_t{byte} >> 4u});
  for (const unsigned char byte : find(arrays, "scales").bytes) o.scales.at.push_back(byte);
  o.scales.is_scale = true;
  o.g = static_cast<double>(Bench::floats(find(arrays, "tensor_scale"))[0]);
  return o;
}

double value(Operand4& o, int64_t r, int64_t k) { return e2m1[o.codes(r, k)] * ue4m3(o.scales(r, k / 16)); }

Table float_words(int64_t rows, int64_t cols) {
  Table w = {rows, cols, 1, std::vector<uint32_t>(static_cast<size_t>(rows * cols)), true, false};
  return w;
}

Table decoded(Operand4& o) {
  Table w = float_words(o.codes.rows, o.codes.cols);
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t k = 0; k < w.cols; ++k)
      w(r, k) = bits_of(static_cast<float>(value(o, r, k)) * static_cast<float>(o.g));
  return w;
}

struct Range {
  int64_t first = 0, last = 0, times = 0, row = 0;  // products of K that count `times`, in rows from this one on
};

Table product(Operand4& a, Operand4& b, Range range = {}) {
  Table w = float_words(a.codes.rows, b.codes.rows);
  std::vector<double> x, y;
  for (int64_t r = 0; r < a.codes.rows; ++r)
    for (int64_t k = 0; k < a.codes.cols; ++k) x.push_back(value(a, r, k));
  for (int64_t r = 0; r < b.codes.rows; ++r)
    for (int64_t k = 0; k < b.codes.cols; ++k) y.push_back(value(b, r, k));
  const int64_t depth = a.codes.cols;
  for (int64_t i = 0; i < w.rows; ++i)
    for (int64_t j = 0; j < w.cols; ++j) {
      double sum = 0;  // exact: some 40 bits
      for (int64_t k = 0; k < depth; ++k)
        sum += x[static_cast<size_t>(i * depth + k)] * y[static_cast<size_t>(j * depth + k)] *
               (k >= range.first && k < range.last && i >= range.row ? static_cast<double>(range.times) : 1);
      w(i, j) = bits_of(static_cast<float>(sum) * (static_cast<float>(a.g) * static_cast<float>(b.g)));
    }
  return w;
}

// Damages of whole arrays.
using Damage = std::function<void(Table&)>;
struct Box {
  int64_t row, rows, col, cols;  // of the tensor; 0 rows or columns: all
};
Damage filled(Box box, bool with_nan, int64_t period = 0) {
  return [=](Table& w) {
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t c = 0; c < w.cols; ++c) {
        const int64_t row = period > 0 ? r % period : r, col = c * w.unit;
        const bool is_in = (box.rows == 0 || (row >= box.row && row < box.row + box.rows)) &&
                           (box.cols == 0 || (col >= box.col && col < box.col + box.cols));
        if (is_in && (!with_nan || w.nan() != 0)) w(r, c) = with_nan ? w.nan() : 0;
      }
  };
}
// got[r] = right[from(r, rows)].
Damage of_rows(const std::function<int64_t(int64_t, int64_t)>& from) {
  return [=](Table& w) {
    Table right = w;
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t c = 0; c < w.cols; ++c) w(r, c) = right(from(r, w.rows), c);
  };
}
Damage of_columns(const std::function<int64_t(int64_t, int64_t)>& from) {
  return [=](Table& w) {
    Table right = w;
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t c = 0; c < w.cols; ++c) w(r, c) = right(r, from(c * w.unit, w.cols * w.unit) / w.unit);
  };
}
void tile_of_another(Table& w) {
  Table right = w;
  for (int64_t r = 0; r < 32; ++r)
    for (int64_t c = 0; c < 64 / w.unit; ++c) w(r, c) = right(r + 32, c + 64 / w.unit);
}
void first_row_unknown(Table& w) {
  of_rows([](int64_t r, int64_t) { return std::max<int64_t>(r - 1, 0); })(w);
  for (int64_t c = 0; c < w.cols; ++c)
    w(0, c) = w.is_float ? bits_of(1.5f + static_cast<float>(c % 7)) : static_cast<uint32_t>(1 + c % 5);
}

void sign_lost(Table& w) {
  for (uint32_t& word : w.at) word &= w.is_scale ? 0xFFu : w.is_float ? 0x7FFFFFFFu : 7u;
}

struct WholeArray {
  const char* name;
  Damage damage;
  const char* says;  // of every stage; [R] is rows - 1
};
const WholeArray whole_arrays[] = {
    {"a warp's rows are zeros", filled({32, 32, 0, 0}, false), "rows 32 to 63"},
    {"first rows are zeros", filled({0, 16, 0, 0}, false), "rows 0 to 15 of"},
    {"rows of every tile are zeros", filled({16, 16, 0, 0}, false, 32), "rows 16 to 31 of every 32"},
    {"one row is zeros", filled({5, 1, 0, 0}, false), "row 5 of"},
    {"columns are zeros", filled({0, 0, 64, 64}, false), "columns"},
    {"first columns are zeros", filled({0, 0, 0, 16}, false), "column"},
    {"a tile is zeros", filled({32, 32, 64, 64}, false), "rows 32 to 63"},
    {"all is zeros", filled({0, 0, 0, 0}, false), "all of"},
    {"rows are NaN", filled({32, 32, 0, 0}, true), "rows 32 to 63"},
    {"all is NaN", filled({0, 0, 0, 0}, true), "all of"},
    {"columns are NaN", filled({0, 0, 64, 64}, true), "columns"},
    {"a tile is NaN", filled({32, 32, 64, 64}, true), "rows 32 to 63"},
    {"rows hold rows before them", of_rows([](int64_t r, int64_t) { return r >= 32 && r < 64 ? r - 32 : r; }),
     "rows 32 to 63 are rows 0 to 31 of the answer"},
    {"rows hold rows behind them", of_rows([](int64_t r, int64_t) { return r < 32 ? r + 32 : r; }),
     "rows 0 to 31 are rows 32 to 63 of the answer"},
    {"two tiles of rows are exchanged", of_rows([](int64_t r, int64_t) { return r < 64 ? r ^ 32 : r; }),
     "rows 0 to 31 are rows 32 to 63 of the answer; rows 32 to 63 are rows 0 to 31 of the answer"},
    {"rows are rolled", of_rows([](int64_t r, int64_t n) { return (r + n - 1) % n; }),
     "rows 1 to [R] are rows 0 to [R-1] of the answer"},
    {"rows are reversed", of_rows([](int64_t r, int64_t n) { return n - 1 - r; }), "rows stand in reverse order"},
    {"rows 2 x n are read as n x 2", of_rows([](int64_t r, int64_t n) { return r % 2 * (n / 2) + r / 2; }),
     "rows stand in another order: of every [R+1], 2 x"},
    {"rows of every 32 are shuffled", of_rows([](int64_t r, int64_t) { return r - r % 32 + r % 4 * 8 + r % 32 / 4; }),
     "rows stand in another order: of every 32, 4 x 8 are read as 8 x 4"},
    {"neighbours are exchanged", of_rows([](int64_t r, int64_t) { return r ^ 1; }),
     "rows stand in another order: of every 2, 1 0"},
    {"rows of every 8 in another order", of_rows([](int64_t r, int64_t) { return r - r % 8 + r * 3 % 8; }),
     "rows stand in another order: of every 8, 0 3 6 1 4 7 2 5"},
    {"every row is the first", of_rows([](int64_t, int64_t) { return 0; }), "every row is row 0 of the answer"},
    {"each of four rows is the first", of_rows([](int64_t r, int64_t) { return r - r % 4; }),
     "rows stand in another order: of every 4, 0 0 0 0"},
    {"columns hold others", of_columns([](int64_t c, int64_t) { return c < 64 ? c + 64 : c; }), "of the answer"},
    {"columns are rolled", of_columns([](int64_t c, int64_t n) { return (c + n - 16) % n; }), "of the answer"},
    {"a tile holds another tile", tile_of_another, "of the answer"},
    {"signs are lost", sign_lost, "the sign of each number is lost"},
    {"rows came one later, the first is any", first_row_unknown, "row 0 hold none of it"},
};

std::string with_rows(std::string text, int64_t rows) {
  for (const auto& [mark, n] : {std::pair{"[R-1]", rows - 2}, {"[R+1]", rows}, {"[R]", rows - 1}})
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, std::strlen(mark), std::to_string(n));
  return text;
}

// A product of nvfp4 with the answers of both operands, and dumps of what was damaged.
struct Arena {
  Arena(int64_t rows, int64_t cols, InputKind kind = InputKind::gaussian)
      : bench(test::quantize_case("nvfp4", kind, rows, cols)), gemm(gemm_case(rows, cols)) {
    Case second = test::quantize_case("nvfp4", kind, 128, cols);
    second.place = gemm.bundle.cases[0].place.second_operand();
    std::vector<Array> of_b = make_arrays(second, "reference", 1);
    a = operand_of(bench.arrays, rows, cols);
    b = operand_of(of_b, 128, cols);
  }
  static Case gemm_case(int64_t rows, int64_t cols) {
    Case c = test::quantize_case("nvfp4", InputKind::gaussian, rows, cols);
    c.is_gemm = true;
    c.rows_b = 128;
    c.words_b = "nvfp4";
    c.accumulators = {"exact"};
    return c;
  }
  Array as_array(const char* name, Table& w) {
    Array out = find(std::string(name) == "output_exact" ? gemm.arrays : bench.arrays, name);
    if (w.is_float) {
      std::memcpy(out.bytes.data(), w.at.data(), out.bytes.size());
    } else {
      const bool packs = std::string(name) == "codes";
      for (size_t i = 0; i < out.bytes.size(); ++i)
        out.bytes[i] = static_cast<unsigned char>(packs ? w.at[2 * i] | w.at[2 * i + 1] << 4 : w.at[i]);
    }
    return out;
  }
  std::string of_dump(Table codes, Table scales) {
    return bench.diagnose_dump({as_array("codes", codes), as_array("scales", scales)}).summary;
  }
  std::string of_decoded(Table w) { return bench.diagnose_dump({as_array("dequantized", w)}).summary; }
  Diagnosis of_output_whole(Table w) { return gemm.diagnose_dump({as_array("output_exact", w)}); }
  std::string of_output(const Table& w) { return of_output_whole(w).summary; }

  Bench bench, gemm;
  Operand4 a, b;
};

constexpr std::pair<int64_t, int64_t> sizes[] = {{64, 128}, {128, 128}, {192, 256}, {256, 192}};
// The two larger ones take minutes: they run where all cases do.
bool runs(int64_t rows, int64_t cols) {
  return test::next_case_runs() && (test::large_share() == 1 || rows * cols <= 128 * 128);
}

}  // namespace

TEST_CASE("accidents of whole arrays are named with their places, at every stage and size", "[quick][loops]") {
  for (const auto& size : sizes) {
    const int64_t rows = size.first, cols = size.second;
    if (!runs(rows, cols)) continue;
    Arena arena(rows, cols);
    REQUIRE(arena.as_array("dequantized", *std::make_unique<Table>(decoded(arena.a))).bytes ==
            find(arena.bench.arrays, "dequantized").bytes);
    Table right = product(arena.a, arena.b);
    REQUIRE(arena.as_array("output_exact", right).bytes == find(arena.gemm.arrays, "output_exact").bytes);
    for (const WholeArray& accident : whole_arrays) {
      INFO(accident.name << ", " << rows << " x " << cols);
      const auto check = [&](const std::string& summary) {
        CHECK_THAT(summary, Catch::StartsWith("equals ") && Catch::Contains(with_rows(accident.says, rows)));
      };
      Table codes = arena.a.codes, scales = arena.a.scales, values = decoded(arena.a), output = right;
      for (Table* w : {&codes, &scales, &values, &output}) accident.damage(*w);
      // A row of fewer scales may be any rule's: nothing is said of it.
      if (scales.cols >= 16 || std::string(accident.name) != "one row is zeros") check(arena.of_dump(codes, scales));
      check(arena.of_decoded(values));
      check(arena.of_output(output));
    }
  }
}

namespace {

// Of an operand in memory. `dump` is what codes and scales say, `name` the word for decoded values and outputs.
struct Misreading {
  const char* name;
  std::function<void(Operand4&)> damage;
  const char *dump, *word;
};
Damage scales_from(const std::function<int64_t(int64_t, int64_t, int64_t, int64_t)>& from) {
  return [=](Table& w) {
    const Table right = w;
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t c = 0; c < w.cols; ++c) w(r, c) = right.at[static_cast<size_t>(from(r, c, w.rows, w.cols))];
  };
}
const auto on_scales = [](const Damage& damage) { return [=](Operand4& o) { damage(o.scales); }; };
const auto on_codes = [](const Damage& damage) { return [=](Operand4& o) { damage(o.codes); }; };

const Misreading misreadings[] = {
    {"nibbles", on_codes(of_columns([](int64_t c, int64_t) { return c ^ 1; })), "nibble_order=high_first",
     "nibbles=high_first"},
    {"nibbles of halves", on_codes(of_columns([](int64_t c, int64_t) {
       const int64_t i = c % 32;  // byte j of 32 codes holds j low and j+16 high
       return c - i + (i < 16 ? 2 * i : 2 * (i - 16) + 1);
     })),
     "of every 32, 16 x 2 are read as 2 x 16", "nibbles=half_split_32"},
    {"signs", on_codes([](Table& w) {
       for (uint32_t& code : w.at) code &= 7;
     }),
     "equals codes=unsigned", "nibbles=unsigned"},
    {"scales along the other axis",
     on_scales(scales_from([](int64_t r, int64_t c, int64_t rows, int64_t) { return c * rows + r; })), "",
     "scales=read_as_column_major"},
    {"scales in tiles of 8x4", on_scales(scales_from([](int64_t r, int64_t c, int64_t, int64_t cols) {
       return (r / 8 * (cols / 4) + c / 4) * 32 + r % 8 * 4 + c % 4;
     })),
     "", "scales=read_as_8x4"},
    {"scales one block on", on_scales(scales_from([](int64_t r, int64_t c, int64_t, int64_t cols) {
       return r * cols + (c + cols - 1) % cols;
     })),
     "columns 1 to", "scales=rolled:+1block"},
    {"scales one row on", on_scales(of_rows([](int64_t r, int64_t n) { return (r + n - 1) % n; })), "rows 1 to",
     "scales=rolled:+1row"},
    {"scales of row 0", on_scales(of_rows([](int64_t, int64_t) { return 0; })), "every row is row 0",
     "scales=of_row_0"},
    {"scale rows 4 x 8 as 8 x 4",
     on_scales(of_rows([](int64_t r, int64_t) { return r - r % 32 + r % 4 * 8 + r % 32 / 4; })),
     "of every 32, 4 x 8 are read as 8 x 4", "scales=rows:4x8"},
};

}  // namespace

TEST_CASE("operands that are read wrongly are named, in a dump and in what was made of them", "[quick][loops]") {
  for (const auto& size : sizes) {
    const int64_t rows = size.first, cols = size.second;
    if (!runs(rows, cols)) continue;
    Arena arena(rows, cols);
    for (const Misreading& m : misreadings) {
      INFO(m.name << ", " << rows << " x " << cols);
      Operand4 a = arena.a, b = arena.b;
      m.damage(a), m.damage(b);
      const std::string word = m.word;
      if (m.dump[0] != 0) CHECK_THAT(arena.of_dump(a.codes, a.scales), Catch::Contains(m.dump));
      // Codes that change places within a block are values that do, and give one sum in A as in B.
      CHECK_THAT(arena.of_decoded(decoded(a)), Catch::StartsWith("equals " + word) ||
                                                   Catch::Contains("columns stand in another order") ||
                                                   Catch::StartsWith("equals dequantized=unsigned"));
      const Diagnosis of_a = arena.of_output_whole(product(a, arena.b)),
                      of_b = arena.of_output_whole(product(arena.a, b));
      test::expect(of_a, "a." + word);
      test::expect(of_b, "b." + word);
    }
  }
}

TEST_CASE("factors and ranges of K are named from outputs alone", "[quick][loops]") {
  for (const auto& size : sizes) {
    const int64_t rows = size.first, cols = size.second;
    if (!runs(rows, cols) || (size != sizes[0] && test::large_share() > 1)) continue;
    Arena arena(rows, cols);
    const Table right = product(arena.a, arena.b), values = decoded(arena.a);
    const double ga = arena.a.g, gb = arena.b.g;
    const auto times = [](const Table& w, double factor, int64_t first_row = 0) {
      Table out = w;
      for (int64_t r = first_row; r < w.rows; ++r)
        for (int64_t c = 0; c < w.cols; ++c)
          out(r, c) = bits_of(static_cast<float>(static_cast<double>(float_of(out(r, c))) * factor));
      return out;
    };
    struct Factor {
      double of_output, of_decoded;
      const char *output, *decoded;
    };
    const Factor factors[] = {
        {1 / ga, 0, "1/g_A (left out)", ""},
        {1 / gb, 0, "1/g_B (left out)", ""},
        {1 / (ga * gb), 1 / ga, "1/alpha (left out)", "1/g (left out)"},
        {1 / (ga * gb) / (ga * gb), 1 / ga / ga, "1/alpha^2 (divided by it)", "1/g^2 (divided by it)"},
        {ga * gb, ga, "alpha (applied twice)", "g (applied twice)"},
        {ga, 0, "g_A (applied twice)", ""},
        {1 / gb / gb, 0, "1/g_B^2 (divided by it)", ""},
        {0.125, 0.125, "2^-3", "2^-3"},
        {-2, -2, "-2^1", "-2^1"},
        {1.7, 1.7, "1.7", "1.7"},
    };
    for (const Factor& f : factors) {
      if (!test::next_case_runs()) continue;
      INFO(f.output << ", " << rows << " x " << cols);
      // Where the kernel without the factor gives the same bits, it is named itself.
      CHECK_THAT(arena.of_output(times(right, f.of_output)),
                 Catch::Contains(f.output) || Catch::StartsWith("equals tensor_scale_decode="));
      if (f.of_decoded != 0)
        CHECK_THAT(arena.of_decoded(times(values, f.of_decoded)),
                   Catch::Contains(std::string("ratio to the golden dequantized is ") + f.decoded) ||
                       Catch::StartsWith("equals tensor_scale_decode="));
    }
    CHECK_THAT(arena.of_output(times(right, 2, 32)), Catch::Contains(with_rows("in rows 32 to [R] is 2^1", rows)));
    Table by_sum = right;
    const auto alpha = static_cast<float>(ga) * static_cast<float>(gb);
    Operand4 plain_a = arena.a, plain_b = arena.b;
    plain_a.g = plain_b.g = 1;
    for (uint32_t& w : (by_sum = product(plain_a, plain_b)).at) {
      const float sum = rounded_to(RealType::fp16, std::clamp(float_of(w), -65504.0f, 65504.0f));
      w = bits_of(sum * alpha);
    }
    CHECK_THAT(arena.of_output(by_sum), Catch::StartsWith("equals sum=fp16_saturated"));
    const int64_t k = cols;
    const std::pair<Range, std::string> ranges[] = {
        {{0, k / 2, 0}, "(part 1 of 2) is not summed"},
        {{k / 2, k, 0}, "(part 2 of 2) is not summed"},
        {{k / 4, k / 2, 0}, "(part 2 of 4) is not summed"},
        {{k - 16, k, 0}, " is not summed"},
        {{3 * k / 8, k / 2, 0}, "(part 4 of 8) is not summed"},
        {{k / 2, k, 0, 32}, with_rows("in rows 32 to [R]: k ", rows)},
    };
    for (const auto& [range, says] : ranges) {
      if (!test::next_case_runs()) continue;
      INFO(says << ", " << rows << " x " << cols);
      CHECK_THAT(arena.of_output(product(arena.a, arena.b, range)), Catch::Contains(says));
    }
  }
}

// Such a kernel is a suspect that every other change is tried beside.
TEST_CASE("codes read wrongly are tried beside elements of eight bits, which have no nibbles", "[quick]") {
  Arena arena(test::share() > 1 ? 64 : 128, 128);  // minutes under sanitizers
  Operand4 b = arena.b;
  misreadings[0].damage(b);
  Table came = product(arena.a, b);
  for (size_t i = 0; i < came.at.size(); i += 7) came.at[i] ^= 1u;
  const Diagnosis d = arena.of_output_whole(came);
  CHECK_FALSE(d.explains_all);
  REQUIRE_FALSE(d.causes.empty());
  // Codes that change places within a pair give one sum in A as in B.
  CHECK((d.causes[0].changes == Changes{{"a.nibbles", "high_first"}} ||
         d.causes[0].changes == Changes{{"b.nibbles", "high_first"}}));
}

TEST_CASE("a corner of a product is that of the whole under every block", "[quick]") {
  const int64_t k = GENERATE(48, 160);
  if (k == 160 && test::share() > 1) return;
  const Case c = Arena::gemm_case(96, k);
  const CaseInputs in = inputs_of(c, {}, {});
  const Corner corner = {{95, 3, 16, 17, 40}, {127, 0, 64, 31}};
  const Simulator whole(c, in, "reference", 1), some(c, in, "reference", corner);
  const BlockShape blocks[] = {{BlockKind::square, 16}, {BlockKind::square, 64}, {BlockKind::tensor, 0},
                               {BlockKind::row, 0},     {BlockKind::vector, 8},  {BlockKind::square, 128}};
  for (const BlockShape& of_a : blocks)
    for (const BlockShape& of_b : blocks)
      for (const char* array : {"output_exact", "output_fp32_block"}) {
        if (!test::next_case_runs()) continue;
        INFO(array << ", blocks of " << of_a.size << " and " << of_b.size);
        Kernel k = whole.base();
        k.a.block = of_a, k.b.block = of_b;
        if (!invalid_reason(accumulator_from_words(std::string(array).substr(7)), k.a, k.b).empty()) continue;
        const Elements all = whole.elements(k, array), few = some.elements(k, array);
        REQUIRE(few.size() == 20);
        for (size_t i = 0; i < few.size(); ++i)
          CHECK(few[i] == all[static_cast<size_t>(128 * corner.rows[i / 4] + corner.cols[i % 4])]);
      }
}

TEST_CASE("bytes of scales are named: clamped ones, and 0 that is read as 0", "[quick]") {
  Arena arena(128, 256);
  Table scales = arena.a.scales;
  std::vector<uint32_t> sorted = scales.at;
  std::sort(sorted.begin(), sorted.end());
  const uint32_t top = sorted[sorted.size() * 9 / 10];  // a tenth lies above
  for (uint32_t& s : scales.at) s = std::min(s, top);
  CHECK_THAT(arena.bench.diagnose_dump({arena.as_array("scales", scales)}).summary,
             Catch::Contains(fmt::format("(byte {:02x}) are ", top)) && Catch::Contains(": clamped there"));
  Case tiny = test::quantize_case("mxfp4", InputKind::gaussian, 32, 64);
  tiny.given_a.resize(32 * 64);
  for (size_t i = 0; i < tiny.given_a.size(); ++i)
    tiny.given_a[i] =
        std::ldexp(static_cast<float>(1 + i % 11), i / 32 % 3 == 0 ? -128 : static_cast<int>(i / 32 % 60) - 30);
  Bench bench(tiny);
  auto values = bench.correct({"dequantized"});
  const auto& bytes = find(bench.arrays, "scales").bytes;
  for (size_t i = 0; i < tiny.given_a.size(); ++i)
    if (bytes[i / 32] == 0) std::memset(&values[0].bytes[4 * i], 0, 4);
  REQUIRE(std::count(bytes.begin(), bytes.end(), 0) > 4);
  CHECK_THAT(bench.diagnose_dump(values).summary,
             Catch::Contains("that differ have the scale byte 00, which 0 right ones have; they came as zeros"));
}

TEST_CASE("accidents in a dump of another order are named with the order", "[quick]") {
  Arena arena(256, 256);
  Operand4 a = arena.a;
  misreadings[0].damage(a);
  const Damage rows = filled({32, 32, 0, 0}, false);
  rows(a.codes), rows(a.scales);
  CHECK(arena.of_dump(a.codes, a.scales) ==
        "equals nibble_order=high_first and codes_high_first=zeros and scales=zeros (codes: row-major, the even column "
        "in "
        "the high nibble; rows 32 to 63 (warp 1) of codes_high_first and scales are zeros: not written)");
  // Beside a difference that nothing explains, kernels of other blocks are tried in that order, too.
  a.scales(200, 3) ^= 5u;
  CHECK_THAT(arena.of_dump(a.codes, a.scales), Catch::StartsWith("no named policy explains this"));
}

TEST_CASE("scales that are a step off beside right codes are named, and beside wrong ones are not", "[quick]") {
  Arena arena(64, 128);
  for (const int step : {-1, 1, 3}) {
    Table scales = arena.a.scales, codes = arena.a.codes;
    for (uint32_t& s : scales.at) s = static_cast<uint32_t>(std::clamp(static_cast<int>(s) + step, 0, 0x7e));
    const std::string says =
        fmt::format("equals scales=stepped (scales: each scale's code is the right one {:+})", step);
    CHECK(arena.of_dump(codes, scales) == says);
    if (test::share() > 1) continue;  // before nothing is named all kernels have been tried
    codes(3, 5) ^= 1u;
    CHECK_THAT(arena.of_dump(codes, scales), !Catch::Contains("stepped"));
    scales(3, 5) = arena.a.scales(3, 5);
    CHECK_THAT(arena.of_dump(arena.a.codes, scales), !Catch::Contains("stepped"));
  }
}

// Nothing but accidents and orders is looked for in no time. One factor is what a policy of the tensor scale does.
bool is_quiet(const Diagnosis& d) {
  return d.summary.empty() || d.is_order || d.summary.starts_with("no named policy explains this") ||
         d.summary.starts_with("the ratio to the golden ") || d.summary.find("has") != std::string::npos;
}

TEST_CASE("no right dump and no policy is called an accident", "[quick][loops]") {
  std::set<std::string> policies;
  int right = 0, stages = 0;
  constexpr std::pair<int64_t, int64_t> shapes[] = {{64, 128}, {32, 96}, {33, 64}, {128, 64}, {48, 160}};
  for (const char* words : {"nvfp4", "mxfp4", "te_nvfp4", "vllm_nvfp4", "ue5m3fp4", "mxfp8",
                            "mxfp4,rounding=stochastic", "nvfp4,scale_rule=four_over_six"})
    for (const InputKind kind :
         {InputKind::boundary, InputKind::special, InputKind::gaussian, InputKind::heavy_tailed, InputKind::subnormal})
      for (const auto& shape : shapes) {
        if (!test::next_case_runs(test::large_share())) continue;
        Bench bench(test::quantize_case(words, kind, shape.first, shape.second));
        CHECK(bench.diagnose_dump(bench.correct(test::all_stages)).summary.empty());
        ++right;
        if (shape != shapes[0]) continue;
        for (const auto& field : quant_fields()) {
          const std::string name = field.name;
          if (field.words == nullptr || name == "ragged" || name == "element" || name == "scale") continue;
          for (const std::string& word : field.words()) {
            const std::string changed = std::string(words) + "," + name + "=" + word;
            try {
              quant_spec_from_words(changed);
            } catch (const std::exception&) {
              continue;
            }
            const auto all = bench.dump_of(changed, test::all_stages);
            for (const auto& some : {std::vector<std::string>{"scales", "codes"}, {"dequantized"}, {"codes"}}) {
              const Diagnosis d = bench.diagnose_dump(Bench::pick(all, some), 0);
              INFO(changed << " on " << row_of(input_kind_table, kind).name << ", " << some[0] << ": " << d.summary);
              CHECK(is_quiet(d));
              stages += d.summary.empty() ? 0 : 1;
            }
            policies.insert(changed);
          }
        }
      }
  if (test::large_share() > 1) return;
  CHECK(right == 200);
  CHECK(policies.size() >= 200);
  CHECK(stages >= 1000);
}
