// Words of `calls` and cuts of an operand along K; the products are multiplied in called_product.cpp.
#include "sim/rules/calls.h"

#include <algorithm>
#include <cstring>

#include "src/text/read_field.h"

namespace fp4::sim {

Calls calls_from(const JsonReader& from, Calls calls) {
  JsonReader given = from;
  read_field(given, "rows", "tokens a call, each quantised by itself; 0: one call", calls.rows, 0, 1'000'000'000);
  read_field(given, "split_k", "parts of K that are summed apart and added in fp32", calls.split_k, 1, 65536);
  read_field(given, "split_rows", "a call of more rows is not split; 0: all are (batch-invariant)", calls.split_rows, 0,
             1'000'000'000);
  given.finish();
  return calls;
}

Json calls_to(const Calls& calls) {
  return {{"rows", calls.rows}, {"split_k", calls.split_k}, {"split_rows", calls.split_k > 1 ? calls.split_rows : 0}};
}

int64_t unit_of_k(const QuantSpec& a, const QuantSpec& b) {
  int64_t unit = 16;
  for (const QuantSpec* s : {&a, &b}) {
    if (!s->has_scale()) continue;
    unit = std::max<int64_t>(unit, s->block.size);  // powers of two; 0 for rows and tensors
    if (s->has_outer_scale()) unit = std::max<int64_t>(unit, outer_scale_width);
  }
  return unit;
}

std::vector<int64_t> part_ends(int64_t k, int64_t unit, int parts) {
  const int64_t units = (k + unit - 1) / unit;
  std::vector<int64_t> ends;
  for (int64_t p = 1; p <= parts; ++p) {
    const int64_t end = std::min(k, p * units / parts * unit);
    if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
  }
  return ends;
}

// Columns [first, first + count) of rows that are `from` apart.
template <class T>
static void cut_columns(const std::vector<T>& all, int64_t from, int64_t first, int64_t count, std::vector<T>& out) {
  if (all.empty()) return;
  const int64_t rows = static_cast<int64_t>(all.size()) / from;
  out.resize(static_cast<size_t>(rows * count));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(out.data() + r * count, all.data() + r * from + first, sizeof(T) * static_cast<size_t>(count));
}

Quantized columns_of(const Quantized& q, int64_t first, int64_t last) {
  Quantized out = {.spec = q.spec, .rows = q.rows, .cols = last - first};
  out.geometry = geometry_of(q.spec, q.rows, out.cols);
  out.amax = q.amax;
  cut_columns(q.codes, q.code_row_bytes(), q.is_packed() ? first / 2 : first * q.code_bytes(), out.code_row_bytes(),
              out.codes);
  if (q.spec.has_scale()) {
    const bool is_one = q.spec.block.kind == BlockKind::row || q.spec.block.kind == BlockKind::tensor;
    const int64_t block = is_one ? 0 : first / q.geometry.block_cols;
    cut_columns(q.scales, q.geometry.scale_cols, block, out.geometry.scale_cols, out.scales);
    cut_columns(q.real_scales, q.geometry.scale_cols, block, out.geometry.scale_cols, out.real_scales);
  }
  if (q.spec.has_outer_scale())
    cut_columns(q.tensor_scale, q.spec.tensor_scale_cols(q.cols), first / outer_scale_width,
                out.spec.tensor_scale_cols(out.cols), out.tensor_scale);
  else
    out.tensor_scale = q.tensor_scale;
  return out;
}

}  // namespace fp4::sim
