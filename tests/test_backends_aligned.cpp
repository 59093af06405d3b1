// Accumulators that align terms and cut them (src/cpu/gemm/gemm_cut_avx512.h), from codes chosen here: scales together and
// so far apart that terms lose some or all of their bits, accumulators far above and below the next group, groups cut
// short by K, blocks of zeros with large and small scales. Expected values come from the reference.
#include <catch2/catch.hpp>

#include "tests/support/compare_products.h"
#include "tests/support/filled_codes.h"

namespace fp4 {
namespace {

using namespace test;

constexpr Accumulator aligned(int group, int inner, int fraction_bits, int snap_log2 = no_snap,
                              int zero_exponent = no_zero_exponent) {
  return {.kind = AccumulatorKind::aligned,
          .group = group,
          .inner = inner,
          .fraction_bits = fraction_bits,
          .rounding = Rounding::toward_zero,
          .snap_log2 = snap_log2,
          .zero_exponent = zero_exponent};
}

constexpr Accumulator k64_rz = {.kind = AccumulatorKind::group, .group = 64, .rounding = Rounding::toward_zero};

// fused35_rz and fused25_rz first, then relatives of both: other groups, terms and widths; last the other
// accumulators that take K in order.
constexpr Accumulator rows[] = {aligned(64, 16, 35),
                                aligned(32, 1, 25),
                                aligned(64, 16, 25),
                                aligned(32, 8, 20),
                                aligned(64, 16, 12, -4),
                                aligned(64, 1, 18),
                                aligned(64, 32, 30),
                                aligned(48, 16, 35),
                                aligned(64, 16, 35, no_snap, -139),
                                aligned(32, 1, 25, no_snap, -133),
                                {.kind = AccumulatorKind::group},
                                k64_rz,
                                {.kind = AccumulatorKind::sequential},
                                {.kind = AccumulatorKind::sequential_double},
                                {.kind = AccumulatorKind::fma}};

constexpr const char* formats[][2] = {{"mxfp4", "mxfp4"},
                                      {"nvfp4,tensor_scale=none", "nvfp4,tensor_scale=none"},
                                      {"ue5m3fp4", "mxfp4"},
                                      {"mxfp4,block=16", "mxfp4,block=64"},
                                      {"mxfp4,block=8", "mxfp4"},
                                      {"mxfp4,element=e2m3", "mxfp4,element=e3m0"},
                                      {"mxfp4,tensor_scale=outer128", "mxfp4"},
                                      {"mxfp8", "mxfp8"},
                                      {"mxfp8", "mxfp4"},
                                      {"mxfp6_e3m2", "mxfp8"},
                                      {"mxfp8,block=16", "mxfp8,block=64"},
                                      {"mxfp8,tensor_scale=outer128", "mxfp8"},
                                      {"mxfp8,element=e5m2", "mxfp8"},
                                      {"mxfp8,element=e5m2,block=16", "mxfp8,element=e5m2"},
                                      {"mxfp8,block=8", "mxfp6_e3m2,block=8"},
                                      {"mxfp4,scale=fp32", "mxfp4,scale=fp32,block=16"},
                                      {"graphcore_2509_encode,tensor_scale=none", "mxfp4,scale_rule=encode"},
                                      {"mxfp4,element=e3m0,scale=fp32,block=8", "mxfp4,element=e2m3"},
                                      {"mxfp4,scale=fp32,tensor_scale=outer128", "mxfp4,scale=fp32"},
                                      {"mxfp8,scale=fp32", "graphcore_2509_encode,tensor_scale=none"},
                                      {"mxfp8,element=e5m2,scale=fp32,block=16", "mxfp6_e3m2,scale=fp32"}};

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

// Some scales become zero, where the format has a zero; no quantiser stores a multiplier of zero.
void make_zero_scales(Quantized& q, Random& random) {
  if (!format_of(q.spec.scale).has_zero || q.spec.scale_rule == ScaleRule::encode) return;
  for (uint8_t& s : q.scales) s = pick(random, 4) == 0 ? uint8_t{0} : s;
  for (float& s : q.real_scales) s = pick(random, 4) == 0 ? 0.0f : s;
}

// Scales of one side within `spread` binades from `exponent` on.
void compare_filled(const char* const (&words)[2], Codes codes_a, Codes codes_b, int exponent, int spread,
                    Random& random) {
  // Small scale formats have fewer binades.
  const auto is_small = [](const char* side) {
    const Scale scale = quant_spec_from_words(side).scale;
    return !is_real(scale) && format_of(scale).mantissa_bits > 0;
  };
  const bool small_a = is_small(words[0]);
  const bool small_b = is_small(words[1]);
  const int least_a = small_a ? larger(exponent, -6) : exponent;
  const int least_b = smaller(small_b ? larger(exponent, -6) : least_a, 0);
  const int far = small_a || small_b ? smaller(spread, 8) : spread;
  const int64_t k = 1 + pick(random, 260);
  const bool has_signs = pick(random, 4) != 0;
  Quantized a = filled(words[0], 1 + pick(random, 20), k, {codes_a, has_signs, least_a, far}, random);
  Quantized b = filled(words[1], 1 + pick(random, 40), k, {codes_b, has_signs, least_b, far / 2}, random);
  if (a.spec.has_outer_scale()) {
    a.tensor_scale.resize(static_cast<size_t>(a.rows * outer_scale_cols(k)));
    for (float& g : a.tensor_scale) g = 0.5f + 0.01f * static_cast<float>(pick(random, 100));
  }
  if (pick(random, 3) == 0) make_holes(a, random);
  if (pick(random, 3) == 0) make_holes(b, random);
  if (pick(random, 3) == 0) make_zero_scales(a, random);
  for (const Accumulator& row : rows) {
    compare_products(a, b, row,
                     std::string(words[0]) + " | " + words[1] + " K " + std::to_string(k) + " codes " +
                         std::to_string(static_cast<int>(codes_a)) + " " + std::to_string(static_cast<int>(codes_b)) +
                         " exponent " + std::to_string(exponent) + " spread " + std::to_string(spread));
  }
}

TEST_CASE("aligned sums of terms near and far", "[quick]") {
  Random random(11);
  for (const auto& words : formats) {
    for (const Codes a : all_codes) {
      for (const Codes b : all_codes) {
        for (const int spread : {0, 5, 13, 22, 45}) {
          if (a == b || pick(random, 2) == 0) compare_filled(words, a, b, -20, spread, random);
        }
      }
    }
  }
}

// Whether nothing is cut hangs on one bit of the model, for some of these.
TEST_CASE("single products that just fit, and just do not", "[quick]") {
  Random random(14);
  for (const auto& words : formats) {
    for (const Codes codes : {Codes::any, Codes::largest, Codes::subnormal, Codes::sparse}) {
      for (int spread = 0; spread < 3; ++spread) {
        const int64_t k = 64 + pick(random, 60);
        Quantized a = filled(words[0], 9, k, {codes, true, -3, spread}, random);
        const Quantized b = filled(words[1], 20, k, {Codes::any, true, -1, spread / 2}, random);
        if (a.spec.has_outer_scale()) a.tensor_scale.assign(9, 0.75f);
        for (int bits = 4; bits <= 25; ++bits) compare_products(a, b, aligned(32, 1, bits), "just fits");
      }
    }
  }
}

// Elements whose last bits lie around the cut, in every group of a sum that has grown by then.
TEST_CASE("last bits of elements around the cut", "[quick]") {
  Random random(15);
  for (const auto& words : formats) {
    for (const Codes codes : {Codes::beside_units, Codes::sparse, Codes::large}) {
      const int64_t k = 100 + pick(random, 200);
      Quantized a = filled(words[0], 9, k, {codes, pick(random, 2) == 0, -2, pick(random, 4)}, random);
      const Quantized b = filled(words[1], 35, k, {Codes::beside_units, pick(random, 2) == 0, -1, 0}, random);
      if (a.spec.has_outer_scale()) a.tensor_scale.assign(27, 0.75f);
      for (int bits = 6; bits <= 36; ++bits) {
        compare_products(a, b, aligned(64, 16, bits), "last bits");
        compare_products(a, b, aligned(32, 1, smaller(bits, 25)), "last bits");
        if (bits % 8 == 0) compare_products(a, b, aligned(64, 32, bits), "last bits");
      }
    }
  }
}

TEST_CASE("aligned sums at both ends of fp32", "[quick]") {
  Random random(12);
  for (const auto& words : formats) {
    for (const int exponent : {-127, -110, -100, -70, -60, -55, -54, -50, 40, 44, 46, 60, 90, 120}) {
      compare_filled(words, Codes::any, Codes::sparse, exponent, 4, random);
    }
  }
}

// Blocks of a row grow and shrink by whole binades, with one element each: every relation of accumulator, largest
// weight and term, on both sides of the cut, either sign.
TEST_CASE("terms on both sides of the cut", "[quick]") {
  for (const auto& words : formats) {
    Quantized a = operand(words[0], 9, 256, 0);
    Quantized b = operand(words[1], 20, 256, 0);
    if (a.spec.has_outer_scale()) a.tensor_scale.assign(18, 1.0f);
    Random random(13);
    for (Quantized* q : {&a, &b}) {
      const FloatFormat& f = format_of(q->spec.element);
      for (int64_t r = 0; r < q->rows; ++r) {
        for (int64_t k = 0; k < q->cols; k += 8) {
          for (int64_t i = k; i < k + 1 + pick(random, 2); ++i) {
            const uint32_t sign = pick(random, 2) == 0 ? f.sign_code() : 0u;
            q->set_code(r, i, sign | (pick(random, 3) == 0 ? f.largest_code : magnitude(Codes::any, f, random)));
          }
        }
      }
      const FloatFormat& scale = format_of(q->spec.scale);
      const int most = scale.mantissa_bits > 0 ? 6 : 20;
      for (uint8_t& s : q->scales)
        s = static_cast<uint8_t>(s + ((pick(random, 2 * most) - most) * (1 << scale.mantissa_bits)));
      for (float& s : q->real_scales) s = std::ldexp(significand(random), pick(random, 40) - 20);
    }
    for (const Accumulator& row : rows) {
      for (int bits = 8; bits <= 36; ++bits) {
        Accumulator narrower = row;
        narrower.fraction_bits = row.inner == 1 ? smaller(bits, 25) : bits;
        compare_products(a, b, narrower, std::string(words[0]) + " | " + words[1] + " around the cut");
      }
    }
  }
}

// A scale of zero weighs nothing, however large the scale that it meets: here the older rule cuts all other terms.
TEST_CASE("a zero scale beside a large one", "[quick]") {
  Random random(15);
  for (const bool swapped : {false, true}) {
    Quantized a = filled("nvfp4,tensor_scale=none", 3, 128, {Codes::any, true, -6, 0}, random);
    Quantized b = filled("mxfp4,block=16", 18, 128, {Codes::any, true, -88, 2}, random);
    for (int64_t r = 0; r < a.rows; ++r) set_scale(a, r * 8 + 2, 0.0f);
    for (int64_t r = 0; r < b.rows; ++r) set_scale(b, r * 8 + 2, 0x1p88f);
    const Quantized& left = swapped ? b : a;
    const Quantized& right = swapped ? a : b;
    for (const Accumulator& row : rows) compare_products(left, right, row, swapped ? "zero in B" : "zero in A");
  }
}

}  // namespace
}  // namespace fp4
