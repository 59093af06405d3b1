// One row of a panel in the shape that accumulate.h reads: the exact slow path of tiles whose scales leave the range of
// a fast kernel.
#pragma once

#include "src/cpu/gemm/panels.h"

namespace fp4::cpu {

class PanelReader {
 public:
  PanelReader(const Panels& p, int64_t row, int byte_offset, const Quantizer& q)
      : bytes_(p.bytes == nullptr ? nullptr : p.panel_bytes(row / panel_rows) + row % panel_rows * 4),
        values_(p.values == nullptr ? nullptr : p.panel_values(row / panel_rows) + row % panel_rows),
        per_quantum_(power_of_two(-q.element.quantum_log2())),
        scale_(p.panel_scales(row / panel_rows) + row % panel_rows),
        block_(q.has_scale() ? p.block : 0),
        offset_(byte_offset),
        format_(q.element),
        has_scale_(q.has_scale()),
        scale_min_exponent_(q.stores_multiplier() ? -126 : q.scale.min_exponent()) {}
  int64_t fixed(int64_t k) const {
    if (bytes_ == nullptr) return static_cast<int64_t>(values_[k * panel_rows] * per_quantum_);
    const int8_t byte = bytes_[k / 4 * 4 * panel_rows + k % 4];
    return (offset_ != 0 ? static_cast<uint8_t>(byte) : byte) - offset_;
  }
  float scale(int64_t k) const { return scale_[k / block_ * panel_rows]; }
  float scaled(int64_t k) const {
    if (!has_scale_) return values_[k * panel_rows];
    return power_of_two(format_.quantum_log2()) * static_cast<float>(fixed(k)) * scale(k);
  }
  float value(int64_t) const { return 0.0f; }  // sums of plain values never come here
  bool has_scale() const { return has_scale_; }
  const FloatFormat& format() const { return format_; }
  int64_t block() const { return block_; }
  int scale_min_exponent() const { return scale_min_exponent_; }

 private:
  const int8_t* bytes_;
  const float* values_;  // element values, where there are no bytes
  float per_quantum_;
  const float* scale_;
  int64_t block_;
  int offset_;
  FloatFormat format_;
  bool has_scale_;
  int scale_min_exponent_;
};

}  // namespace fp4::cpu
