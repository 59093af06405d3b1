// Decides: how the codes and scales of an operand lie in memory that a caller keeps between a forward and its backward,
// on the host or a device: codes, scales, tensor factors, each from a multiple of 16 bytes on.
#pragma once

#include "fp4/backend.h"
#include "src/gpu/device.h"

namespace fp4::python {

class KeptOperand {
 public:
  KeptOperand(const QuantSpec& spec, int64_t rows, int64_t cols);
  int64_t bytes() const { return codes_ + scales_ + factors_; }
  /// Copies the arrays of q, which lie on `device`, or on the host for null.
  void save(const Quantized& q, uint8_t* to, gpu::Device* device) const;
  /// On a device what is there is used where it lies.
  Quantized load(uint8_t* from, bool on_device) const;

 private:
  Quantized shape_;                   // without arrays
  int64_t codes_, scales_, factors_;  // bytes
};

}  // namespace fp4::python
