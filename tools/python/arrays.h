// Arrays in and out: float32 of the host where it lies, strides and all, and memory that Python receives with a share
// in what owns it. Which arrays of Python can be read so, fp4sim/_arrays.py decides.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/python/gate.h"

namespace fp4::python {

/// An operand [product of the leading axes, last axis]; Python keeps its memory.
struct Operand {
  MatrixView view;
  Shape shape;  // as Python has it

  Operand transposed() const;
};

/// {"data", "shape", "row_stride", "col_stride"} of the argument `name`, strides in elements.
Operand operand_of(const Arguments& given, const char* name);

/// Bytes of the argument `name`, {"data", "type", "shape"}, row-major.
struct Bytes {
  const uint8_t* data;
  std::string type;
  Shape shape;
};
Bytes bytes_of(const Arguments& given, const char* name);

/// Numbers of numpy's type of `dtype` over memory that `owner` keeps.
Json array_of(Dtype dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner, bool writable);

/// Memory of numbers that Python alone will own.
template <class T>
Json array_of(Dtype dtype, const Shape& shape, std::vector<T> numbers) {
  auto kept = std::make_shared<std::vector<T>>(std::move(numbers));
  return array_of(dtype, shape, kept->data(), kept, true);
}

}  // namespace fp4::python
