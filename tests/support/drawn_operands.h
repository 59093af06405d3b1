// Operands of fast backends, drawn: values that find rounding bugs, any shape, layout, place and Hadamard. And what a
// backend makes of them against the reference: the same bits or a refusal, which is counted and shown.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/backends_under_test.h"
#include "tests/support/filled_codes.h"
#include "tests/support/same_floats.h"

namespace fp4::test {

// Within `spread` binades of 2^exponent: on grid points of five bits, few ulps beside them, or anywhere.
inline float drawn_value(int exponent, int spread, Random& random) {
  const int kind = pick(random, 10);
  const float sign = pick(random, 2) == 0 ? 1.0f : -1.0f;
  if (kind == 0) return sign * 0.0f;
  const int e = std::clamp(exponent - pick(random, spread + 1), -149, 127);
  if (kind < 4) return sign * std::ldexp(significand(random), e);
  const float grid = std::ldexp(1.0f + static_cast<float>(pick(random, 32)) / 32.0f, e);
  const auto off = kind < 7 ? 0 : pick(random, 5) - 2;
  const float x = float_of(bits_of(grid) + static_cast<uint32_t>(off));
  return sign * (is_finite(x) ? x : grid);
}

// Sixteen elements, Gaussian or on and beside the boundaries of a scale of 4 bits; special ones lie at the ends of
// fp32, or are zero, infinite or NaN.
inline void fill_piece(float* x, bool is_special, Random& random) {
  std::normal_distribution<float> normal;
  const bool gaussian = pick(random, 2) == 0;
  const float scale = std::ldexp(1.0f + static_cast<float>(pick(random, 8)) / 8.0f, pick(random, 9) - 4);
  constexpr float boundaries[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 6.0f, 1.0f, 0.0f, 3.0f, 0x1p-11f};
  for (int i = 0; i < 16; ++i) {
    if (gaussian) {
      x[i] = normal(random);
      continue;
    }
    x[i] = (i == 3 ? 6.0f : one_of(random, boundaries)) * scale;
    if (pick(random, 3) == 0) x[i] = std::nextafter(x[i], pick(random, 2) == 0 ? 0.0f : 100.0f);
    if (pick(random, 2) == 0) x[i] = -x[i];
  }
  if (!is_special) return;
  constexpr int exponents[] = {-149, -140, -126, -112, -101, -99, -60, 60, 99, 101, 120, 125};
  const int kind = pick(random, 9);
  for (int i = 0; i < 16; ++i) {
    if (kind == 0 || (kind == 1 && pick(random, 3) != 0)) x[i] = pick(random, 2) == 0 ? 0.0f : -0.0f;
    if (kind == 2) x[i] = float_of(random() & 0x800FFFFFu);
    if (kind > 2 && kind < 7) x[i] = std::ldexp(x[i], exponents[(kind - 3) * 3 + i % 3]);
  }
  if (kind == 7) x[pick(random, 16)] = pick(random, 2) == 0 ? INFINITY : -INFINITY;
  if (kind == 8) x[pick(random, 16)] = NAN;
}

// Pieces of which one in `special` is special; 0: none.
inline std::vector<float> pieces(int64_t count, int special, Random& random) {
  std::vector<float> x(static_cast<size_t>((count + 15) / 16 * 16));
  for (size_t i = 0; i < x.size(); i += 16) fill_piece(x.data() + i, special > 0 && pick(random, special) == 0, random);
  x.resize(static_cast<size_t>(count));
  return x;
}

// Values of one kind.
inline std::vector<float> drawn_values(int64_t count, Random& random) {
  const int kind = pick(random, 9);
  if (kind < 3) return pieces(count, one_of(random, {0, 40, 1}), random);
  std::normal_distribution<float> normal;
  std::vector<float> data(static_cast<size_t>(count));
  const int exponent = pick(random, 2) == 0 ? pick(random, 12) - 6 : pick(random, 270) - 145;
  const int spread = one_of(random, {0, 2, 5, 12, 40});
  const int specials = pick(random, 6) == 0 ? 1 + pick(random, 300) : 0;  // one in so many is infinite or NaN
  const int scale = one_of(random, {0, 0, -123, 119});
  for (float& x : data) {
    const auto word = static_cast<uint32_t>(random());
    if (kind == 3) x = std::ldexp(normal(random), scale);
    if (kind == 4) {  // any exponent, most of them within 60 binades
      x = float_of(word % 4 == 0 ? word : (word & 0x807FFFFFu) | (100 + word / 4 % 60) << 23);
      if (!is_finite(x) && pick(random, 20) != 0) x = 0.0f;
    }
    if (kind == 5) x = word % 7 == 0 ? normal(random) * 1e-39f : (word % 3 != 0 ? 0.0f : -0.0f);
    if (kind == 6) {  // eighths, whose errors tie, and few ulps beside them
      x = std::ldexp(static_cast<float>(static_cast<int>(word % 129) - 64) / 8.0f, pick(random, 4) - 2);
      if (x != 0.0f && word % 3 == 0) x = float_of(bits_of(x) + static_cast<uint32_t>(pick(random, 5) - 2));
    }
    if (kind > 6) x = drawn_value(exponent, spread, random);
    if (kind > 6 && specials > 0 && pick(random, specials) == 0) x = one_of(random, {INFINITY, -INFINITY, NAN});
  }
  return data;
}

// A matrix and what its elements lie in.
struct Drawn {
  std::vector<float> data;
  QuantizeCall call;
};

inline HadamardSpec drawn_hadamard(Random& random) {
  if (pick(random, 3) != 0) return {};
  HadamardSpec h;
  h.size = one_of(random, hadamard_sizes);
  h.signs = one_of(random, hadamard_signs_table).id;
  h.normalise = one_of(random, hadamard_normalise_table).id;
  return h;
}

inline Drawn drawn_operand(const QuantSpec& spec, int64_t rows, int64_t k, const HadamardSpec& h, Random& random) {
  Drawn d;
  const int64_t pad = one_of(random, {0, 0, 0, 1, 16});
  const bool transposed = pick(random, 3) == 0;
  const int64_t step = pick(random, 12) == 0 ? 2 : 1;
  const int64_t stride = (transposed ? rows : k) * step + pad;
  const int64_t start = pick(random, 3);  // any alignment of floats
  d.data.assign(static_cast<size_t>(start + (transposed ? k : rows) * stride + 8), NAN);
  d.call.x = {d.data.data() + start, rows, k, transposed ? step : stride, transposed ? stride : step};
  const std::vector<float> values = drawn_values(rows * k, random);
  const bool has_quiet_rows = pick(random, 4) == 0;
  for (int64_t r = 0; r < rows; ++r) {
    const bool is_zero = has_quiet_rows && pick(random, 3) == 0;
    for (int64_t i = 0; i < k; ++i)
      d.data[static_cast<size_t>(start + r * d.call.x.row_stride + i * d.call.x.col_stride)] =
          is_zero ? 0.0f : values[static_cast<size_t>(r * k + i)];
  }
  d.call.spec = spec;
  d.call.hadamard = h;
  d.call.place = {random(), static_cast<uint32_t>(pick(random, 7)), static_cast<uint32_t>(pick(random, 5))};
  if (spec.tensor_scale == TensorScale::hold)
    d.call.held_amax = one_of(random, {0.0f, 1.0f, 37.0f, std::ldexp(significand(random), pick(random, 130) - 70)});
  if (spec.tensor_scale == TensorScale::none)  // a band of a longer operand
    d.call.row_offset = pick(random, 5) * (spec.block.kind == BlockKind::square ? spec.block.size : 1);
  return d;
}

// Rows and K of an operand: few whole runs of sixteen blocks and tails of them, or any.
struct DrawnShape {
  int64_t rows, k;
};
inline DrawnShape drawn_shape(const QuantSpec& spec, Random& random) {
  constexpr DrawnShape runs[] = {{1, 512}, {1, 2592}, {3, 544},  {17, 96}, {40, 64}, {5, 1024},
                                 {9, 512}, {6, 528},  {2, 1056}, {4, 0},   {5, 896}, {33, 100}};
  DrawnShape s = {1 + pick(random, 40), pick(random, 5) == 0 ? 500 + pick(random, 700) : 1 + pick(random, 200)};
  if (pick(random, 3) == 0) s = one_of(random, runs);
  const int64_t block = larger<int64_t>(spec.block.size, 16);
  if (spec.ragged == Ragged::refuse || pick(random, 2) == 0) s.k = (s.k + block - 1) / block * block;
  return s;
}

inline Quantized poisoned() {  // storage is reused
  Quantized q;
  q.codes.assign(5000, 0xAA);
  q.scales.assign(5000, 0xAA);
  q.real_scales.assign(5000, float_of(0xAAAAAAAA));
  return q;
}

inline bool same_codes(const Quantized& a, const Quantized& b) {
  return a.codes == b.codes && a.scales == b.scales && same_floats(a.real_scales, b.real_scales) &&
         same_floats(a.tensor_scale, b.tensor_scale) && bits_of(a.amax) == bits_of(b.amax) &&
         a.geometry.scale_cols == b.geometry.scale_cols && a.geometry.padded_cols == b.geometry.padded_cols;
}

inline std::string text_of(const QuantizeCall& c) {
  return to_json(c.spec).dump() + " " + to_json(c.hadamard).dump() + " " + std::to_string(c.x.rows) + " x " +
         std::to_string(c.x.cols) + " strides " + std::to_string(c.x.row_stride) + " " + std::to_string(c.x.col_stride);
}

// All fast backends beside the reference, which goes once for all of them.
class Comparison {
 public:
  Comparison() {
    for (const Backend* fast : backends_under_test()) backends_.push_back({fast});
  }
  void report(const char* what) const {
    for (const Counted& b : backends_) {
      CHECK(b.wrong == 0);
      WARN(b.fast->name() << ": " << b.equal << ' ' << what << " equal, " << b.declined << " declined");
    }
  }

