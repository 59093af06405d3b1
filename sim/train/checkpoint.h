// Decides: what must be kept so that a resumed run equals an uninterrupted one by bits: weights, optimizer and loss
// scaler, held amaxes, position in the curve, the last losses of the divergence rule, counts of products; and the
// signatures of the program that made them, because other arithmetic would go on to a result of neither.
//
// File: a line "fp4sim checkpoint 2 " and the SHA-256 of all that follows in hex, then CBOR (RFC 8949). A flipped bit
// anywhere is an error that names the file. Version 1 had neither line nor hash and is refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/train/train.h"

namespace fp4::sim {

struct Checkpoint {
  std::string signature, train_signature;
  std::string data = {};  // "text PATH SHA-256" of what the task reads; "" of nothing, and in files of version 0.3.0
  Json config;
  uint64_t seed = 0;
  int step = 0;
  size_t next_point = 0;
  std::vector<float> weights, optimizer, held_amax, recent;
  std::vector<float> weight_rules = {};  // averages and open windows (oscillation.h); in the file where there are any
  std::vector<float> teacher = {};       // weights of the network that the run follows, in the file where there is one
  double distil = 0;                     // share of its outputs in the loss
  int turned = 0;                        // the first phase that a condition has begun
  double seconds = 0;                    // trained so far; in the file of a checkpoint that was made on the way
  double curve_sum = 0;
  int curve_count = 0;
  std::vector<CurvePoint> curve;
  std::array<PrecisionCounts, 3> products;  // of all steps so far
};

/// Replaces the file at once (temporary name, then rename).
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
/// Throws Error: exit code 2 for a file that is absent, no checkpoint or of another version, 1 for a damaged one.
Checkpoint read_checkpoint(const std::string& path);
/// The same for a file's bytes; `place` names them in errors.
Checkpoint parse_checkpoint(std::string_view bytes, const std::string& place);
/// The bytes of a file.
std::string checkpoint_bytes(const Checkpoint& checkpoint);

// Which checkpoints a run may go on from: whoever made a file may have given it any hash: what does not fit
// the run or each other would be read past its end or would wait for a step that has gone by.

/// The run that goes on.
struct Continuation {
  const Json& config;  // as its checkpoints have it
  uint64_t seed;
  int steps;
  int64_t weights;
  int phases;
  size_t next_point;  // of the curve, after the checkpoint's step
};

/// Old steps under old arithmetic and new ones under new would be the result of neither: throws Error for other
/// signatures than `options`'.
void check_program(const Checkpoint& c, const RunOptions& options, const std::string& path);
/// Throws Error for the checkpoint of another seed or configuration; a branch may have another recipe and training, and
/// its parent is returned.
std::optional<Parent> check_origin(const Checkpoint& c, const Continuation& run, bool is_branch,
                                   const std::string& path);
/// Throws Error for parts that do not fit.
void check_parts(const Checkpoint& c, const Continuation& run, bool is_branch, const std::string& path);

}  // namespace fp4::sim
