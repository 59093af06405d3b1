// Arrays in and out: any array of Python as a matrix that the core reads, and arrays that Python receives. float32 in
// the memory of the host is read where it lies, strides and all; other real types are widened or rounded to float32.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "fp4/backend.h"
#include "src/tensor_file/dtype.h"

namespace fp4::python {

namespace py = pybind11;

/// An operand [product of the leading axes, last axis] and what keeps its memory alive.
struct Operand {
  py::array owner;
  MatrixView view;
  Shape shape;  // as Python has it

  Operand transposed() const;
};

/// `x`: numpy, or anything with __dlpack__ (torch, jax, cupy's host arrays) or that numpy.asarray takes. Error for
/// memory of a device and for types that are no real numbers; `name` opens the message.
Operand operand_of(const py::handle& x, const std::string& name);

/// numpy's view of what `x` holds, its type unchanged (bfloat16 as uint16).
struct Held {
  py::array array;
  bool is_bfloat16 = false;
};
Held held_array(const py::handle& x, const std::string& name);

py::array_t<float> new_floats(const Shape& shape);

/// Numbers of numpy's type `numpy_name` over memory that `owner` keeps; read-only.
py::array view_array(const Dtype dtype, const Shape& shape, const void* data, const py::handle& owner);

/// A DLPack capsule over the memory of an array of uint8, uint16, uint32 or float32, which it keeps.
py::capsule to_dlpack(const py::array& array);

/// A one-dimensional copy of bytes.
py::array_t<uint8_t> byte_array(const std::vector<uint8_t>& bytes);

}  // namespace fp4::python
