// Products beside every boundary of the kernels in src/cpu/gemm/kernel_table.h: each drawing below chooses codes and
// scales around one of them, for every pair of formats and for accumulators near and far. Expected values come from the
// reference.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "src/cpu/gemm/kernel_table.h"
#include "tests/support/compare_products.h"
#include "tests/support/drawn_operands.h"
#include "tests/support/filled_codes.h"

namespace fp4 {
namespace {

using namespace test;

constexpr const char* formats[][2] = {
    // 4 and 6 bits that fit bytes.
    {"mxfp4", "mxfp4"},
    {"nvfp4,tensor_scale=none", "nvfp4,tensor_scale=none"},
    {"ue5m3fp4", "ue5m3fp4"},
    {"ue5m3fp4", "mxfp4"},
    {"ue5m3fp4,block=8", "ue5m3fp4,block=32"},
    {"ue5m3fp4,block=16x16", "ue5m3fp4,element=e1m2"},
    {"mxfp4,block=16", "mxfp4,block=64"},
    {"mxfp4,block=8", "mxfp4"},
    {"mxfp4,element=e2m3", "mxfp4,element=e3m0"},
    {"mxfp4,element=e2m3,scale=bf16", "mxfp4,element=e2m3,scale=bf16"},
    {"mxfp4,tensor_scale=outer128", "mxfp4"},
    {"mxfp4,block=row", "mxfp4,element=e3m0,block=tensor"},
    {"mxfp4,element=e2m3,block=row", "mxfp4,element=e2m3,scale=fp32,block=row"},
    // 6 and 8 bits.
    {"mxfp8", "mxfp8"},
    {"mxfp8", "mxfp4"},
    {"mxfp4", "mxfp8"},
    {"mxfp8", "mxfp6_e2m3"},
    {"mxfp6_e3m2", "mxfp6_e3m2"},
    {"mxfp6_e3m2", "mxfp8"},
    {"mxfp8,block=16", "mxfp8,block=64"},
    {"mxfp8,block=8", "mxfp6_e3m2,block=8"},
    {"mxfp8,tensor_scale=outer128", "mxfp8"},
    {"mxfp8,element=e5m2", "mxfp8"},
    {"mxfp8,element=e5m2,block=16", "mxfp8,element=e5m2"},
    {"mxfp8,block=row", "mxfp8,block=128"},
    {"mxfp8,scale=ue4m3,block=16", "mxfp8,scale=ue5m3"},
    {"mxfp8,scale=bf16,block=8", "mxfp8,scale=bf16,block=16"},
    // Scales of 24 bits.
    {"mxfp4,scale=fp32", "mxfp4,scale=fp32,block=16"},
    {"graphcore_2509_encode,tensor_scale=none", "mxfp4,scale_rule=encode"},
    {"mxfp4,scale=fp32,tensor_scale=outer128", "mxfp8,scale=fp32"},
};

constexpr Accumulator aligned(int group, int inner, int fraction_bits, int snap_log2 = no_snap) {
  return {.kind = AccumulatorKind::aligned,
          .group = group,
          .inner = inner,
          .fraction_bits = fraction_bits,
          .rounding = Rounding::toward_zero,
          .snap_log2 = snap_log2};
}

constexpr Accumulator windowed(int group, int inner, int bits) {
  return {.kind = AccumulatorKind::windowed,
          .group = group,
          .inner = inner,
          .fraction_bits = bits + 4,
          .rounding = Rounding::toward_zero,
          .scale_bits = bits,
          .carried_bits = bits + 1,
          .carried_inner = 16,
          .cuts_outranked = inner == 16};
}

// Relatives of the chips' adders: other groups, terms and widths.
constexpr Accumulator relatives[] = {aligned(64, 16, 25), aligned(32, 8, 20),  aligned(64, 16, 12, -4),
                                     aligned(64, 1, 18),  aligned(64, 32, 30), aligned(48, 16, 35),
                                     windowed(64, 4, 26), windowed(32, 16, 29)};

// All named ones, and where asked the relatives. Two names of one adder, or of two that differ only where operands have
// no scales, are one: these have.
std::vector<Accumulator> accumulators(bool with_relatives = true) {
  std::vector<Accumulator> list;
  for (const AccumulatorInfo& info : accumulator_table) {
    Accumulator row = info.row;
    row.unscaled = row.tf32 = false;
    if (std::find(list.begin(), list.end(), row) == list.end()) list.push_back(row);
  }
  if (with_relatives) list.insert(list.end(), std::begin(relatives), std::end(relatives));
  return list;
}

// Aligned sums of every width, of single products and of dots.
std::vector<Accumulator> widths() {
  std::vector<Accumulator> list;
  for (int bits = 4; bits <= 36; ++bits) {
    list.push_back(aligned(64, 16, bits));
    if (bits <= 25) list.push_back(aligned(32, 1, bits));
    if (bits % 8 == 0) list.push_back(aligned(64, 32, bits));
  }
  return list;
}

struct Pair {
  Quantized a, b;
  std::vector<Accumulator> rows;
};
using Words = const char* const (&)[2];

// The code of a number that the format has.
uint32_t code_of(const FloatFormat& f, float x) {
  return encode(f, exact_magnitude(std::fabs(x)), x < 0, {}) | (x < 0 ? f.sign_code() : 0u);
}
int64_t scales_of(const Quantized& q) { return q.geometry.scale_rows * q.geometry.scale_cols; }
const FloatFormat& element_of(const Quantized& q) { return format_of(q.spec.element); }
bool has_zero_scale(const Quantized& q) {
  return format_of(q.spec.scale).has_zero && q.spec.scale_rule != ScaleRule::encode;
}

// An exponent that the scales can have, and `more` above it.
int within(const QuantSpec& s, int exponent, int more = 0) {
  const FloatFormat& f = format_of(s.scale);
  return std::clamp(exponent, is_real(s.scale) ? -126 : f.min_exponent(), f.max_exponent() - more - 1);
}

Quantized drawn(const char* words, int64_t rows, int64_t k, Codes codes, bool has_signs, int exponent, int spread,
                Random& random) {
  const QuantSpec spec = quant_spec_from_words(words);
  const int most = format_of(spec.scale).mantissa_bits > 0 && !is_real(spec.scale) ? smaller(spread, 8) : spread;
  Quantized q = filled(words, rows, k, {codes, has_signs, within(spec, exponent, most), most}, random);
  if (spec.has_outer_scale()) {
    q.tensor_scale.resize(static_cast<size_t>(rows * outer_scale_cols(k)));
    for (float& g : q.tensor_scale) g = 0.5f + 0.01f * static_cast<float>(pick(random, 100));
  }
  return q;
}

// Some blocks of 16 and some whole rows become zero; their scales stay.
void make_holes(Quantized& q, Random& random) {
  for (int64_t r = 0; r < q.rows; ++r) {
    const bool row = pick(random, 8) == 0;
    for (int64_t k0 = 0; k0 < q.cols; k0 += 16) {
      if (!row && pick(random, 3) != 0) continue;
      for (int64_t k = k0; k < smaller(q.cols, k0 + 16); ++k) clear_code(q, r, k);
    }
  }
}

// All columns, or half of the stretches of 16 and more, are pairs of opposites, scales included: whole dots and sums of
// dots cancel, and what lies far below them is left.
void make_opposites(Pair& p, Random& random) {
  const int64_t half = p.a.cols / 64 * 32, width = one_of<int64_t>(random, {1, 8, 8, 8, half, half, half});
  const int64_t stretch = larger<int64_t>(16, 2 * width);
  const bool everywhere = pick(random, 2) == 0;
  bool here = everywhere;
  for (int64_t first = 0; first + 2 * width <= p.a.cols; first += 2 * width) {
    if (first % stretch == 0 && !everywhere) here = pick(random, 2) == 0;
    for (Quantized* q : {&p.a, &p.b}) {
      for (int64_t r = 0; here && r < q->rows; ++r) {
        for (int64_t k = first; k < first + width; ++k) {
          q->set_code(r, k + width, q->code(r, k) ^ (q == &p.a ? element_of(*q).sign_code() : 0u));
          const auto from = static_cast<size_t>(q->scale_index(r, k)),
                     to = static_cast<size_t>(q->scale_index(r, k + width));
          if (is_real(q->spec.scale)) {
            q->real_scales[to] = q->real_scales[from];
          } else {
            q->scales[to] = q->scales[from];
          }
        }
      }
    }
  }
}

// All kinds of codes on both sides, scales together and so far apart that terms lose some or all of their bits.
Pair near_and_far(Words words, int round, Random& random) {
  const int64_t k = 1 + pick(random, 260);
  const int spread = one_of(random, {0, 3, 5, 13, 22, 30, 45});
  const bool has_signs = pick(random, 4) != 0;
  Pair p = {drawn(words[0], 1 + pick(random, 20), k, all_codes[round % 6], has_signs, -20, spread, random),
            drawn(words[1], 1 + pick(random, 40), k, all_codes[round / 6 % 6], has_signs, -3, spread / 2, random),
            {fp32_block}};
  if (pick(random, 3) == 0) make_holes(p.a, random);
  if (pick(random, 3) == 0) make_holes(p.b, random);
  for (int64_t i = 0; pick(random, 3) == 0 && has_zero_scale(p.a) && i < scales_of(p.a); ++i) {
    if (pick(random, 4) == 0) set_scale(p.a, i, 0.0f);
  }
  for (const Accumulator& row : accumulators()) {
    if (pick(random, 2) == 0) p.rows.push_back(row);
  }
  return p;
}

// Dots and sums that cancel, beside terms that lose some or all of their bits to them.
Pair opposites(Words words, int round, Random& random) {
  const int64_t k = 64 + pick(random, 200);
  const int spread = one_of(random, {5, 45, 60});
  Pair p = {drawn(words[0], 1 + pick(random, 10), k, all_codes[round % 6], true, -20, spread, random),
            drawn(words[1], 1 + pick(random, 20), k, all_codes[round / 6 % 6], true, -3, spread / 2, random),
            accumulators()};
  make_opposites(p, random);
  return p;
}

// Products of scales at both ends of fp32, and one binade beside every limit of the kernels.
Pair ends_of_fp32(Words words, int round, Random& random) {
  constexpr int sums[] = {-254, -160, -150, -140, -130, -127, -118, -112, -111, -110, -109,
                          -100, 80,   88,   89,   90,   91,   92,   100,  120,  200,  250};
  const int sum = sums[round % static_cast<int>(std::size(sums))];
  return {drawn(words[0], 10, 100, one_of(random, all_codes), true, sum / 2, round % 5, random),
          drawn(words[1], 18, 100, one_of(random, all_codes), true, sum - sum / 2, 1, random), accumulators(false)};
}

// The largest elements everywhere: sums of integers are largest, and where scales are they pass 2^128, and stay
// infinite.
Pair largest_elements(Words words, int round, Random& random) {
  const int sum = round < 2 ? 0 : 80 + 5 * round;
  const int64_t k = round < 2 ? 96 : 512;
  Pair p = {drawn(words[0], 10, k, Codes::largest, false, sum / 2, 0, random),
            drawn(words[1], 18, k, Codes::largest, false, sum - sum / 2, 0, random), accumulators(false)};
  const uint32_t negative = element_of(p.a).sign_code() | element_of(p.a).largest_code;
  for (int64_t i = 0; i < k; ++i) {
    p.a.set_code(3, i, negative);
    if (round % 2 == 1 && i >= k / 2) p.a.set_code(4, i, negative);
  }
  return p;
}

// Elements whose last bits lie around the cut, in every group of a sum that has grown by then.
Pair last_bits(Words words, int round, Random& random) {
  const int64_t k = 100 + pick(random, 200);
  constexpr Codes kinds[] = {Codes::beside_units, Codes::sparse, Codes::large, Codes::any, Codes::largest};
  return {drawn(words[0], 9, k, kinds[round % 5], pick(random, 2) == 0, -2, pick(random, 4), random),
          drawn(words[1], 20, k, Codes::beside_units, pick(random, 2) == 0, -1, 0, random), widths()};
}

// Blocks of a row grow and shrink by whole binades, with one element or two each: every relation of accumulator,
// largest weight and term, on both sides of the cut.
Pair around_the_cut(Words words, int, Random& random) {
  Pair p = {drawn(words[0], 9, 256, Codes::any, true, 0, 0, random),
            drawn(words[1], 20, 256, Codes::any, true, 0, 0, random), widths()};
  for (Quantized* q : {&p.a, &p.b}) {
    for (int64_t r = 0; r < q->rows; ++r) {
      for (int64_t k = 0; k < q->cols; ++k) {
        if (k % 8 > pick(random, 2)) clear_code(*q, r, k);
      }
    }
    const int most = format_of(q->spec.scale).mantissa_bits > 0 && !is_real(q->spec.scale) ? 6 : 20;
    for (int64_t i = 0; i < scales_of(*q); ++i) {
      const uint32_t kept = q->spec.scale == Scale::bf16 ? 0xFFFF0000u : 0xFFFFFFFFu;
      const float s = format_of(q->spec.scale).mantissa_bits > 0 ? float_of(bits_of(significand(random)) & kept) : 1.0f;
      set_scale(*q, i, std::ldexp(s, within(q->spec, pick(random, 2 * most) - most)));
    }
  }
  for (const Accumulator& row : accumulators(false)) p.rows.push_back(row);
  return p;
}

// Scales m * 2^e of up to five bits, e in 0..spread, the ends among the first two blocks of a row: at and beyond what
// bytes and 16-bit integers can carry, with blocks of zeros and of NaN.
Pair spreads(Words words, int round, Random& random) {
  const int spread = round % 13;
  const int fill = round / 13;
  const int64_t k = one_of(random, {33, 64, 80, 97, 128, 200, 432, 520, 1040, 1100});
  const int base = one_of(random, {0, 0, -20, -66, 58});
  const Codes codes = fill == 1 ? Codes::largest : Codes::large;
  Pair p = {drawn(words[0], 9, k, codes, fill != 1, 0, 0, random),
            drawn(words[1], 20, k, codes, fill != 1, 0, 0, random),
            {fp32_block}};
  for (const char* name : {"exact", "k64_rz", "k64_rz_snap", "fused35_rz", "fused25_rz"}) {
    p.rows.push_back(accumulator_from_words(name));
  }
  for (Quantized* q : {&p.a, &p.b}) {
    const int most = q == &p.a ? spread : spread / 2;
    const FloatFormat& f = format_of(q->spec.scale);
    const int up = smaller(most, f.max_exponent() - within(q->spec, base) - 1);
    for (int64_t i = 0; i < scales_of(*q); ++i) {
      const int64_t at = i % q->geometry.scale_cols;
      const int e = at == 0 ? 0 : (at == 1 ? up : pick(random, up + 1));
      const float m =
          f.mantissa_bits == 0 ? 1.0f : (fill == 1 ? 15.0f / 8 : 1.0f + static_cast<float>(pick(random, 8)) / 8);
      set_scale(*q, i, std::ldexp(m, within(q->spec, base) + e));
      if (fill == 2 && pick(random, 60) == 0 && f.nan_code != no_code) set_scale(*q, i, float_of(canonical_nan_bits));
    }
    if (fill == 2) make_holes(*q, random);
  }
  return p;
}

// Level bytes of 96 sum to 2^24 and one unit less and more: 1820 elements of 6 under 2^3 give 1820 * 9216 = 2^24 -
// 4096, 28 times 144 and 64 in the first block the rest.
Pair sums_at_2_24(Words words, int round, Random& random) {
  const int extra = one_of(random, {-1, 0, 1, 3});
  Pair p = {drawn(words[0], 16, 1856, Codes::largest, false, 0, 0, random),
            drawn(words[1], 16, 1856, Codes::largest, false, 0, 0, random), accumulators(false)};
  for (Quantized* q : {&p.a, &p.b}) {
    const FloatFormat& f = element_of(*q);
    const auto code = [&f](float x) { return code_of(f, x); };
    for (int64_t r = 0; r < q->rows; ++r) {
      for (int64_t i = 28; i < 32; ++i) clear_code(*q, r, i);
      for (int64_t i = 1852; i < 1856; ++i) clear_code(*q, r, i);
      q->set_code(r, 28, code(extra < 0 ? 3.0f : 4.0f));
      for (int64_t i = 29; i < 32 && (extra < 0 || i < 29 + extra); ++i)
        q->set_code(r, i, code(extra < 0 ? 1.5f : 0.5f));
      for (int64_t i = 0; round % 2 == 1 && q == &p.b && i < 1856; ++i) {
        if (pick(random, 2) == 0) q->set_code(r, i, q->code(r, i) | f.sign_code());
      }
    }
    for (int64_t i = 0; i < scales_of(*q); ++i) set_scale(*q, i, i % q->geometry.scale_cols == 0 ? 1.0f : 8.0f);
  }
  return p;
}

// Three blocks: a sum, what ties with it for some shift, by its largest product or by the last bit of a scale, and
// products far smaller beside it: from one shift to the next the distance grows beyond what 24, and 53, bits hold. In
// the last third of the rounds the first sum lies beside 2^-126, so that ties are those of subnormal floats.
Pair tied_blocks(Words words, int round, Random& random) {
  const bool is_faint = round >= 98;
  const int shift = is_faint ? -19 - round % 7 : round % 49 - 44;
  const int base = is_faint ? -72 + pick(random, 3) : 0;
  const QuantSpec spec = quant_spec_from_words(words[0]);
  const int64_t block = spec.block.kind == BlockKind::vector ? spec.block.size : 32;
  Pair p = {operand(words[0], 9, 3 * block, 0), operand(words[0], 34, 3 * block, 0), {fp32_block}};
  for (const char* name : {"exact", "k64_rz", "fused35_rz"}) p.rows.push_back(accumulator_from_words(name));
  const float large = is_faint ? 256.0f : one_of(random, {6.0f, 8.0f, 32.0f, 160.0f, 256.0f});
  const float tiny = one_of(random, {0.0f, 1.0f, -1.0f, 3.0f, -7.0f, -64.0f});
  const bool other = pick(random, 2) == 0;
  const FloatFormat& f = element_of(p.a);
  const float least = std::ldexp(1.0f, f.quantum_log2());
  const auto code = [&f](float x) { return code_of(f, x); };
  const auto scale = [&spec](bool is_odd, int exponent) {
    const float odd = 2.0f - std::ldexp(1.0f, -format_of(spec.scale).mantissa_bits);
    return std::ldexp(is_odd ? odd : 1.0f, within(spec, exponent));
  };
  for (int64_t r = 0; r < p.a.rows; ++r) {
    p.a.set_code(r, 0, code(r % 3 == 0 ? -256.0f : 256.0f));
    p.a.set_code(r, 1, code(static_cast<float>(r % 4)));
    p.a.set_code(r, block, code(large));
    p.a.set_code(r, block + 1, code(tiny * least));
    p.a.set_code(r, block + 2, code(r % 2 == 0 ? 1.875f : -0.125f));
    p.a.set_code(r, 2 * block, code(r % 2 == 0 ? 1.75f : 0.0f));
    set_scale(p.a, 3 * r, scale(other && r % 4 == 3, base + (other ? 0 : static_cast<int>(r % 2))));
    set_scale(p.a, 3 * r + 1, scale(other && r % 2 == 0, base + shift / 2));
  }
  for (int64_t c = 0; c < p.b.rows; ++c) {
    p.b.set_code(c, 0, code(other ? 240.0f : 256.0f));
    p.b.set_code(c, 1, code(least * static_cast<float>(c % 3 + 1)));
    p.b.set_code(c, block, code(c % 2 == 0 ? large : -8.0f));
    p.b.set_code(c, block + 1, code(c % 3 == 0 ? least : 1.0f));
    p.b.set_code(c, block + 2, code(c % 4 == 0 ? 7 * least : 0.0f));
    p.b.set_code(c, 2 * block, code(c % 5 == 0 ? least : 0.0f));
    set_scale(p.b, 3 * c, scale(false, base));
    set_scale(p.b, 3 * c + 1, scale(other && c % 4 >= 2, base + shift - shift / 2));
  }
  return p;
}

// Rows from the largest to the smallest scales of a format beside each other, as the gradients of examples are that a
// network has learned: sums on both sides of 2^-126 and of 2^-149 in one tile.
Pair fading_rows(Words words, int round, Random& random) {
  const int64_t k = one_of(random, {10, 64, 128, 200});
  Pair p = {drawn(words[0], 19, k, all_codes[round % 6], true, 0, 0, random),
            drawn(words[1], 21, k, one_of(random, all_codes), true, one_of(random, {-2, -8, -30}), 2, random),
            accumulators(false)};
  const int steepest = one_of(random, {30, 90, 127});
  for (int64_t i = 0; i < scales_of(p.a); ++i) {
    const auto row = static_cast<int>(i / p.a.geometry.scale_cols);
    set_scale(p.a, i, std::ldexp(1.0f, within(p.a.spec, -row * steepest / 18 - pick(random, 3))));
  }
  if (pick(random, 3) == 0) make_holes(p.a, random);
  return p;
}

// Negative dots times a scale of zero are -0, and sums of those +0; a scale of zero weighs nothing, however large the
// one that it meets.
Pair scales_of_zero(Words words, int round, Random& random) {
  const int64_t k = one_of(random, {7, 64, 128, 200});
  const bool large = round % 2 == 1;
  Pair p = {drawn(words[0], 12, k, Codes::large, false, 0, 1, random),
            drawn(words[1], 19, k, Codes::large, large, 0, 1, random), accumulators(false)};
  for (int64_t r = 0; r < p.a.rows; ++r) {
    for (int64_t i = 0; i < k; ++i) p.a.set_code(r, i, element_of(p.a).sign_code() | p.a.code(r, i));
  }
  for (int64_t i = 0; i < scales_of(p.a); ++i) {  // whole rows, rows but for their first block, and none
    const int64_t r = i / p.a.geometry.scale_cols;
    if (r % 3 != 2 && (r % 3 == 0 || i % p.a.geometry.scale_cols > 0)) set_scale(p.a, i, 0.0f);
  }
  for (int64_t i = 0; large && i < scales_of(p.b); i += 3) set_scale(p.b, i, std::ldexp(1.0f, within(p.b.spec, 88)));
  return p;
}

// A block of zeros weighs as its scale does in aligned sums: from some scale on it cuts the last bit of the others.
Pair heavy_zeros(Words words, int round, Random& random) {
  const bool mixed = round % 2 == 0;  // else dots as long as they get
  const Codes codes = mixed ? Codes::any : Codes::large;
  Pair p = {drawn(words[0], 10, 96, codes, mixed, 0, 1, random), drawn(words[1], 18, 96, codes, mixed, 0, 0, random),
            accumulators(false)};
  for (int64_t r = 0; r < p.a.rows; ++r) {
    for (int64_t k = 32; k < 64; ++k) clear_code(p.a, r, k);
    const int64_t per_row = p.a.geometry.scale_cols;
    for (int64_t i = per_row / 3; i < 2 * per_row / 3; ++i)
      set_scale(p.a, r * per_row + i, std::ldexp(1.0f, within(p.a.spec, 18 + round)));
  }
  return p;
}

// The largest elements of 1.6 million columns pass 2^128 where scales of both sides give 2^90: sums become infinite,
// and what they lost by then is no number.
Pair overflowing_row(Words words, int, Random& random) {
  constexpr int64_t k = 1600 * 1024;
  return {drawn(words[0], 1, k, Codes::largest, false, 45, 0, random),
          drawn(words[1], 1, k, Codes::largest, false, 45, 0, random),
          {fp32_block}};
}

// Blocks of the largest elements but for one pair, which makes dots odd numbers of 17 bits: with the 8 bits of a bf16
// scale one bit more than fp32 holds.
Pair odd_dots(Words words, int, Random& random) {
  Pair p = {drawn(words[0], 9, 256, Codes::largest, false, 0, 2, random),
            drawn(words[1], 20, 256, Codes::largest, false, 0, 2, random), accumulators(false)};
  for (Quantized* q : {&p.a, &p.b}) {
    const int odd_ones = 1 << element_of(*q).mantissa_bits >> 1;
    for (int64_t r = 0; r < q->rows; ++r) {
      for (int64_t k = 0; k < q->cols; k += 32)
        q->set_code(r, k, static_cast<uint32_t>(2 * pick(random, odd_ones) + 1));
    }
  }
  return p;
}

// Dots of whole rows that no fp32 holds: e2m3 from 4,661 columns on, e3m0 from 4,097.
Pair long_rows(Words words, int round, Random& random) {
  constexpr int64_t lengths[] = {4096, 4097, 4660, 4661, 6001};
  const Codes codes = round < 5 ? Codes::largest : Codes::any;
  const int64_t k = lengths[round % 5];
  return {drawn(words[0], 3, k, codes, round >= 5, 0, 1, random),
          drawn(words[1], 5, k, codes, round >= 5, 0, 1, random),
          {fp32_block, accumulator_from_words("exact"), accumulator_from_words("k64_rz")}};
}

// Sums of the largest elements grow over up to 2,000 groups of 64. In the last group one product is half the last bit
// of the sum, or beside it, and another lies 50 to 60 binades below the sum: what fp64 loses decides the tie, or the
// cut.
Pair grown_sums(Words words, int round, Random& random) {
  const int64_t k = 64 * one_of(random, {800, 1600, 2000});
  Pair p = {drawn(words[0], 1, k, Codes::largest, false, 0, 0, random),
            drawn(words[1], 2, k, Codes::largest, false, 0, 0, random),
            {fp32_block, accumulator_from_words("exact"), accumulator_from_words("k64_rz")}};
  const int below = 1 + round / 2 % 8;  // binades that both scales of the last group lie below the others
  const FloatFormat &fa = element_of(p.a), &fb = element_of(p.b);
  const double sum = static_cast<double>(k - 64) * decode(fa, fa.largest_code) * decode(fb, fb.largest_code);
  const int half_bit = std::ilogb(sum) - 24 + 2 * below + one_of(random, {-1, 0, 0, 0, 1});
  const int power_a = std::clamp(half_bit / 2, fa.quantum_log2(), fa.max_exponent());
  const int power_b = std::clamp(half_bit - power_a, fb.quantum_log2(), fb.max_exponent());
  for (Quantized* q : {&p.a, &p.b}) {
    const FloatFormat& f = element_of(*q);
    const int power = q == &p.a ? power_a : power_b;
    const int tiny = f.quantum_log2() + pick(random, f.mantissa_bits + 1);
    for (int64_t r = 0; r < q->rows; ++r) {
      for (int64_t i = k - 64; i < k; ++i) clear_code(*q, r, i);
      const bool is_negative = q == &p.b && r == 0;
      q->set_code(r, k - 63, code_of(f, std::ldexp(is_negative ? -1.0f : 1.0f, tiny)));
      if (round % 2 == 1) q->set_code(r, k - 62, code_of(f, std::ldexp(1.0f, power)));
      const int64_t per_row = q->geometry.scale_cols;
      for (int64_t i = per_row - per_row * 64 / k; i < per_row; ++i)
        set_scale(*q, r * per_row + i, std::ldexp(1.0f, within(q->spec, -below)));
    }
  }
  return p;
}

bool is_any(Words) { return true; }
bool is_level(Words words) { return words[0] == std::string("mxfp4") && words[1] == std::string("mxfp4"); }
bool is_mxfp8(Words words) { return words[0] == std::string("mxfp8") && words[1] == std::string("mxfp8"); }
bool is_wide(Words words) { return words[0] == std::string("mxfp4,element=e2m3,scale=bf16"); }
bool is_long(Words words) {
  const auto has = [](const char* side) {
    return !quant_spec_from_words(side).has_outer_scale() && std::string(side).find("row") != std::string::npos;
  };
  return has(words[0]);
}
bool has_zeros(Words words) { return has_zero_scale(operand(words[0], 1, 1, 0)); }
bool is_vector(Words words) {
  const QuantSpec s = quant_spec_from_words(words[0]);
  return s.block.kind == BlockKind::vector && !s.has_outer_scale() && s.scale_rule != ScaleRule::encode;
}
bool may_grow(Words words) {
  const std::string a = words[0];
  return is_mxfp8(words) || a == "mxfp8,block=16" || a == "mxfp6_e3m2";
}
// Of a drawing over very many cases one in `of` is compared where a share is asked for (share.h).
constexpr uint32_t all = 1, third = 3, shared = UINT32_MAX;

void compare(Pair (*draw)(Words, int round, Random&), bool (*fits)(Words), int rounds, uint32_t of = all) {
  const uint32_t one_in = smaller(of, large_share() / share());
  uint32_t seed = 1;
  for (const auto& words : formats) {
    if (!fits(words)) continue;
    for (int round = 0; round < rounds; ++round) {
      Random random(++seed);
      const Pair p = draw(words, round, random);
      const std::string what = std::string(words[0]) + " | " + words[1] + " round " + std::to_string(round) + " K " +
                               std::to_string(p.a.cols);
      for (const Accumulator& row : p.rows)
        if (one_in == 1 || next_case_runs(one_in)) compare_products(p.a, p.b, row, what);
    }
  }
}

// Operands without scales: halves and bytes of every exponent, so that groups lie within reach of fp32 powers, beyond
// it on either side, or hold infinities and NaN.
TEST_CASE("adders of chips add operands without scales", "[quick]") {
  std::vector<Accumulator> rows = {
      {.kind = AccumulatorKind::aligned,
       .group = 12,
       .fraction_bits = 9,
       .rounding = Rounding::toward_zero,
       .unscaled = true},
      {.kind = AccumulatorKind::aligned, .group = 20, .fraction_bits = 11, .unscaled = true, .is_half = true},
      {.kind = AccumulatorKind::floor_aligned, .group = 12, .fraction_bits = 9, .unscaled = true},
      {.kind = AccumulatorKind::floor_aligned_pairs, .fraction_bits = 25, .unscaled = true}};
  for (const AccumulatorInfo& info : accumulator_table) {
    if (takes(info.row, false, format_of(Element::bf16))) rows.push_back(info.row);
  }
  constexpr const char* pairs[][2] = {{"bf16", "bf16"},
                                      {"fp16", "fp16"},
                                      {"bf16,element=e4m3", "bf16,element=e5m2"},
                                      {"bf16", "bf16,element=e3m2"},
                                      {"fp16", "bf16"},
                                      {"fp32", "fp32"},
                                      {"bf16", "fp32"},
                                      {"bf16,element=e2m1", "bf16,element=e2m3"}};
  cpu::gemm_uses.reset();
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    for (const auto& words : pairs) {
      const int64_t k = one_of(random, {1, 7, 16, 50, 64, 130});
      const auto drawn = [&](const char* spec, int64_t n) {
        std::vector<float> x = drawn_values(n * k, random);
        if (round % 3 == 0) {  // what cancels, over a few binades; what fp16 holds, and does not
          for (float& v : x) v = drawn_value(round % 2 == 0 ? round - 30 : round / 6, 14, random);
        }
        Quantized q;
        reference_backend().quantize({.x = view_of(x.data(), n, k), .spec = quant_spec_from_words(spec)}, q);
        return q;
      };
      const Quantized a = drawn(words[0], 10), b = drawn(words[1], 19);
      for (const Accumulator& row : rows) compare_products(a, b, row, std::string(words[0]) + " | " + words[1]);
    }
  }
  const cpu::TileCounts uses = cpu::gemm_uses.read();
  const auto taken = [&](cpu::GemmKernel kernel) { return uses[static_cast<size_t>(kernel)].taken; };
  if (backends_under_test().size() > 1)
    CHECK((taken(cpu::GemmKernel::terms) > 1000 && taken(cpu::GemmKernel::core) > 100));
}
// Zero times 2^60 weighs 2^-66 in CDNA3's adder, which cuts (1 + 2^-7)^2 * 2^-80 at 2^-90.
TEST_CASE("zeros beside large values", "[quick]") {
  const std::vector<float> x = {0x1.02p-80f, 0.0f}, y = {0x1.02p0f, 0x1p60f};
  Quantized a, b;
  reference_backend().quantize({.x = view_of(x.data(), 1, 2), .spec = quant_spec_from_words("bf16")}, a);
  reference_backend().quantize({.x = view_of(y.data(), 1, 2), .spec = quant_spec_from_words("bf16")}, b);
  for (const char* name : {"cdna3_16bit", "cdna3_fp8"}) compare_products(a, b, accumulator_from_words(name), name);
}
TEST_CASE("zeros under large scales", "[quick]") { compare(heavy_zeros, is_vector, 20); }
TEST_CASE("a row that overflows", "[quick]") { compare(overflowing_row, is_mxfp8, 1); }
TEST_CASE("sums that have grown", "[quick]") { compare(grown_sums, may_grow, 16); }
TEST_CASE("scales of zero", "[quick]") { compare(scales_of_zero, has_zeros, 8); }
TEST_CASE("blocks that tie", "[quick]") { compare(tied_blocks, is_vector, 147); }
TEST_CASE("rows that fade", "[quick]") { compare(fading_rows, is_vector, 12, shared); }
TEST_CASE("codes and scales near and far", "[quick]") { compare(near_and_far, is_any, 72, third); }
TEST_CASE("terms that cancel", "[quick]") { compare(opposites, is_any, 36, third); }
TEST_CASE("ends of fp32", "[quick]") { compare(ends_of_fp32, is_any, 22, shared); }
TEST_CASE("the largest elements", "[quick]") { compare(largest_elements, is_any, 6, shared); }
TEST_CASE("last bits around the cut", "[quick]") { compare(last_bits, is_any, 3, shared); }
TEST_CASE("terms on both sides of the cut", "[quick]") { compare(around_the_cut, is_any, 2, shared); }
TEST_CASE("spreads of scales", "[quick]") { compare(spreads, is_vector, 39, shared); }
TEST_CASE("sums at 2^24", "[quick]") { compare(sums_at_2_24, is_level, 12); }
TEST_CASE("long rows", "[quick]") { compare(long_rows, is_long, 10); }
TEST_CASE("odd dots of 17 bits", "[quick]") { compare(odd_dots, is_wide, 4); }

}  // namespace
}  // namespace fp4
