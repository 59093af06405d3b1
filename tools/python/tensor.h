// A quantised tensor as Python holds it: the arrays are views of the core's own memory.
#pragma once

#include "fp4/backend.h"
#include "src/folder/quantize_files.h"
#include "tools/python/arrays.h"
#include "tools/python/module.h"

namespace fp4::python {

class Tensor {
 public:
  Tensor(Quantized q, Shape shape, Operand input)
      : q_(std::move(q)), shape_(std::move(shape)), input_(std::move(input)) {}

  const Quantized& quantized() const { return q_; }
  const Shape& shape() const { return shape_; }
  /// codes, scales, tensor_scale as `fp4sim quantize` names and shapes its files; None for scales that do not exist.
  py::object array(const py::handle& self, const std::string& name) const;
  py::array dequantize(int threads) const;
  /// Of the input as it is at the first call; an Error for a tensor that was made of codes.
  const QuantizeReport& report(int threads);
  /// {codes, scales, tensor_scale} in the order of a kernel (src/golden/layout.h).
  py::dict to_layout(const std::string& scales, const std::string& nibbles) const;

 private:
  Quantized q_;
  Shape shape_;
  Operand input_;
  std::optional<QuantizeReport> report_;
};

/// What codes, scales and tensor scale of an operand [rows, cols] are, each checked for type and shape.
Quantized quantized_of(const QuantSpec& spec, const Shape& shape, const py::handle& codes, const py::handle& scales,
                       const py::handle& tensor_scale);

}  // namespace fp4::python
