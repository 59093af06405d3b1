// Alarms: signs that a comparison says more about its settings than about recipes. They are printed with tables, fronts
// and the report; none of them changes a number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fp4/axis.h"
#include "sweeps/judge/pareto.h"

namespace fp4::sweeps {

enum class Alarm : uint8_t { better_than_fp32, at_edge, small_batch, untuned_reference, no_delta, no_effect };

inline constexpr AxisWord<Alarm> alarm_table[] = {
    {Alarm::better_than_fp32, "better than fp32",
     "a loss below fp32's by more than chance, corrected for the number of configurations: fp32 is badly trained"},
    {Alarm::at_edge, "at edge", "a tuned value at an end of its ladder: not the recipe's best"},
    {Alarm::small_batch, "small batch",
     "fewer than 64 examples of a batch count: (sum w)^2 / sum w^2 of their weights"},
    {Alarm::untuned_reference, "untuned reference",
     "fp32 loses over 1 % less in this store with another learning rate, clip or warm-up"},
    {Alarm::no_delta, "no delta",
     "a race in which the smallest difference that matters is 0: nothing can be tied, however many seeds are drawn"},
    {Alarm::no_effect, "no effect",
     "values of an axis whose runs are equal to the last bit, though their costs may differ: another setting hides it"},
};
static_assert(ids_are_indices(alarm_table));
inline std::string_view word(Alarm alarm) { return alarm_table[static_cast<size_t>(alarm)].name; }

struct RaisedAlarm {
  Alarm alarm;
  std::string context;  // description of the front that it concerns
  std::string text;     // a sentence
};

// By front, then in the order of the table; at most one of a kind for each front.
std::vector<RaisedAlarm> alarms(const Results& results, const std::vector<ContextFront>& fronts);

}  // namespace fp4::sweeps
