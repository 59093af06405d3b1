// Products block by block: each tile through the first kernel of the table whose conditions hold.
#pragma once

#include "src/cpu/gemm/kernel_table.h"
#include "src/cpu/gemm/product_tiles_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"

namespace fp4::FP4_ISA {

inline const char* declines_level(const Part& s) {
  return s.p.has_levels ? nullptr : "no bytes, or rows whose scales cannot be brought together";
}
inline const char* declines_pairs(const Part& s) {
  return s.p.pairs.serves ? nullptr : "no 6- or 8-bit elements in blocks of 32 that 16 bits hold";
}
inline const char* declines_groups(const Part& s) {
  return s.groups.kernel != nullptr ? nullptr : "no sums of groups of small integers";
}
inline const char* declines_int8(const Part& s) {
  return s.k.one != nullptr ? nullptr : "no fp32_block of small integers";
}
inline const char* declines_single(const Part& s) {
  return s.k.single != nullptr ? nullptr : "no aligned sums of small integers";
}
inline const char* declines_cut(const Part& s) {
  return s.k.cut != nullptr ? nullptr : "no aligned sums whose terms are dots of 16 small integers";
}

// One row a kernel, in the order of kernel_table.h; `terms` and `core` end it.
struct KernelRow {
  cpu::GemmKernel id;
  const char* (*declines)(const Part&);  // nullptr: it takes the product
  void (*multiply)(Part&);               // marks the tiles whose data fit
};
inline constexpr KernelRow kernel_rows[] = {
    {cpu::GemmKernel::level, declines_level, multiply_level},
    {cpu::GemmKernel::pairs, declines_pairs, multiply_pairs},
    {cpu::GemmKernel::groups, declines_groups, multiply_groups},
    {cpu::GemmKernel::wide, declines_groups, multiply_wide},
    {cpu::GemmKernel::int8, declines_int8, multiply_int8},
    {cpu::GemmKernel::single, declines_single, multiply_single},
    {cpu::GemmKernel::cut, declines_cut, multiply_cut},
};

FP4_TARGET inline void multiply_group(Part s) {
  reserve_terms(s.p, s.end - s.pb);
  int64_t open = s.open_tiles();
  for (const KernelRow& row : kernel_rows) {
    if (const char* reason = row.declines(s); reason != nullptr) {
      cpu::gemm_uses.decline(row.id, reason);
      continue;
    }
    row.multiply(s);
    const int64_t left = s.open_tiles();
    cpu::gemm_uses.count(row.id, open, open - left);
    open = left;
    if (open == 0) return;
  }
  const int64_t slow = multiply_terms(s.p, s.k, s.pb, s.end, s.first, s.last, s.progress);
  cpu::gemm_uses.count(cpu::GemmKernel::terms, open, open - slow);
  if (slow > 0) cpu::gemm_uses.count(cpu::GemmKernel::core, slow, slow);
}

inline void multiply_blocked_panels(const Product& p) {
  const BlockedPlan plan = plan_blocked(p);
  const GroupPlan groups = plan_groups(p, plan);
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t across = (count + plan.group - 1) / plan.group;
  const int64_t down = (p.a.rows + row_block - 1) / row_block;
  parallel_for(0, down * across, 1, threads, 1, [&](int64_t tile) {
    const int64_t first = tile / across * row_block;
    const int64_t pb = tile % across * plan.group;
    multiply_group({p, plan, groups, pb, smaller(pb + plan.group, count), first, smaller(first + row_block, p.a.rows)});
  });
}

}  // namespace fp4::FP4_ISA
