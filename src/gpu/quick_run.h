// 32 neighbouring elements to e2m1 codes and their scale codes in some 15 operations an element (stochastic: 20), for
// the specs that quick_rule() of quantize_pipeline.cpp takes. Two kinds of scale:
//   power     e8m0 per 32: the payload |x|*2^-e is exact (below 2^-126 it is 0 in any rounding)
//   mantissa  ue4m3 or ue5m3 per 16: the payload is known within 2^-20; a decision that near goes to slow_run()
// The code is read from a sum. With 2^E <= u < 2^(E+1), E at least 0, the codes of e2m1 lie 2^(E-1) apart, and adding
// 2^(E+22-f) rounds u to multiples of 2^(E-1-f): n of them stand in the low bits of the sum. Code = n/2^f + 2E. A draw
// r of 8 bits is added to f = 8 bits: carries are what rounds up. The 6 that the magic number adds makes its exponent
// field vanish modulo 8.
//   u = 3.3, E = 1, f = 0:  3.3 + 2^23 rounds to 2^23 + 3,  code 3 + 2 = 5, which is 3
#pragma once

#include "src/gpu/tile_codes.h"

namespace fp4::gpu {

enum class ScaleMode : uint8_t { power, mantissa };

inline constexpr int run_elements = 32;

// What the numbers of a spec become for these kernels; made on the host.
struct QuickRule {
  bool fits = false;
  ScaleMode mode = ScaleMode::power;
  uint32_t carry = 0;      // power: added to the bits of a block's maximum before its exponent is taken
  uint32_t zero_code = 0;  // power: scale of a block of zeros
  bool is_stochastic = false;
};

struct QuickCodes {
  FourWords codes;
  uint32_t scales = 0;  // power: one code; mantissa: two bytes
  bool is_sure = true;
};

template <int fraction_bits>
struct GridSum {
  uint32_t bits;
  // Code of the payload, rounded as `added` says: units of 2^-fraction_bits of a step.
  FP4_HD uint32_t code(uint32_t added) const { return ((((bits + added) >> fraction_bits) + (bits >> 22)) & 7u); }
};
// u below 6 or cut to 6; `extra` is added in the same rounding: below 2^fraction_bits.
template <int fraction_bits>
FP4_HD inline GridSum<fraction_bits> grid_sum(float x, float multiplier, uint32_t extra) {
  const uint32_t payload = smaller(bits_of(magnitude(x) * multiplier), bits_of(6.0f));
  const uint32_t binade = larger(payload & 0x7F800000u, 0x3F800000u);
  // The field of the sum is E + 149 - f: twice that, plus this, is 2E modulo 8.
  constexpr uint32_t offset = (8u - (2u * (149u - fraction_bits)) % 8u) << fraction_bits;
  const uint32_t magic = binade + ((22u - fraction_bits) << 23) + offset + extra;
  return {bits_of(float_of(payload) + float_of(magic))};
}

// Draws of 8 bits of 32 positions, the first a multiple of 16.
struct RunDraws {
  PhiloxBlock blocks[2];
  FP4_HD uint32_t draw(int j) const { return blocks[j / 16].word[j % 16 / 4] >> (8 * (j % 4)) & 0xFFu; }
};

template <bool is_stochastic>
FP4_HD inline QuickCodes power_run(const float (&x)[run_elements], const QuickRule& rule, const RandomPlace& place,
                                   uint64_t position) {
  QuickCodes result;
  uint32_t maximum = 0;
  FP4_UNROLL
  for (int j = 0; j < run_elements; ++j) maximum = larger(maximum, magnitude_bits(x[j]));
  result.is_sure = maximum < float_infinity_bits;
  result.scales = maximum == 0 ? rule.zero_code : larger((maximum + rule.carry) >> 23, 2u) - 2u;
  const float multiplier = float_of((254u - result.scales) << 23);
  RunDraws draws = {};
  if constexpr (is_stochastic) {
    draws.blocks[0] = random_block(place, position / 16);
    draws.blocks[1] = random_block(place, position / 16 + 1);
  }
  FP4_UNROLL
  for (int w = 0; w < 4; ++w) {
    uint32_t packed = 0;
    FP4_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int j = 8 * w + i;
      uint32_t code = 0;
      if constexpr (is_stochastic) {
        code = grid_sum<8>(x[j], multiplier, 0).code(draws.draw(j));
      } else {
        code = grid_sum<0>(x[j], multiplier, 0).code(0);
      }
      packed |= (code | (bits_of(x[j]) >> 28 & 8u)) << (4 * i);
    }
    result.codes.v[w] = packed;
  }
  return result;
}

