// The bytes of one tensor of a model that is written: copied, decoded, quantised or carried over.
#pragma once

#include <optional>

#include "src/model/model_plan.h"
#include "src/model/read_back.h"
#include "src/model/shard_writer.h"
#include "src/threads/progress.h"

namespace fp4 {

// Bytes that a plan's tensors take in the output.
uint64_t written_bytes(const Plan& plan);

void copy_tensor(const Plan& plan, ShardWriter& out, ProgressCount& progress);

// Returns how many values are not finite.
int64_t decode_tensor(const ModelJob& job, const Plan& plan, ShardWriter& out, ProgressCount& progress);

// `number`: of the quantised tensor, for its random numbers; `amax`: what its factor is made of, unless its own.
// `reported` gets what its rows lost.
QuantizeReport quantise_tensor(const ModelJob& job, const QuantSpec& spec, uint32_t number, const Plan& plan,
                               std::optional<float> amax, ShardWriter& out, ProgressCount& progress,
                               Reported& reported);

// Codes and scales as they are; returns how many values are not finite.
int64_t carry_tensor(const ModelJob& job, const Plan& plan, ShardWriter& out, ProgressCount& progress);

}  // namespace fp4
