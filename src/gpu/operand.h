// Operands in device memory: the layout of fp4::Quantized (backend.h) by pointers and numbers, passed to kernels by
// value. Device code never sees a host container.
#pragma once

#include "fp4/backend.h"
#include "fp4/gemm.h"
#include "src/gpu/floats.h"

namespace fp4::gpu {

// The elements of an operand: (r, c) is data.at(r*row_stride + c*col_stride), zero from `cols` on.
struct OperandElements {
  Floats<const float> data;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 1;

  FP4_HD float at(int64_t r, int64_t c) const {
    return r < rows && c < cols ? data.at(r * row_stride + c * col_stride) : 0.0f;
  }
};

struct Operand {
  Quantizer quantizer;
  int64_t rows = 0;
  int64_t cols = 0;  // K, Hadamard padding included
  int64_t padded_cols = 0;
  int64_t block_rows = 1;
  int64_t block_cols = 1;
  int64_t scale_cols = 0;
  int code_bits = 4;
  int64_t code_row_bytes = 0;
  uint8_t* codes = nullptr;
  uint8_t* scales = nullptr;
  float* real_scales = nullptr;
  const TensorFactor* factors = nullptr;  // [1], or [rows, ceil(K/128)]; null where the host knows it:
  TensorFactor known;
  bool factor_per_128 = false;

  FP4_HD int64_t scale_index(int64_t r, int64_t k) const { return r / block_rows * scale_cols + k / block_cols; }
  FP4_HD TensorFactor factor(int64_t r, int64_t k) const {
    if (factors == nullptr) return known;
    if (!factor_per_128) return factors[0];
    return factors[r * outer_scale_cols(cols) + k / outer_scale_width];
  }
  FP4_HD void store_scale(int64_t index, uint32_t code) const {
    if (real_scales != nullptr) {
      real_scales[index] = decode(quantizer.scale, code);
    } else {
      scales[index] = static_cast<uint8_t>(code);
    }
  }
  // Decode-side scale: real scales are stored as the value of their code.
  FP4_HD float scale(int64_t r, int64_t k) const {
    if (!quantizer.has_scale()) return 1.0f;
    const int64_t index = scale_index(r, k);
    if (real_scales == nullptr) return scale_value(quantizer, scales[index]);
    const float stored = canonical(real_scales[index]);
    return quantizer.stores_multiplier() && !is_nan(stored) ? 1.0f / stored : stored;
  }
  FP4_HD uint32_t code(int64_t r, int64_t k) const {
    const uint8_t* row = codes + r * code_row_bytes;
    if (code_bits == 4) return (row[k / 2] >> (4 * (k % 2))) & 0xFu;
    if (code_bits <= 8) return row[k];
    if (code_bits <= 16) return reinterpret_cast<const uint16_t*>(row)[k];
    return reinterpret_cast<const uint32_t*>(row)[k];
  }
};

// A row of an operand in the shape that accumulate.h and gemm.h read, decoded element by element.
class RowOfCodes {
 public:
  FP4_HD RowOfCodes(const Operand& operand, int64_t row) : operand_(operand), row_(row) {}
  FP4_HD int64_t fixed(int64_t k) const { return decode_fixed(operand_.quantizer.element, operand_.code(row_, k)); }
  FP4_HD float scale(int64_t k) const { return operand_.scale(row_, k); }
  FP4_HD float unscaled(int64_t k) const { return decode(operand_.quantizer.element, operand_.code(row_, k)); }
  FP4_HD float scaled(int64_t k) const { return unscaled(k) * operand_.scale(row_, k); }
  FP4_HD float value(int64_t k) const {
    return element_value(operand_.quantizer, operand_.code(row_, k), operand_.scale(row_, k), tensor_scale(k));
  }
  FP4_HD float tensor_scale(int64_t k) const { return operand_.factor(row_, k).g; }
  FP4_HD bool has_scale() const { return operand_.quantizer.has_scale(); }
  FP4_HD const FloatFormat& format() const { return operand_.quantizer.element; }
  FP4_HD int64_t block() const { return operand_.block_cols; }
  // fl32(1/mu) is an fp32 number, whatever the format of mu.
  FP4_HD int scale_min_exponent() const {
    return operand_.quantizer.stores_multiplier() ? -126 : operand_.quantizer.scale.min_exponent();
  }

 private:
  const Operand& operand_;
  int64_t row_;
};

}  // namespace fp4::gpu
