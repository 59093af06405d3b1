#include "tools/python/tensor.h"

#include <cstring>

#include "src/backends.h"
#include "src/error.h"
#include "src/golden/layout.h"
#include "src/spec_text.h"
#include "src/folder/quantize_layout.h"

namespace fp4::python {
namespace {

using folder::Part;

std::vector<Part> parts_of(const QuantSpec& spec, const Shape& shape) {
  return folder::layout_of(spec, static_cast<int64_t>(matrix_rows(shape)), static_cast<int64_t>(matrix_cols(shape)), {},
                          shape)
      .parts;
}

const Part* part_named(const std::vector<Part>& parts, const std::string& name) {
  for (const Part& part : parts)
    if (name + ".npy" == part.name) return &part;
  return nullptr;
}

// The bytes of an array that has to be `part`.
template <class T>
void take(const Part* part, const char* name, const py::handle& given, std::vector<T>& out) {
  if (part == nullptr) {
    if (!given.is_none()) throw Error(std::string(name) + ": the spec has none; accepted: None");
    return;
  }
  const py::array array = py::array::ensure(held_array(given, name).array, py::array::c_style);
  Shape shape(array.shape(), array.shape() + array.ndim());
  const std::string type = py::str(array.dtype()), wanted = info(part->dtype).numpy_name;
  if (type != wanted || shape != part->shape)
    throw Error(std::string(name) + ": has " + type + " " + shape_text(shape) + ", the spec says " + wanted + " " +
                shape_text(part->shape));
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  out.resize(static_cast<size_t>(array.nbytes()) / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes, out.size() * sizeof(T));
}

}  // namespace

Quantized quantized_of(const QuantSpec& spec, const Shape& shape, const py::handle& codes, const py::handle& scales,
                       const py::handle& tensor_scale) {
  element_count("shape", shape);
  Quantized q;
  q.spec = spec;
  q.rows = static_cast<int64_t>(matrix_rows(shape));
  q.cols = static_cast<int64_t>(matrix_cols(shape));
  q.geometry = geometry_of(spec, q.rows, q.cols);
  const std::vector<Part> parts = parts_of(spec, shape);
  take(part_named(parts, "codes"), "codes", codes, q.codes);
  const Part* scale_part = part_named(parts, "scales");
  if (is_real(spec.scale) && spec.has_scale())
    take(scale_part, "scales", scales, q.real_scales);
  else
    take(scale_part, "scales", scales, q.scales);
  if (tensor_scale.is_none() && !spec.has_tensor_scale())
    q.tensor_scale = {1.0f};
  else
    take(part_named(parts, "tensor_scale"), "tensor_scale", tensor_scale, q.tensor_scale);
  return q;
}

py::object Tensor::array(const py::handle& self, const std::string& name) const {
  const std::vector<Part> parts = parts_of(q_.spec, {static_cast<uint64_t>(q_.rows), static_cast<uint64_t>(q_.cols)});
  const Part* part = part_named(parts, name);
  if (part == nullptr) return py::none();
  const void* data = name == "codes"          ? static_cast<const void*>(q_.codes.data())
                     : name == "tensor_scale" ? static_cast<const void*>(q_.tensor_scale.data())
                     : q_.real_scales.empty() ? static_cast<const void*>(q_.scales.data())
                                              : static_cast<const void*>(q_.real_scales.data());
  return view_array(part->dtype, part->shape, data, self);
}

py::array Tensor::dequantize(int threads) const {
  py::array_t<float> out = new_floats(shape_);
  float* to = out.mutable_data();
  compute([&] { Dispatcher().dequantize(q_, to, thread_count(threads)); });
  return out;
}

const QuantizeReport& Tensor::report(int threads) {
  if (report_) return *report_;
  if (input_.view.data == nullptr && q_.rows * q_.cols > 0)
    throw Error("statistics: this tensor was made of codes; accepted: what quantize() gives");
  const QuantizeReport made = compute([&] {
    std::vector<float> decoded(static_cast<size_t>(q_.rows * q_.cols));
    Dispatcher().dequantize(q_, decoded.data(), thread_count(threads));
    QuantizeReport report;
    report.rows = q_.rows, report.cols = q_.cols;
    add_statistics(report, q_, input_.view, decoded.data(), thread_count(threads));
    return report;
  });
  report_ = made;
  return *report_;
}

py::dict Tensor::to_layout(const std::string& scales, const std::string& nibbles) const {
  const golden::ScaleLayout layout = golden::scale_layout_of("scales", scales);
  const golden::CodeLayout order = golden::code_layout_of("nibbles", nibbles);
  if (layout != golden::ScaleLayout::linear && q_.scales.empty())
    throw Error("scales: layout " + scales + " is one of one-byte scales; accepted for this spec: linear");
  const py::object self = py::cast(this, py::return_value_policy::reference);
  py::dict out;
  out["codes"] = array(self, "codes").attr("copy")();
  const golden::CodeLayoutInfo& row = row_of(golden::code_layout_table, order);
  const bool packed = q_.is_packed();
  const bool as_stored = order == golden::CodeLayout::low_first || (order == golden::CodeLayout::unpacked && !packed);
  if (!as_stored && golden::holds(row, q_.code_bits())) {
    const int64_t cols = packed ? 2 * q_.code_row_bytes() : q_.code_row_bytes();
    const auto codes =
        packed ? golden::from_layout(golden::CodeLayout::low_first, q_.codes, q_.rows, cols, "codes") : q_.codes;
    out["codes"] = byte_array(golden::to_layout(order, codes, q_.rows, cols));
    if (order == golden::CodeLayout::high_first)
      out["codes"] = out["codes"].attr("reshape")(py::make_tuple(q_.rows, q_.code_row_bytes()));
  }
  const py::object plain = array(self, "scales");
  if (plain.is_none() || layout == golden::ScaleLayout::linear)
    out["scales"] = plain.is_none() ? plain : plain.attr("copy")();
  else
    out["scales"] = byte_array(golden::to_layout(layout, q_.scales, q_.geometry.scale_rows, q_.geometry.scale_cols));
  out["tensor_scale"] = array(self, "tensor_scale").attr("copy")();
  return out;
}

}  // namespace fp4::python