// The code of amax/(6g) in a format with 3 mantissa bits, and fl(1/(s*g)); 0 where in doubt, or where policies decide.
struct QuickScale {
  uint32_t code = 0;
  float multiplier = 0.0f;
};
FP4_HD inline QuickScale quick_scale(const FloatFormat& f, uint32_t maximum, TensorFactor t) {
  const float scale = float_of(maximum) / (6.0f * t.g);  // within 2^-21 in every order of operations
  const uint32_t bits = bits_of(scale);
  const uint32_t lowest = static_cast<uint32_t>(f.min_exponent() + 127) << 23;
  const uint32_t bias = static_cast<uint32_t>(f.min_exponent() + 126) << 3;
  QuickScale s;
  float value = 0.0f;
  bool is_near = false;  // a tie of two codes
  if (bits < lowest) {   // steps of 2^(lowest exponent - 3), in units of 2^-16
    const float steps = scale * float_of(static_cast<uint32_t>(130 - f.min_exponent()) << 23);
    const uint32_t sum = bits_of(steps + 128.0f) - bits_of(128.0f) + 0x8000u;
    is_near = (sum & 0xFFFFu) == 0;
    s.code = sum >> 16;
    value = static_cast<float>(s.code) * float_of(static_cast<uint32_t>(124 + f.min_exponent()) << 23);
  } else {
    is_near = (bits & 0xFFFFFu) - (0x80000u - 16u) <= 32u;
    s.code = ((bits + 0x80000u) >> 20) - bias;
    value = float_of((s.code + bias) << 20);
  }
  if (!(t.g >= 0x1p-90f && t.g <= 0x1p90f) || is_near || s.code > f.largest_code) return {};
  s.multiplier = 1.0f / (value * t.g);
  return s;
}

template <bool is_stochastic>
FP4_HD inline QuickCodes mantissa_run(const float (&x)[run_elements], const FloatFormat& scale, TensorFactor t,
                                      const RandomPlace& place, uint64_t position) {
  QuickCodes result;
  uint32_t doubt = 0xFFFFu;  // 0: some sum lies on a boundary
  FP4_UNROLL
  for (int half = 0; half < 2; ++half) {
    uint32_t maximum = 0;
    FP4_UNROLL
    for (int j = 0; j < 16; ++j) maximum = larger(maximum, magnitude_bits(x[16 * half + j]));
    const QuickScale s = quick_scale(scale, maximum, t);
    result.is_sure = result.is_sure && maximum < float_infinity_bits && s.code != 0;
    result.scales |= s.code << (8 * half);
    PhiloxBlock draws = {};
    if constexpr (is_stochastic) draws = random_block(place, position / 16 + static_cast<uint64_t>(half));
    FP4_UNROLL
    for (int w = 0; w < 2; ++w) {
      uint32_t packed = 0;
      FP4_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int j = 8 * w + i;
        const float v = x[16 * half + j];
        GridSum<16> sum = grid_sum<16>(v, s.multiplier, is_stochastic ? 0x80u : 0x8000u);
        if constexpr (is_stochastic) sum.bits += (draws.word[j / 4] >> (8 * (j % 4)) & 0xFFu) << 8;
        doubt = smaller(doubt, sum.bits & 0xFFFFu);
        packed |= (sum.code(0) | (bits_of(v) >> 28 & 8u)) << (4 * i);
      }
      result.codes.v[2 * half + w] = packed;
    }
  }
  result.is_sure = result.is_sure && doubt != 0;
  return result;
}