  // Codes, scales, decoded values and, where asked, the product of the stored operand with itself.
  void operand(const QuantizeCall& call, const std::string& what, bool multiplies = false) {
    Quantized expected;
    reference_backend().quantize(call, expected);
    std::vector<float> decoded(static_cast<size_t>(expected.rows * expected.cols), -7.0f);
    std::vector<float> c(multiplies ? static_cast<size_t>(expected.rows * expected.rows) : 0, -7.0f);
    reference_backend().dequantize(expected, decoded.data(), 1);
    if (multiplies) reference_backend().gemm(expected, expected, {}, c.data(), expected.rows);
    for (Counted& b : backends_) {
      if (!b.fast->supports_quantize(call)) {
        ++b.declined;
        continue;
      }
      Quantized got = poisoned();
      b.fast->quantize(call, got);
      std::vector<float> floats(decoded.size(), -7.0f);
      std::vector<float> sums(c.size(), -7.0f);
      const bool decodes = b.fast->supports_dequantize(expected);
      const bool has_sums = multiplies && b.fast->supports_gemm(call.spec, call.spec, {});
      if (decodes) b.fast->dequantize(expected, floats.data(), 1);
      if (has_sums) b.fast->gemm(expected, expected, {}, sums.data(), expected.rows);
      const bool equal[] = {same_codes(got, expected), !decodes || same_floats(floats, decoded),
                            !has_sums || same_floats(sums, c)};
      if (!count(b, equal[0] && equal[1] && equal[2])) continue;
      FAIL_CHECK(b.fast->name() << " " << what << text_of(call) << " codes and scales " << equal[0] << " decoded "
                                << equal[1] << " product " << equal[2]);
    }
  }

