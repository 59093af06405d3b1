// Numbers of a block against the midpoints of a list, eight at a time where the machine has AVX2.
#pragma once

#include <cstdint>
#include <vector>

namespace fp4 {

/// Midpoints of one side of a list in a block's own units: a magnitude lies above number j where it is larger than
/// below[j]; where it equals tie[j], fp64 cannot tell. NaN is no tie.
struct Thresholds {
  static constexpr int most = 40;
  int count = 0;
  bool has_tie = false;
  float below[most], tie[most];
};

/// Codes that go up or down by one with the magnitude, for numbers of sign 0 and of sign 1:
/// (first + step * (thresholds that it lies above)) & mask. In two's complement -1 follows 0.
struct StraightCodes {
  int32_t first[2], step[2], mask;
};

/// The values of a list by side, from zero on, for numbers that go up or down by where they lie between two of them.
struct ListedSteps {
  int count = 0;                            // of the longer side
  float per_step = 0.0f;                    // above 0: value j is j steps, to 2^-22
  float last[2] = {};                       // rank of a side's last value
  std::vector<float> value[2], per_gap[2];  // to one beyond `count`: infinity, and 0
};

/// The thresholds middle[0..count) * divisor; count is at most Thresholds::most, divisor is above 0. `doubt`: relative
/// error of such a product in fp64.
void set_thresholds(const double* middle, int count, double divisor, double doubt, Thresholds& out);

/// How many thresholds each of x[0..16) lies above, in `rank`, and in `unsure` not 0 where one of them is a tie.
/// `other`: the thresholds of negative numbers, or null where both signs have the same.
void thresholds_below(const Thresholds& positive, const Thresholds* other, const float (&x)[16], int32_t (&rank)[16],
                      int32_t (&unsure)[16]);

/// Ranks of x[0..16) * inverse: that of the value below, and one more where its share of the gap above that exceeds
/// threshold[i]. `unsure` is not 0 where fp32 cannot tell; true if anywhere.
bool ranks_between(const ListedSteps& list, float inverse, const float (&x)[16], const float (&threshold)[16],
                   int32_t (&rank)[16], int32_t (&unsure)[16]);

/// Codes of x[0..16); false where one of them is a tie or not finite.
bool straight_codes(const Thresholds& positive, const Thresholds* other, const StraightCodes& codes,
                    const float (&x)[16], uint32_t (&out)[16]);

}  // namespace fp4
