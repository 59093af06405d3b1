// Which accumulators add products of which operands (declared in spec_text.h). Apart from the texts of files, so that
// backends link without JSON.
#include "src/spec_text.h"

namespace fp4 {

std::string invalid_reason(const Accumulator& a, const QuantSpec& of_a, const QuantSpec& of_b) {
  const auto takes_operand = [](const Accumulator& row, const QuantSpec& s) {
    return takes(row, s.has_scale(), format_of(s.element));
  };
  const bool takes_a = takes_operand(a, of_a);
  if (takes_a && takes_operand(a, of_b)) return "";
  std::string name, others;
  for (const AccumulatorInfo& info : accumulator_table) {
    if (info.row == a && name.empty()) name = info.name;  // rows of several chips may be the same
    if (takes_operand(info.row, of_a) && takes_operand(info.row, of_b))
      others += (others.empty() ? "" : ", ") + std::string(info.name);
  }
  return "accumulator " + (name.empty() ? "of one's own" : name) + " takes no operand of " +
         row_of(element_table, (takes_a ? of_b : of_a).element).name + " without block scales; these do: " + others;
}

}  // namespace fp4
