// Tiles of single products that are cut (cut_singles_body.h).
#pragma once

#include <mutex>

#include "src/fast/cut_singles_body.h"

namespace fp4::FP4_ISA {

// Prepared when the first tile asks.
class Singles {
 public:
  Singles(const Product& p, const Folding& f) : may_serve_(may_cut_singles(p, f)) {}
  bool may_serve() const { return may_serve_; }
  const SinglesPlan& plan(const Product& p, const Folding& f) {
    std::call_once(once_, [&] { prepare_singles(p, f, plan_); });
    return plan_;
  }

 private:
  bool may_serve_;
  std::once_flag once_;
  SinglesPlan plan_;
};

// Units of a cut and sums are floats far from both ends of fp32.
inline bool singles_in_range(const Product& p, const fast::ScaleRange& a, const fast::ScaleRange& b) {
  const FloatFormat& ea = p.a.q.element;
  const FloatFormat& eb = p.b.q.element;
  if (a.largest == 0 || b.largest == 0 || !scales_in_range(a, b)) return false;
  return a.least_log2() + b.least_log2() + ea.min_exponent() + eb.min_exponent() >= -100 &&
         a.largest_log2() + b.largest_log2() + ea.max_exponent() + eb.max_exponent() <= 90;
}

// Panels pb.. of B times rows [first, last) of A, but for the tiles marked in `done`, one list a panel; marks what it
// did.
FP4_TARGET inline void multiply_singles_part(const Product& p, const Folding& f, const SinglesPlan& plan, int64_t pb,
                                             int panels, int64_t first, int64_t last, bool* const (&done)[2]) {
  const int64_t size = plan.a.padded * panel_rows;
  const int64_t groups = plan.a.padded / single_group;
  SingleInput t = {};
  t.groups = (p.a.cols + single_group - 1) / single_group;
  t.most = plan.most;
  t.unit_log2 = static_cast<float>(plan.a.cut + plan.b.cut);
  t.fraction_bits = static_cast<float>(f.fraction_bits);
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    const int64_t list = 2 * panel + half / tile_rows;
    t.value_a = plan.a.value + panel * size + half;
    t.units_a = plan.a.units + panel * size + half * 2;
    t.weight_a = plan.a.weight + panel * size + half * 4;
    t.base_a = plan.a.base + panel * groups * panel_rows + half;
    t.sparse_list = plan.a.list + list * size / 2;
    t.sparse_start = plan.a.start + list * (groups + 1);
    t.crowded = plan.a.crowded + list * groups;
    int count = 0;
    int first_panel = 0;
    for (int j = 0; j < panels; ++j) {
      bool& is_done = done[j][(row0 - first) / tile_rows];
      if (is_done || plan.a.regular[panel] == 0 || plan.b.regular[pb + j] == 0 ||
          !singles_in_range(p, p.a.panels.range[panel], p.b.panels.range[pb + j])) {
        continue;
      }
      const int64_t b = pb + j;
      t.value_b[count] = plan.b.value + b * size;
      t.units_b[count] = plan.b.units + b * size;
      t.weight_b[count] = plan.b.weight + b * size;
      t.base_b[count] = plan.b.base + b * groups * panel_rows;
      t.sparse_b[count] = plan.b.sparse + b * groups * panel_rows;
      if (count == 0) first_panel = j;
      ++count;
      is_done = true;
    }
    if (count > 0) singles_tile(t, f, count, output_of(p, row0, pb + first_panel, count));
  }
}

}  // namespace fp4::FP4_ISA
