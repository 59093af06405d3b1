#include "tools/python/bound_tensor.h"

#include <cstring>

#include "src/arith/code_order.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/layout/digit_layout.h"
#include "src/text/error.h"

namespace fp4::python {
namespace {

using folder::Part;

const Part* part_named(const std::vector<Part>& parts, const std::string& name) {
  for (const Part& part : parts)
    if (name + ".npy" == part.name) return &part;
  return nullptr;
}

// The bytes of an array that has to be `part`.
template <class T>
void take(const Part* part, const char* name, const Arguments& given, std::vector<T>& out) {
  if (part == nullptr) {
    if (given.has(name)) throw Error(std::string(name) + ": the spec has none; accepted: None");
    return;
  }
  if (!given.has(name)) throw Error(std::string(name) + ": None is no array");
  const Bytes array = bytes_of(given, name);
  const std::string wanted = info(part->dtype).numpy_name;
  if (array.type != wanted || array.shape != part->shape)
    throw Error(std::string(name) + ": has " + array.type + " " + shape_text(array.shape) + ", the spec says " +
                wanted + " " + shape_text(part->shape));
  out.resize(byte_count(name, part->dtype, part->shape) / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), array.data, out.size() * sizeof(T));
}

Json copied(const std::vector<uint8_t>& bytes, const Shape& shape) { return array_of(Dtype::u8, shape, bytes); }
Json copied(const std::vector<uint8_t>& bytes) { return copied(bytes, {bytes.size()}); }

}  // namespace

Accumulator accumulator_of(const std::string& words) {
  if (words.starts_with('{')) return accumulator_from(parse_json(words, "--accumulator"), "--accumulator");
  return accumulator_from_words(words, "--accumulator");
}

HadamardSpec hadamard_of(const Arguments& given, const char* size, const char* place) {
  HadamardSpec h;
  set_hadamard(h,
               {{"size", given.get<int>(size)}, {"signs", given.text("signs")}, {"normalise", given.text("normalise")}},
               place);
  return h;
}

std::vector<Part> parts_of(const QuantSpec& spec, const Shape& shape) {
  return folder::layout_of(spec, static_cast<int64_t>(matrix_rows(shape)), static_cast<int64_t>(matrix_cols(shape)), {},
                           shape)
      .parts;
}

Quantized quantized_of(const QuantSpec& spec, const Shape& shape, const Arguments& given) {
  element_count("shape", shape);
  Quantized q;
  q.spec = spec;
  q.rows = static_cast<int64_t>(matrix_rows(shape));
  q.cols = static_cast<int64_t>(matrix_cols(shape));
  q.geometry = geometry_of(spec, q.rows, q.cols);
  const std::vector<Part> parts = parts_of(spec, shape);
  take(part_named(parts, "codes"), "codes", given, q.codes);
  require_codes(q, "codes");
  const Part* scale_part = part_named(parts, "scales");
  if (is_real(spec.scale) && spec.has_scale())
    take(scale_part, "scales", given, q.real_scales);
  else
    take(scale_part, "scales", given, q.scales);
  if (!given.has("tensor_scale") && !spec.has_tensor_scale())
    q.tensor_scale = {1.0f};
  else
    take(part_named(parts, "tensor_scale"), "tensor_scale", given, q.tensor_scale);
  return q;
}

Json Tensor::array(const std::string& name) const {
  const std::vector<Part> parts = parts_of(q_.spec, shape_of(q_.rows, q_.cols));
  const Part* part = part_named(parts, name);
  if (part == nullptr) return {};
  const void* data = name == "codes"          ? static_cast<const void*>(q_.codes.data())
                     : name == "tensor_scale" ? static_cast<const void*>(q_.tensor_scale.data())
                     : q_.real_scales.empty() ? static_cast<const void*>(q_.scales.data())
                                              : static_cast<const void*>(q_.real_scales.data());
  return array_of(part->dtype, part->shape, data, shared_from_this(), false);
}

Json Tensor::dequantize(int threads) const {
  std::vector<float> out(static_cast<size_t>(q_.rows * q_.cols));
  Dispatcher().dequantize(q_, out.data(), threads);
  return array_of(Dtype::f32, shape_, std::move(out));
}

QuantizeReport Tensor::report(MatrixView x, int threads) const {
  std::vector<float> decoded(static_cast<size_t>(q_.rows * q_.cols));
  Dispatcher().dequantize(q_, decoded.data(), threads);
  QuantizeReport made;
  made.rows = q_.rows, made.cols = q_.cols;
  add_statistics(made, q_, x, decoded.data(), threads);
  return made;
}

Json Tensor::to_layout(const std::string& scales, const std::string& nibbles) const {
  const golden::ScaleLayout layout = golden::scale_layout_of("scales", scales);
  const golden::CodeLayout order = golden::code_layout_of("nibbles", nibbles);
  if (layout != golden::ScaleLayout::linear && (!q_.spec.has_scale() || is_real(q_.spec.scale)))
    throw Error("scales: layout " + scales + " is one of one-byte scales; accepted for this spec: linear");
  Json out = {{"codes", array("codes")}, {"scales", array("scales")}, {"tensor_scale", array("tensor_scale")}};
  const golden::CodeLayoutInfo& row = row_of(golden::code_layout_table, order);
  const bool packed = q_.is_packed();
  const bool as_stored = order == golden::CodeLayout::low_first || (order == golden::CodeLayout::unpacked && !packed);
  if (!as_stored && golden::holds(row, q_.code_bits())) {
    const int64_t cols = packed ? 2 * q_.code_row_bytes() : q_.code_row_bytes();
    const auto codes =
        packed ? golden::from_layout(golden::CodeLayout::low_first, q_.codes, q_.rows, cols, "codes") : q_.codes;
    const std::vector<uint8_t> made = golden::to_layout(order, codes, q_.rows, cols);
    out["codes"] =
        order == golden::CodeLayout::high_first ? copied(made, shape_of(q_.rows, q_.code_row_bytes())) : copied(made);
  }
  if (!out["scales"].is_null() && layout != golden::ScaleLayout::linear)
    out["scales"] = copied(golden::to_layout(layout, q_.scales, q_.geometry.scale_rows, q_.geometry.scale_cols));
  return out;
}

}  // namespace fp4::python
