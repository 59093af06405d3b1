#include "src/golden/misread.h"

#include <fmt/format.h>

#include "src/layout/digit_layout.h"

namespace fp4::golden {
namespace {

// Scales [rows, cols] as bytes or floats, each taken from the place `from` gives; beyond the last one it stays.
template <class From>
void move_scales(Quantized& q, const From& from) {
  const int64_t rows = q.geometry.scale_rows, cols = q.geometry.scale_cols;
  const auto move = [&](auto& scales) {
    const auto given = scales;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols && !given.empty(); ++c) {
        const int64_t at = from(r, c);
        if (at >= 0 && at < rows * cols) scales[static_cast<size_t>(r * cols + c)] = given[static_cast<size_t>(at)];
      }
  };
  move(q.scales);
  move(q.real_scales);
}

void add_orders_of_codes(const Quantized& q, std::vector<Misread>& out) {
  for (const CodeLayoutInfo& layout : code_layout_table) {
    const int64_t width = 2 * q.code_row_bytes();
    if (!q.is_packed() || layout.bits != 4 || layout.id == CodeLayout::low_first) continue;
    if (Placement(layout.placing, q.rows, width).size() != q.rows * width) continue;
    out.push_back({"nibbles", layout.name, std::string("codes are read as if they lay so: ") + layout.doc,
                   [placing = layout.placing](Quantized& x) {
                     const Quantized given = x;
                     const int64_t cols = 2 * x.code_row_bytes();
                     const Placement place(placing, x.rows, cols);
                     for (int64_t r = 0; r < x.rows; ++r)
                       for (int64_t k = 0; k < cols; ++k) {
                         const int64_t at = place.at(r, k);
                         x.set_code(r, k, given.code(at / cols, at % cols));
                       }
                   }});
  }
}

void add_orders_of_scales(const Quantized& q, std::vector<Misread>& out) {
  const int64_t rows = q.geometry.scale_rows, cols = q.geometry.scale_cols;
  const auto add = [&](const std::string& word, const std::string& detail, auto from) {
    out.push_back({"scales", word, detail, [from](Quantized& x) { move_scales(x, from); }});
  };
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (layout.id == ScaleLayout::linear) continue;
    const Placement place(layout.placing, rows, cols);
    std::vector<int64_t> back(static_cast<size_t>(place.size()), -1);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) back[static_cast<size_t>(place.at(r, c))] = r * cols + c;
    add(std::string("read_as_") + layout.name, std::string("plain scales are read as: ") + layout.doc,
        [place](int64_t r, int64_t c) { return place.at(r, c); });
    add(std::string("stored_as_") + layout.name, std::string("scales are read plainly that lie so: ") + layout.doc,
        [back, cols](int64_t r, int64_t c) { return back[static_cast<size_t>(r * cols + c)]; });
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
  add_orders_of_codes(q, out);
  if (q.is_packed())
    out.push_back({"nibbles", "unsigned", "the sign bit of each code is lost", [](Quantized& x) {
                     for (uint8_t& two : x.codes) two &= 0x77;
                   }});
  if (q.spec.has_scale() && q.geometry.scale_rows * q.geometry.scale_cols > 1) add_orders_of_scales(q, out);
  return out;
}

}  // namespace fp4::golden
