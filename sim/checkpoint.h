// Decides: what must be kept so that a resumed run equals an uninterrupted one by bits: weights, optimizer and loss
// scaler, held amaxes, position in the curve, the last losses of the divergence rule. File: CBOR (RFC 8949).
#pragma once

#include <string>
#include <vector>

#include "sim/train.h"

namespace fp4::sim {

struct Checkpoint {
  Json config;
  uint64_t seed = 0;
  int step = 0;
  size_t next_point = 0;
  std::vector<float> weights, optimizer, held_amax, recent;
  double curve_sum = 0;
  int curve_count = 0;
  std::vector<CurvePoint> curve;
};

/// Replaces the file at once (temporary name, then rename).
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
/// Throws Error for a file that is absent, damaged or of another version.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace fp4::sim