// The same from shared memory, with the core's own functions for what is in doubt: blocks with infinities, scales,
// single elements.
FP4_GPU_APART FP4_HD inline QuickCodes slow_run(const Quantizer& q, const float* x, int stride, int block,
                                                TensorFactor t, const RandomPlace& place, uint64_t position) {
  QuickCodes result;
  uint32_t words[4] = {};
  FP4_NO_UNROLL
  for (int first = 0; first < run_elements; first += block) {
    const BlockView view = {x + first * stride, 0, stride, 1, block, block};
    const BlockMaximum maximum = block_maximum(view);
    QuickScale quick;
    if (block == 16 && !maximum.has_nonfinite) quick = quick_scale(q.scale, bits_of(maximum.amax), t);
    const uint32_t scale = quick.code != 0 ? quick.code : block_scale_code(q, view, maximum, t, 0u);
    result.scales |= scale << (first / block * 8);
    if (q.scale.is_nan_code(scale)) continue;
    FP4_NO_UNROLL
    for (int j = first; j < first + block; ++j) {
      const uint32_t draw =
          is_stochastic(q.rounding) ? random_draw(place, position + static_cast<uint64_t>(j), q.random_bits) : 0u;
      const float v = x[j * stride];
      GridSum<16> sum = grid_sum<16>(v, quick.multiplier, is_stochastic(q.rounding) ? 0x80u : 0x8000u);
      sum.bits += draw << 8;
      const bool is_sure = quick.code != 0 && (sum.bits & 0xFFFFu) != 0;
      const uint32_t code = is_sure ? sum.code(0) | (bits_of(v) >> 28 & 8u) : element_code(q, v, scale, t, draw);
      words[j / 8] |= code << (j % 8 * 4);
    }
  }
  for (int w = 0; w < 4; ++w) result.codes.v[w] = words[w];
  return result;
}

// One operand to be written, and where this run of it stands.
struct QuickJob {
  QuantizeJob job;
  QuickRule rule;
};

// Run `index` of row `row` of the operand: elements from shared memory, `stride` apart.
template <ScaleMode mode, int stride>
FP4_HD inline void write_run(const QuickJob& quick, const TensorFactor* own, const float* data, int64_t row,
                             int64_t index) {
  const Operand& out = quick.job.out;
  float x[run_elements];
  FP4_UNROLL
  for (int j = 0; j < run_elements; ++j) {
    if constexpr (stride == 1) {
      x[j] = reinterpret_cast<const Four*>(data)[j / 4].v[j % 4];
    } else {
      x[j] = data[j * stride];
    }
  }
  const auto position = static_cast<uint64_t>((quick.job.row_offset + row) * out.cols + index * run_elements);
  const RandomPlace place = quick.job.now();
  QuickCodes result;
  TensorFactor t;
  if constexpr (mode == ScaleMode::power) {
    result = quick.rule.is_stochastic ? power_run<true>(x, quick.rule, place, position)
                                      : power_run<false>(x, quick.rule, place, position);
  } else {
    t = quick.job.factor(own, 0, 0);
    result = quick.rule.is_stochastic ? mantissa_run<true>(x, out.quantizer.scale, t, place, position)
                                      : mantissa_run<false>(x, out.quantizer.scale, t, place, position);
  }
  if (!result.is_sure) {
    result = slow_run(out.quantizer, data, stride, mode == ScaleMode::power ? 32 : 16, t, place, position);
  }
  *reinterpret_cast<FourWords*>(out.codes + row * out.code_row_bytes + index * (run_elements / 2)) = result.codes;
  if constexpr (mode == ScaleMode::power) {
    out.scales[row * out.scale_cols + index] = static_cast<uint8_t>(result.scales);
  } else {
    *reinterpret_cast<uint16_t*>(out.scales + row * out.scale_cols + 2 * index) = static_cast<uint16_t>(result.scales);
  }
}

}  // namespace fp4::gpu
