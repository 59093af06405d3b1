#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/golden/packed_operand.h"
#include "src/text/error.h"

namespace fp4::golden {
namespace {

std::string hex(uint128 n) {
  const auto high = static_cast<uint64_t>(n >> 64), low = static_cast<uint64_t>(n);
  return high != 0 ? fmt::format("{:x}{:016x}", high, low) : fmt::format("{:x}", low);
}

struct Term {
  AlignedTerm of;
  int64_t first = 0, last = 0;
  std::optional<int> unit{};
};

// The terms of products [first, last) and C, each with the unit that it is cut to.
std::vector<Term> terms_of(const Accumulator& row, const PackedOperand& a, const PackedOperand& b, int64_t first,
                           int64_t last, float acc) {
  const int64_t run = scale_run(a, b, last);
  const bool windowed = row.kind == AccumulatorKind::windowed, aligned = row.kind == AccumulatorKind::aligned;
  const Magnitude m = exact_magnitude(acc);
  const int zero = aligned ? (row.zero_exponent == no_zero_exponent ? -126 : row.zero_exponent) : INT_MIN;
  const AlignedTerm c = {m.significand, m.exponent,
                         m.is_zero() ? zero : larger(m.log2_floor(), row.is_half ? -14 : -126), is_negative(acc)};
  DotRank all;
  for (int64_t k = first, next = 0; windowed && k < last; k = next) {
    next = end_of_dot(k, first, last, run, row.carried_inner);
    all.join(rank_of(a, b, k, next));
  }
  const bool leads = windowed && !m.is_zero() && c.weight_log2 >= all.product;
  const int64_t inner = windowed ? (leads ? row.carried_inner : row.inner) : aligned ? row.inner : last - first;
  std::vector<Term> out = {{c}};
  int largest = c.weight_log2;
  for (int64_t k = first, next = 0; k < last; k = next) {
    next = end_of_dot(k, first, last, run, inner);
    out.push_back({aligned ? aligned_term(row, a, b, k, next) : exact_dot(a, b, k, next), k, next});
    if (windowed) out.back().of.weight_log2 = rank_of(a, b, k, next).product;
    largest = larger(largest, out.back().of.weight_log2);
  }
  const int carried_unit = m.is_zero() ? INT_MIN : c.weight_log2 - row.carried_bits;
  const int unit = aligned ? largest - row.fraction_bits
                   : leads
                       ? carried_unit
                       : larger(larger(all.product, c.weight_log2) - row.fraction_bits, all.scales - row.scale_bits);
  for (Term& t : out) {
    const bool outranked = windowed && row.cuts_outranked && !leads && t.last > 0 && c.weight_log2 >= t.of.weight_log2;
    if (aligned || (windowed && all.has_products)) t.unit = outranked ? larger(unit, carried_unit) : unit;
  }
  return out;
}

}  // namespace

std::vector<TraceLine> adder_trace(const Accumulator& row, const PackedOperand& a, const PackedOperand& b, int64_t k) {
  const bool is_block = row.kind == AccumulatorKind::block;
  if (!is_block && row.kind != AccumulatorKind::group && row.kind != AccumulatorKind::aligned &&
      row.kind != AccumulatorKind::windowed)
    throw Error("gemm --trace-adder: only adders of the kinds block, group, aligned and windowed have terms to show");
  if (!a.has_scale() || !b.has_scale()) throw Error("gemm --trace-adder: operands without block scales have no terms");
  const int64_t step = is_block ? scale_run(a, b, k) : row.group > 0 ? row.group : k;
  std::vector<TraceLine> out;
  float acc = 0;
  for (int64_t first = 0; first < k && is_finite(acc); first += step) {
    const int64_t last = smaller(k, first + step);
    ExactSum sum;
    for (const Term& t : terms_of(row, a, b, first, last, acc)) {
      const int drop = t.unit ? std::clamp(*t.unit - t.of.exponent, 0, 127) : 0;
      const uint128 lost = t.of.significand & ((uint128{1} << drop) - 1);
      out.push_back({t.first, t.last, t.last > 0 ? "term" : "C",
                     fmt::format("{}{} * 2^{}", t.of.negative ? "-" : "", hex(t.of.significand), t.of.exponent),
                     t.of.weight_log2 == INT_MIN ? "" : fmt::format("{}", t.of.weight_log2),
                     t.unit ? fmt::format("{}", *t.unit) : "", drop > 0 ? hex(lost) : ""});
      const bool rounds_apart = row.kind == AccumulatorKind::group && row.group > 0 && t.last == 0;  // C comes later
      if (!rounds_apart) add_truncated(sum, t.of, t.unit.value_or(t.of.exponent));
    }
    const Magnitude m = sum.magnitude_of_sum();
    const int even = m.is_zero() ? 0 : __builtin_ctzll(m.significand);
    out.push_back(
        {first, last, "sum",
         fmt::format("{}{:x} * 2^{}", sum.is_negative_sum() ? "-" : "", m.significand >> even, m.exponent + even), "",
         "", ""});
    acc = dot(row, a, b, first, last, acc);
    out.push_back({first, last, "result", fmt::format("{:08x} = {}", bits_of(acc), acc), "", "", ""});
  }
  return out;
}

}  // namespace fp4::golden
