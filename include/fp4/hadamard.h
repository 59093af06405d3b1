// Hadamard transforms along the contraction axis, Sylvester order, on both operands of a GEMM so that they cancel:
// y = H*diag(sign)*x. Signs first, then butterflies (a+b, a-b) in fp32 with strides 1, 2, 4, .., then `sqrt`
// (times fl32(1/sqrt h)) or `fold` (left out; the product is multiplied by 1/h, exact). Sources: QuaRot 2404.00456,
// 2502.20586 (random signs), Transformer Engine (the fixed signs).
#pragma once

#include "fp4/arithmetic.h"
#include "fp4/rng.h"

namespace fp4 {

enum class HadamardSigns : uint8_t { none, fixed, per_layer, per_step };
enum class HadamardNormalise : uint8_t { sqrt, fold };
enum class HadamardOutput : uint8_t { fp32, bf16 };

struct HadamardSignsInfo {
  HadamardSigns id;
  const char* name;
  const char* doc;
  const char* source;
  bool is_random;
};
struct HadamardNormaliseInfo {
  HadamardNormalise id;
  const char* name;
  const char* doc;
  const char* source;
  int extra_ops;  // multiplications per element
};
inline constexpr HadamardSignsInfo hadamard_signs_table[] = {
    {HadamardSigns::none, "none", "deterministic H", "2605.09825", false},
    {HadamardSigns::fixed, "fixed", "one fixed pattern of 16 signs, repeated", "Transformer Engine", false},
    {HadamardSigns::per_layer, "per_layer", "random, drawn once per layer and GEMM", "RHT, 2502.20586", true},
    {HadamardSigns::per_step, "per_step", "random, drawn anew every step", "RHT, 2502.20586", true},
};
inline constexpr HadamardNormaliseInfo hadamard_normalise_table[] = {
    {HadamardNormalise::sqrt, "sqrt", "orthonormal: times fl32(1/sqrt(h))", "2404.00456", 1},
    {HadamardNormalise::fold, "fold", "left out; the product is multiplied by 1/h", "exact powers of two", 0},
};
inline constexpr AxisRow<HadamardOutput> hadamard_output_table[] = {
    {HadamardOutput::fp32, "fp32", "the transform as it is", "definition"},
    {HadamardOutput::bf16, "bf16", "rounded to bf16 before it is quantised",
     "Transformer Engine, torchao's exact mode"},
};
static_assert(ids_are_indices(hadamard_signs_table) && ids_are_indices(hadamard_normalise_table) &&
              ids_are_indices(hadamard_output_table));

inline constexpr int hadamard_sizes[] = {16, 32, 64, 128, 256};
inline constexpr int largest_hadamard = 256;

struct HadamardSpec {
  int size = 0;  // 0: no transform
  HadamardSigns signs = HadamardSigns::none;
  HadamardNormalise normalise = HadamardNormalise::sqrt;
  HadamardOutput output = HadamardOutput::fp32;

  friend constexpr bool operator==(const HadamardSpec&, const HadamardSpec&) = default;
  // What the product of two transformed operands is divided by.
  FP4_HD constexpr float product_divisor() const {
    switch (normalise) {
      case HadamardNormalise::sqrt: return 1.0f;
      case HadamardNormalise::fold: return size > 0 ? static_cast<float>(size) : 1.0f;
    }
    return 1.0f;
  }
};

// K padded to whole tiles.
FP4_HD constexpr int64_t hadamard_padded(const HadamardSpec& h, int64_t k) {
  return h.size == 0 ? k : (k + h.size - 1) / h.size * h.size;
}

// fl32(1/sqrt h).
FP4_HD constexpr float inverse_root(int h) {
  switch (h) {
    case 16: return float_of(0x3E800000u);
    case 32: return float_of(0x3E3504F3u);
    case 64: return float_of(0x3E000000u);
    case 128: return float_of(0x3DB504F3u);
    case 256: return float_of(0x3D800000u);
    default: return 1.0f;
  }
}

// What a transformed tile is multiplied by, and a tile on its way back.
FP4_HD constexpr float forward_factor(const HadamardSpec& h) {
  switch (h.normalise) {
    case HadamardNormalise::sqrt: return inverse_root(h.size);
    case HadamardNormalise::fold: return 1.0f;
  }
  return 1.0f;
}
FP4_HD constexpr float inverse_factor(const HadamardSpec& h) {
  switch (h.normalise) {
    case HadamardNormalise::sqrt: return inverse_root(h.size);
    case HadamardNormalise::fold: return 1.0f / static_cast<float>(h.size);
  }
  return 1.0f;
}

// The same h signs serve every tile and both operands; bit set = minus. `place` is the sign stream.
struct HadamardSignMask {
  uint32_t word[largest_hadamard / 32] = {};
  FP4_HD constexpr bool is_minus(int j) const { return ((word[j / 32] >> (j % 32)) & 1u) != 0; }
};

FP4_HD constexpr HadamardSignMask hadamard_signs(const HadamardSpec& h, RandomPlace place) {
  HadamardSignMask mask;
  switch (h.signs) {
    case HadamardSigns::none: return mask;
    case HadamardSigns::fixed:
      // + + + - + - - - - - - + - + - -, first sign in the lowest bit
      for (uint32_t& w : mask.word) w = 0xD7E8D7E8u;
      return mask;
    case HadamardSigns::per_layer: place.step = 0; break;
    case HadamardSigns::per_step: break;
  }
  for (int block = 0; block * 128 < h.size; ++block) {
    const PhiloxBlock random = random_block(place, static_cast<uint64_t>(block));
    for (int w = 0; w < 4; ++w) mask.word[block * 4 + w] = random.word[w];
  }
  return mask;
}

FP4_HD inline void butterflies(float* x, int h) {
  for (int stride = 1; stride < h; stride *= 2) {
    for (int base = 0; base < h; base += 2 * stride) {
      for (int j = base; j < base + stride; ++j) {
        const float a = x[j];
        const float b = x[j + stride];
        x[j] = a + b;
        x[j + stride] = a - b;
      }
    }
  }
}

FP4_HD inline void apply_signs(float* x, int h, const HadamardSignMask& signs) {
  for (int j = 0; j < h; ++j) {
    if (signs.is_minus(j)) x[j] = -x[j];
  }
}

// One tile of h contiguous floats, in place.
FP4_HD inline void hadamard_tile(float* x, const HadamardSpec& h, const HadamardSignMask& signs) {
  apply_signs(x, h.size, signs);
  butterflies(x, h.size);
  const float factor = forward_factor(h);
  for (int j = 0; j < h.size; ++j) x[j] = x[j] * factor;
  for (int j = 0; j < h.size; ++j) x[j] = canonical(x[j]);
  if (h.output == HadamardOutput::fp32) return;
  for (int j = 0; j < h.size; ++j) x[j] = rounded_to_bf16(x[j]);
}

// The inverse: butterflies, normalisation (`fold`: times 1/h), signs.
FP4_HD inline void inverse_hadamard_tile(float* x, const HadamardSpec& h, const HadamardSignMask& signs) {
  const float factor = inverse_factor(h);
  butterflies(x, h.size);
  for (int j = 0; j < h.size; ++j) x[j] = x[j] * factor;
  apply_signs(x, h.size, signs);
  for (int j = 0; j < h.size; ++j) x[j] = canonical(x[j]);
}

}  // namespace fp4
