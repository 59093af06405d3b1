// Shapes after the command line's contract: K' = K padded to the block; codes [rows, K'/2 rounded up] packed; scales
// [rows, K'/B], 2-D [rows/B, K'/B] rounded up; tensor scale [1], outer128 [rows, ceil(K/128)].
#include <fmt/format.h>

#include "src/stream/quantize_files.h"
#include "src/text/error.h"

namespace fp4::folder {
namespace {

Dtype code_dtype(const QuantSpec& spec) {
  const int bits = format_of(spec.element).code_bits();
  return bits <= 8 ? Dtype::u8 : bits <= 16 ? Dtype::u16 : Dtype::u32;
}

bool is_packed(const QuantSpec& spec) { return format_of(spec.element).code_bits() == 4; }

}  // namespace

Shape shape_of(int64_t rows, int64_t cols) { return {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)}; }

std::vector<uint8_t> relaid(const std::vector<uint8_t>& codes, golden::CodeLayout from, golden::CodeLayout to,
                            int64_t rows, int64_t cols) {
  if (from == to) return codes;
  return golden::to_layout(to, golden::from_layout(from, codes, rows, cols, "codes"), rows, cols);
}

void check_order(const QuantSpec& spec, const Order& order) {
  const int bits = format_of(spec.element).code_bits();
  const golden::CodeLayoutInfo& layout = row_of(golden::code_layout_table, order.codes);
  const bool usual = order.codes == golden::CodeLayout::low_first || order.codes == golden::CodeLayout::unpacked;
  if (!usual && !golden::holds(layout, bits)) {
    std::string accepted;
    for (const golden::CodeLayoutInfo& row : golden::code_layout_table)
      if (row.id == golden::CodeLayout::low_first || golden::holds(row, bits))
        accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
    throw Error(fmt::format("--nibbles: layout {} is one of {}-bit codes; accepted for element {}: {}", layout.name,
                            layout.bits, info_of(spec.element).name, accepted));
  }
  if (order.scales != golden::ScaleLayout::linear && (!spec.has_scale() || is_real(spec.scale)))
    throw Error(fmt::format("--scale-layout: layout {} is one of one-byte scales; accepted for scale {}: linear",
                            row_of(golden::scale_layout_table, order.scales).name,
                            row_of(scale_table, spec.scale).name));
}

golden::CodeLayout memory_layout(const QuantSpec& spec) {
  return is_packed(spec) ? golden::CodeLayout::low_first : golden::CodeLayout::unpacked;
}

golden::CodeLayout file_layout(const QuantSpec& spec, const Order& order) {
  return order.codes == golden::CodeLayout::low_first ? memory_layout(spec) : order.codes;
}

bool is_row_by_row(golden::CodeLayout layout) {
  const golden::Placing& p = row_of(golden::code_layout_table, layout).placing;
  return std::string_view(p.digits).starts_with("r,") && p.row_multiple == 1;
}

Layout layout_of(const QuantSpec& spec, int64_t rows, int64_t cols, const Order& order, const Shape& decoded_shape) {
  const BlockGeometry g = geometry_of(spec, rows, cols);
  Layout layout;
  if (is_packed(spec) || file_layout(spec, order) != memory_layout(spec)) {
    const golden::CodeLayoutInfo& info = row_of(golden::code_layout_table, order.codes);
    const Dtype dtype = info.word_bytes == 4 ? Dtype::u32 : Dtype::u8;
    const auto words = [&](int64_t r) { return golden::padded_bytes(order.codes, r, g.padded_cols) / info.word_bytes; };
    const Shape flat = {static_cast<uint64_t>(words(rows))};
    layout.parts.push_back({"codes.npy", dtype, is_row_by_row(order.codes) ? shape_of(rows, words(1)) : flat});
  } else {
    layout.parts.push_back({"codes.npy", code_dtype(spec), shape_of(rows, g.padded_cols)});
  }
  layout.has_scales = spec.has_scale();
  if (layout.has_scales)
    layout.parts.push_back(
        {"scales.npy", is_real(spec.scale) ? Dtype::f32 : Dtype::u8,
         order.scales == golden::ScaleLayout::linear
             ? shape_of(g.scale_rows, g.scale_cols)
             : Shape{static_cast<uint64_t>(golden::padded_size(order.scales, g.scale_rows, g.scale_cols))}});
  layout.parts.push_back({"tensor_scale.npy", Dtype::f32,
                          spec.tensor_scale_cols(cols) > 0 ? shape_of(rows, spec.tensor_scale_cols(cols)) : Shape{1}});
  layout.parts.push_back({"dequantized.npy", Dtype::f32, decoded_shape});
  return layout;
}

}  // namespace fp4::folder
