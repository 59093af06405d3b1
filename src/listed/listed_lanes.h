// Where the numbers of a block lie between the values of a list, eight at a time where the machine has AVX2.
#pragma once

#include <cstdint>
#include <vector>

namespace fp4 {

/// The values of a list by side, from zero on, for numbers that go up or down by where they lie between two of them.
struct ListedSteps {
  int count = 0;                            // of the longer side
  float per_step = 0.0f;                    // above 0: value j is j steps, to 2^-22
  float last[2] = {};                       // rank of a side's last value
  std::vector<float> value[2], per_gap[2];  // to one beyond `count`: infinity, and 0
};

/// Ranks of x[0..16) * inverse: that of the value below, and one more where its share of the gap above that exceeds
/// threshold[i]. `unsure` is not 0 where fp32 cannot tell; true if anywhere.
bool ranks_between(const ListedSteps& list, float inverse, const float (&x)[16], const float (&threshold)[16],
                   int32_t (&rank)[16], int32_t (&unsure)[16]);

}  // namespace fp4
