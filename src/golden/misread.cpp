#include <fmt/format.h>

#include <memory>
#include <type_traits>

#include "src/golden/faulty_kernel.h"
#include "src/layout/digit_layout.h"

namespace fp4::golden {
namespace {

void add_orders_of_codes(const Quantized& q, std::vector<Misread>& out) {
  const int64_t width = 2 * q.code_row_bytes();
  for (const CodeLayoutInfo& layout : code_layout_table) {
    if (layout.bits != 4 || layout.id == CodeLayout::low_first) continue;
    const Placement place(layout.placing, q.rows, width);
    if (place.size() == q.rows * width)
      out.push_back({"nibbles", layout.name, std::string("codes are read as if they lay so: ") + layout.doc,
                     [place](int64_t r, int64_t k) { return place.at(r, k); }});
  }
  out.push_back({"nibbles", "unsigned", "the sign bit of each code is lost"});
}

void add_orders_of_scales(const Quantized& q, std::vector<Misread>& out) {
  const int64_t rows = q.geometry.scale_rows, cols = q.geometry.scale_cols;
  const auto add = [&](const std::string& word, const std::string& detail, auto from) {
    out.push_back({"scales", word, detail, from});
  };
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (layout.id == ScaleLayout::linear) continue;
    const Placement place(layout.placing, rows, cols);
    add(std::string("read_as_") + layout.name, std::string("plain scales are read as: ") + layout.doc,
        [place](int64_t r, int64_t c) { return place.at(r, c); });
    add(std::string("stored_as_") + layout.name, std::string("scales are read plainly that lie so: ") + layout.doc,
        [place, rows, cols, back = std::make_shared<std::vector<int64_t>>()](int64_t r, int64_t c) {
          if (back->empty()) {  // made when it is first asked for
            back->resize(static_cast<size_t>(place.size()), -1);
            for (int64_t i = 0, at = 0; i < rows; ++i)
              for (int64_t k = 0; k < cols; ++k, ++at) (*back)[static_cast<size_t>(place.at(i, k))] = at;
          }
          return (*back)[static_cast<size_t>(r * cols + c)];
        });
  }
  for (const int64_t step : {1, -1}) {
    add(fmt::format("rolled:{:+}block", step), "the scale of each block is that of a block beside it",
        [cols, step](int64_t r, int64_t c) { return r * cols + (c - step + cols) % cols; });
    add(fmt::format("rolled:{:+}row", step), "the scales of each row are those of a row beside it",
        [rows, cols, step](int64_t r, int64_t c) { return (r - step + rows) % rows * cols + c; });
  }
  add("of_row_0", "every row has the scales of row 0", [](int64_t, int64_t c) { return c; });
  add("of_block_0", "every block has the scale of the first one of its row",
      [cols](int64_t r, int64_t) { return r * cols; });
  for (const int64_t parts : {2, 4, 8, 16, 32, 64}) {
    for (const int64_t period : {int64_t{32}, int64_t{64}, int64_t{128}, rows}) {
      if (parts >= period || period % parts != 0 || rows % period != 0) continue;
      if (period == rows && (rows == 32 || rows == 64 || rows == 128)) continue;  // among them
      add(fmt::format("rows:{}x{}", parts, period / parts),
          fmt::format("rows of scales in another order: of every {} rows, {} x {} are read as {} x {}", period, parts,
                      period / parts, period / parts, parts),
          [cols, parts, period](int64_t r, int64_t c) {
            const int64_t i = r % period;
            return (r - i + i % parts * (period / parts) + i / parts) * cols + c;
          });
    }
  }
}

}  // namespace

std::vector<Misread> misreads(const Quantized& q) {
  std::vector<Misread> out;
  if (q.is_packed()) add_orders_of_codes(q, out);
  if (q.spec.has_scale() && q.geometry.scale_rows * q.geometry.scale_cols > 1) add_orders_of_scales(q, out);
  return out;
}

Quantized read_rows(const Quantized& given, const Misread* how, const std::vector<int64_t>& rows) {
  const int64_t high = given.geometry.block_rows;
  const auto pick = [&](const auto& all, int64_t of, int64_t step = 1) {
    if (rows.empty() || all.empty()) return all;
    std::decay_t<decltype(all)> some;
    const auto width = static_cast<std::ptrdiff_t>(all.size()) / of;
    for (const int64_t r : rows)
      some.insert(some.end(), all.begin() + r / step * width, all.begin() + (r / step + 1) * width);
    return some;
  };
  const bool by_rows = given.spec.tensor_scale_cols(given.cols) > 0;
  Quantized out = {given.spec,
                   given.rows,
                   given.cols,
                   given.geometry,
                   pick(given.codes, given.rows),
                   pick(given.scales, given.geometry.scale_rows, high),
                   pick(given.real_scales, given.geometry.scale_rows, high),
                   by_rows ? pick(given.tensor_scale, given.rows) : given.tensor_scale,
                   given.amax};
  if (!rows.empty()) {  // a square's scale is that of each of its rows
    BlockShape& block = out.spec.block;
    if (block.kind == BlockKind::square) block.kind = BlockKind::vector;
    if (block.kind == BlockKind::tensor) block = {BlockKind::row, 0};
    out.rows = static_cast<int64_t>(rows.size());
    out.geometry = geometry_of(out.spec, out.rows, out.cols);
  }
  const bool is_of_codes = how != nullptr && (!how->from || how->axis == std::string("nibbles"));
  if (how == nullptr || (is_of_codes && !given.is_packed())) return out;  // wider codes have no nibbles
  const auto line = [&](int64_t r) { return rows.empty() ? r : rows[static_cast<size_t>(r)]; };
  if (!how->from) {
    for (uint8_t& two : out.codes) two &= 0x77;
  } else if (how->axis == std::string("nibbles")) {
    const int64_t width = 2 * given.code_row_bytes();
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t at = how->from(line(r), k);
        if (at / width < given.rows) out.set_code(r, k, given.code(at / width, at % width));
      }
  } else {
    const int64_t cols = given.geometry.scale_cols, all = given.geometry.scale_rows * cols;
    for (int64_t r = 0; r < out.geometry.scale_rows; ++r)
      for (int64_t k = 0; k < cols; ++k) {
        const int64_t at = how->from(line(r), k);
        if (at < 0 || at >= all) continue;
        const auto from = static_cast<size_t>(at), to = static_cast<size_t>(r * cols + k);
        if (!given.scales.empty()) out.scales[to] = given.scales[from];
        if (!given.real_scales.empty()) out.real_scales[to] = given.real_scales[from];
      }
  }
  return out;
}

}  // namespace fp4::golden
