// Numbers in device memory that are fp32, or bf16 where a framework has them so: widened exactly when they are read,
// rounded to nearest even when they are written. Which of both is the same in a whole launch.
#pragma once

#include "fp4/arithmetic.h"
#include "src/gpu/group.h"

namespace fp4::gpu {

template <class T>
struct Floats {
  T* data = nullptr;  // of uint16_t where is_bf16
  bool is_bf16 = false;

  FP4_HD constexpr Floats(T* numbers = nullptr, bool are_bf16 = false) : data(numbers), is_bf16(are_bf16) {}
  FP4_HD bool is_aligned() const {  // for raw()
    return reinterpret_cast<uintptr_t>(data) % (is_bf16 ? sizeof(Four) / 2 : sizeof(Four)) == 0;
  }
  FP4_HD float at(int64_t i) const {
    return is_bf16 ? float_of(uint32_t{reinterpret_cast<const uint16_t*>(data)[i]} << 16) : data[i];
  }
  // Numbers i .. i+3, i a multiple of 4, as they lie: of several reads none waits for another to be widened.
  FP4_HD Four raw(int64_t i) const {
    if (!is_bf16) return *reinterpret_cast<const Four*>(data + i);
    const uint64_t bits = reinterpret_cast<const uint64_t*>(data)[i / 4];
    return {{float_of(static_cast<uint32_t>(bits)), float_of(static_cast<uint32_t>(bits >> 32)), 0.0f, 0.0f}};
  }
  FP4_HD Four widened(const Four& raw) const {
    if (!is_bf16) return raw;
    const uint32_t low = bits_of(raw.v[0]), high = bits_of(raw.v[1]);
    return {{float_of(low << 16), float_of(low & 0xFFFF0000u), float_of(high << 16), float_of(high & 0xFFFF0000u)}};
  }
  // NaN as CUDA rounds it.
  FP4_HD void set(int64_t i, float value) const {
    if (!is_bf16) {
      data[i] = value;
      return;
    }
    const uint32_t bits = is_nan(value) ? canonical_nan_bits : bits_of(rounded_to_bf16(value));
    reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits >> 16);
  }
};

}  // namespace fp4::gpu
