// Codes in the order of their values, for whatever changes codes after they were made: float formats, lists of values
// and micro-exponents alike.
#pragma once

#include <optional>

#include "fp4/backend.h"
#include "src/text/error.h"

namespace fp4 {

/// The element format of a block of a quantised operand: one of two under a choice.
inline const FloatFormat& element_of_block(const Quantized& q, int64_t row, int64_t k) {
  if (!q.spec.choice.is_on || q.scales.empty()) return format_of(q.spec.element);
  const bool is_other = (q.scales[static_cast<size_t>(q.scale_index(row, k))] & choice_flag) != 0;
  return format_of(is_other ? q.spec.choice.other : q.spec.element);
}

/// Codes that somebody else made, `what`: throws Error at the first one with bits beyond those of its format, which
/// every decoder would leave out.
inline void require_codes(const Quantized& q, const std::string& what, int64_t first_row = 0) {
  if (q.is_packed() || q.code_bits() == 8 * q.code_bytes()) return;
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t k = 0; k < q.geometry.padded_cols; ++k)
      if (q.code(r, k) >> q.code_bits() != 0)
        throw Error(what + ": row " + std::to_string(first_row + r) + ", column " + std::to_string(k) + " holds " +
                    std::to_string(q.code(r, k)) + "; accepted: codes of " + std::to_string(q.code_bits()) +
                    " bits, 0 to " + std::to_string((1u << q.code_bits()) - 1));
}

/// Whether nothing larger is written on the code's side of zero, under its micro-exponents.
inline bool is_end_code(const FloatFormat& f, uint32_t code) {
  if (!f.is_grid()) return (code & f.magnitude_mask()) == f.largest_code;
  if (!f.has_micro()) return f.grid->is_end(code);
  return is_end_code(format_of(static_cast<Element>(f.grid->base)), code & ((1u << f.grid->base_bits) - 1u));
}

/// The code of the next value away from zero (or toward it) for a number of that sign; none beyond the ends.
inline std::optional<uint32_t> next_code(const FloatFormat& f, uint32_t code, bool negative, bool away) {
  if (f.has_micro()) {
    const uint32_t low = (1u << f.grid->base_bits) - 1u;
    const auto next = next_code(format_of(static_cast<Element>(f.grid->base)), code & low, negative, away);
    if (!next) return std::nullopt;
    return *next | (code & ~low);
  }
  const uint32_t sign = negative ? f.sign_code() : 0u, rank = code & f.magnitude_mask();
  if (!f.is_grid()) {
    if (away ? rank == f.largest_code : rank == 0) return std::nullopt;
    return sign | (away ? rank + 1 : rank - 1);
  }
  const int side = !f.grid->is_signed && negative ? 1 : 0;
  const int count = f.grid->count[side];
  const int64_t steps = f.grid->steps[rank] < 0 ? -int64_t{f.grid->steps[rank]} : f.grid->steps[rank];
  for (int i = 0; i < count; ++i) {
    const int64_t at = f.grid->steps[f.grid->by_magnitude[side][i]];
    if ((at < 0 ? -at : at) != steps) continue;
    const int next = away ? i + 1 : i - 1;
    if (next < 0 || next >= count) return std::nullopt;
    return sign | f.grid->by_magnitude[side][next];
  }
  return std::nullopt;
}

}  // namespace fp4
