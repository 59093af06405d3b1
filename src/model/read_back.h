// What was written is read before it is kept: rows of every weight, from the bytes of its shard, by the scheme's
// reader.
#pragma once

#include <string>
#include <vector>

#include "src/arith/quantize_statistics.h"
#include "src/model/model_plan.h"

namespace fp4 {

// What is known of the rows that are read back: their loss as it was reported.
struct Reported {
  const Plan* plan;
  int64_t first = 0, count = 0;
  std::vector<RowStatistics> rows = {};  // of quantised ones
};

// The rows in the middle of a tensor, about 64 K elements: an offset that drifts shows there.
Reported rows_to_read_back(const Plan& plan);

// Compares what rows of every weight of the shard at `path` lost with what the quantiser reported of the same rows, and
// codes and scales that were carried with the source's. Error (exit code 1) where that differs: the file does not say
// what it should.
void read_back(const ModelPlan& model, const std::string& path, const std::vector<Reported>& written);

}  // namespace fp4
