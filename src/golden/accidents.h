// What kernels do wrong most: not by another policy, but by accident. Rows that were never written, tiles that hold
// another tile's right answer, a factor left out, a part of K that is not summed. The arrays say it themselves, in
// milliseconds and with their places, before any policy is recomputed.
#pragma once

#include "src/golden/diagnose.h"

namespace fp4::golden {

// A dump's arrays beside the golden ones, as integers that can be counted: how well a kernel explains the differences.
// Signs of zeros count apart, because kernels disagree about them more often than about anything else.
struct Score {
  uint64_t after = 0;                           // elements in which the dump is not what this kernel writes
  uint64_t after_zeros = 0;                     // of them: beyond the signs of zeros
  uint64_t found = 0, predicted = 0, seen = 0;  // differences: named rightly, made by the kernel, there
  Score& operator+=(const Score& o) {
    after += o.after, after_zeros += o.after_zeros, found += o.found, predicted += o.predicted, seen += o.seen;
    return *this;
  }
  bool explains() const { return after == 0; }
  bool explains_but_zeros() const { return after_zeros == 0; }
  // Harmonic mean of the shares of its differences that are seen and of the seen ones that it names.
  double f1() const {
    return predicted + seen == 0 ? 0.0 : 2.0 * static_cast<double>(found) / static_cast<double>(predicted + seen);
  }
};

// A part of a case, with what was dumped of it. A kernel explains the dump only if it explains the part, which is known
// in a thousandth of the time: the rows, or the tile of 128 x 128, in which most differs, the same tile of the
// transposed input, or the rows and, of a product, columns that differ most.
enum class Cut : uint8_t { rows, tile, turned_tile, corner };
struct Sample {
  Cut cut;
  Case c;
  CaseInputs in;
  Band band;
  Corner corner;
  std::vector<ArrayPair> evidence;  // of its own; each knows where it lies in the whole

  // Whether the part decides about a kernel, which stays as it is but for `turned_tile`.
  bool tells(Kernel& k) const;
};
// None where the case is small, or where its parts depend on each other.
std::vector<Sample> windows_of(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence);
std::optional<Sample> corner_of(const Case& c, const std::vector<ArrayPair>& evidence);

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<ArrayPair>& evidence);

// Zeros or NaN where nothing was written, rows, columns or tiles of another place, scales that are clamped: one finding
// for each array that differs, or none.
std::optional<Cause> array_accident(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence);

// Lines (rows, columns) or tiles of an array that hold the right answer of another place.
struct LineMove {
  std::string word;  // "rows_moved", "columns_moved", "tiles_moved"
  std::string says;  // "rows 96 to 127 are rows 0 to 31 of the answer"
};

// Nothing where few lines of few bits may be alike by chance.
std::optional<LineMove> line_move(const ArrayPair& e);

// Numbers that are the right ones times one factor: its name where the tensor scales or a power of two give it.
std::optional<Cause> factor_accident(const Case& c, const std::vector<ArrayPair>& evidence, const Simulator& simulator);

// The golden scale byte of all blocks that differ.
struct ScaleByte {
  uint32_t byte = 0;
  int64_t wrong = 0, right = 0;  // blocks that have it
  bool came_as_zeros = false;    // their elements
};
std::optional<ScaleByte> shared_scale_byte(const Case& c, const std::vector<ArrayPair>& evidence,
                                           const Simulator& simulator);

// Causes whose numbers come from the dump itself. Of random bits of another stream: codes that other random words
// explain, when nothing in front of the rounding differs: scales and tensor scales equal.
void add_draw_causes(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence,
                     const std::string& backend, uint64_t before, std::vector<Cause>& causes);

// Of an epilogue: outputs that are P, alpha*P, P + bias, alpha*P + bias or alpha*P + beta*C (where the case has a C),
// rounded to a type of outputs, with P the product under one of the named adders; at most one cause, the case's own
// adder and fp32 first. What a corner of the outputs tells is tried there first.
void add_epilogue_causes(const Case& c, const Simulator& simulator, const std::vector<ArrayPair>& evidence,
                         const Sample* corner, const Simulator* of_corner, uint64_t before, std::vector<Cause>& causes);

}  // namespace fp4::golden
