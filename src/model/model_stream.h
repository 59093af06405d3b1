// A planned tensor from its source to its bytes in the output, band by band: copied, decoded, quantised or carried
// over.
#pragma once

#include "src/model/read_back.h"
#include "src/model/shard_writer.h"
#include "src/model/shared_factors.h"

namespace fp4 {

// What is known of a tensor when it is written: its loss, of decoded and carried ones how many values are not finite.
struct Streamed {
  QuantizeReport report = {};
  std::optional<Reported> rows = {};  // of FP4, to be read back
};

class ModelStream {
 public:
  // `model` must outlive it.
  explicit ModelStream(const ModelPlan& model);
  // Writes the tensors of a plan, in their order.
  Streamed write(const Plan& plan, ShardWriter& out);

 private:
  void copy(const Plan& plan, ShardWriter& out);
  int64_t decode(const Plan& plan, ShardWriter& out);
  QuantizeReport quantise(const Plan& plan, ShardWriter& out, Reported& reported);
  int64_t carry(const Plan& plan, ShardWriter& out);

  const ModelPlan& model_;
  SharedAmax shared_;
  ProgressCount progress_;
};

}  // namespace fp4
