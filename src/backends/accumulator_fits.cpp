// Which accumulators add products of which operands (declared in spec_text.h). Apart from the texts of files, so that
// backends link without JSON.
#include "src/arith/spec_text.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

// Sums that are exact, or of decoded floats: elements of any length.
bool adds_any(AccumulatorKind kind) {
  switch (kind) {
    case AccumulatorKind::block:
    case AccumulatorKind::group:
    case AccumulatorKind::sequential:
    case AccumulatorKind::sequential_double:
    case AccumulatorKind::fma:
    case AccumulatorKind::fma_blocks:
    case AccumulatorKind::integer: return true;
    case AccumulatorKind::aligned:
    case AccumulatorKind::floor_aligned:
    case AccumulatorKind::floor_aligned_pairs:
    case AccumulatorKind::windowed: return false;
  }
  return false;
}

// Matrix units take elements of at most 8 bits or float formats: no codebooks of fp32 numbers.
bool has_short_steps(const QuantSpec& s) {
  const auto is_short = [](Element e) { return !format_of(e).is_grid() || format_of(e).largest().significand < 1024; };
  return is_short(s.element) && (!s.choice.is_on || is_short(s.choice.other));
}

}  // namespace

std::string invalid_reason(const Accumulator& a, const QuantSpec& of_a, const QuantSpec& of_b) {
  const auto takes_operand = [](const Accumulator& row, const QuantSpec& s) {
    return takes(row, s.has_scale(), format_of(s.element)) && (adds_any(row.kind) || has_short_steps(s));
  };
  const bool takes_a = takes_operand(a, of_a);
  if (takes_a && takes_operand(a, of_b)) return "";
  std::string name, others;
  for (const AccumulatorInfo& info : accumulator_table) {
    if (info.row == a && name.empty()) name = info.name;  // rows of several chips may be the same
    if (takes_operand(info.row, of_a) && takes_operand(info.row, of_b)) add_word(others, info.name);
  }
  const QuantSpec& refused = takes_a ? of_b : of_a;
  return "accumulator " + (name.empty() ? "of one's own" : name) + " takes no operand of " +
         info_of(refused.element).name + (refused.has_scale() ? "" : " without block scales") + "; these do: " + others;
}

}  // namespace fp4
