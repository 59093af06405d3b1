// Decides: how single codes of a quantised tensor are read and replaced, for rules that change some of them.
#pragma once

#include "fp4/backend.h"

namespace fp4::sim {

inline void replace_code(Quantized& q, int64_t row, int64_t k, uint32_t code) {
  if (q.is_packed()) {
    uint8_t& byte = q.codes[static_cast<size_t>(row * q.code_row_bytes() + k / 2)];
    byte = static_cast<uint8_t>(k % 2 == 0 ? (byte & 0xF0u) : (byte & 0x0Fu));
  } else {
    for (int b = 0; b < q.code_bytes(); ++b)
      q.codes[static_cast<size_t>(row * q.code_row_bytes() + k * q.code_bytes() + b)] = 0;
  }
  q.set_code(row, k, code);
}

inline uint32_t scale_code_of(const Quantized& q, int64_t row, int64_t k) {
  const auto at = static_cast<size_t>(q.scale_index(row, k));
  if (q.real_scales.empty()) return q.scales[at];
  const uint32_t bits = bits_of(q.real_scales[at]);
  return q.spec.scale == Scale::bf16 ? bits >> 16 : bits;
}

}  // namespace fp4::sim