  // C, whose rows may lie `pad` apart.
  void product(MultiplyCall call, const std::string& what, int64_t pad = 0) {
    call.c_stride = call.b.x.rows + pad;
    std::vector<float> expected(static_cast<size_t>(call.a.x.rows * call.c_stride), -7.0f);
    const std::vector<float> poison = expected;
    call.c = expected.data();
    static const Dispatcher reference("reference");
    reference.multiply(call);
    for (Counted& b : backends_) {
      std::vector<float> got = poison;
      call.c = got.data();
      if (!b.fast->multiply(call)) {
        ++b.declined;
      } else if (count(b, same_floats(got, expected))) {
        FAIL_CHECK(b.fast->name() << " " << what << to_json(call.options.accumulator).dump() << " " << text_of(call.a)
                                  << " | " << text_of(call.b));
      }
    }
  }

  // An operand, and one time in three a product with another one, or with unit rows, which shows the decoded operand.
  void drawn(const QuantSpec& spec, const QuantSpec& other, const std::string& what, Random& random) {
    const HadamardSpec h = drawn_hadamard(random);
    const DrawnShape shape = drawn_shape(spec, random);
    const Drawn own = drawn_operand(spec, shape.rows, shape.k, h, random);
    operand(own.call, what, pick(random, 2) == 0);
    if (pick(random, 3) != 0) return;
    MultiplyCall call;
    const AccumulatorInfo& row = one_of(random, accumulator_table);
    const int64_t k = hadamard_padded(h, shape.k);
    const bool has_units = k > 0 && k <= 256 && pick(random, 3) == 0;
    if (!has_units && other.ragged == Ragged::refuse && shape.k % larger<int64_t>(other.block.size, 1) != 0) return;
    std::vector<float> eye(static_cast<size_t>(has_units ? k * k : 0), 0.0f);
    for (int64_t i = 0; i < k && has_units; ++i) eye[static_cast<size_t>(i * k + i)] = 1.0f;
    Drawn second;
    if (has_units) {
      second.call.x = view_of(eye.data(), k, k);
    } else {
      second = drawn_operand(other, 1 + pick(random, 30), shape.k, h, random);
    }
    const bool swaps = pick(random, 2) == 0;
    call.a = swaps ? second.call : own.call;
    call.b = swaps ? own.call : second.call;
    if (pick(random, 2) == 0 && invalid_reason(row.row, call.a.spec, call.b.spec).empty())
      call.options.accumulator = row.row;
    call.options.hadamard_divisor = h.product_divisor();
    product(call, what, pick(random, 4));
  }

 private:
  struct Counted {
    const Backend* fast;
    int equal = 0;
    int declined = 0;
    int wrong = 0;
  };
  std::vector<Counted> backends_;

  // Whether a difference is to be told: the first twenty are.
  static bool count(Counted& b, bool equal) {
    ++(equal ? b.equal : b.wrong);
    return !equal && b.wrong <= 20;
  }
};

}  // namespace fp4::test
