// A quantised tensor as Python holds it: its arrays are views of the core's own memory.
#pragma once

#include <optional>

#include "src/stream/quantize_files.h"
#include "tools/python/gate.h"

namespace fp4::python {

class Tensor : public Object, public std::enable_shared_from_this<Tensor> {
 public:
  /// `made` as: the spec that quantised it, where what its arrays are read by (q.spec) leaves out how codes were
  /// chosen.
  Tensor(Quantized q, Shape shape, const std::optional<QuantSpec>& made = std::nullopt)
      : q_(std::move(q)), shape_(std::move(shape)), spec_(made.value_or(q_.spec)) {}

  const Quantized& quantized() const { return q_; }
  const QuantSpec& spec() const { return spec_; }
  const Shape& shape() const { return shape_; }
  /// codes, scales, tensor_scale as `fp4sim quantize` names and shapes its files; null for scales that do not exist.
  Json array(const std::string& name) const;
  Json dequantize(int threads) const;
  /// Measured against the matrix that it was made of.
  QuantizeReport report(MatrixView x, int threads) const;
  /// {codes, scales, tensor_scale} in the order of a kernel (src/layout/digit_layout.h).
  Json to_layout(const std::string& scales, const std::string& nibbles) const;

 private:
  Quantized q_;
  Shape shape_;
  QuantSpec spec_;
};

/// The arrays of a quantised tensor of this shape, as `fp4sim quantize` names its files.
std::vector<folder::Part> parts_of(const QuantSpec& spec, const Shape& shape);
/// A name, a file, or the JSON of an adder.
Accumulator accumulator_of(const std::string& words);
/// The rotation of the arguments `size`, signs and normalise; `place` opens messages.
HadamardSpec hadamard_of(const Arguments& given, const char* size, const char* place);

/// What the arguments codes, scales and tensor_scale of an operand [rows, cols] are, each checked for type and shape.
Quantized quantized_of(const QuantSpec& spec, const Shape& shape, const Arguments& given);

}  // namespace fp4::python
