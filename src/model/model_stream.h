// A planned tensor from its source to its bytes in the output, band by band: copied, decoded, quantised or carried
// over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/arith/quantize_statistics.h"
#include "src/files/sha256.h"
#include "src/files/tensor_writer.h"
#include "src/model/model_plan.h"

namespace fp4 {

// What was written is read before it is kept: rows of every weight, from the bytes of its shard, by the scheme's
// reader. What is known of these rows: their loss as it was reported.
struct Reported {
  const TensorPlan* plan;
  int64_t first = 0, count = 0;
  std::vector<RowStatistics> rows = {};  // of quantised ones
};

// The rows in the middle of a tensor, about 64 K elements: an offset that drifts shows there.
Reported rows_to_read_back(const TensorPlan& plan);

// Compares what rows of every weight of the shard at `path` lost with what the quantiser reported of the same rows, and
// codes and scales that were carried with the source's. Error (exit code 1) where that differs: the file does not say
// what it should.
void read_back(const ModelPlan& model, const std::string& path, const std::vector<Reported>& written);

// One file of a model that is written, in the format that its scheme asks for, and the SHA-256 of its bytes.
class ShardWriter {
 public:
  // The tensors of `shard`, in their order: a .safetensors with its __metadata__, or a GGUF with its entries.
  ShardWriter(const std::string& path, const PlannedShard& shard);
  // The next bytes, across the ends of tensors.
  void write(const void* data, size_t bytes);
  void commit();
  // Of the whole file, after commit(): hashed as it was written, of a GGUF read once more.
  std::string sha256();

 private:
  std::string path_;
  std::optional<SafetensorsWriter> safetensors_ = {};
  std::optional<GgufWriter> gguf_ = {};
  Sha256 hash_{};
};

// The largest magnitude of each group of weights that share a tensor scale.
class SharedAmax {
 public:
  // `model` must outlive it.
  explicit SharedAmax(const ModelPlan& model);
  // The largest finite magnitude among the members of the plan's group, which are all read when the first of them
  // asks; NaN where one has a NaN and the spec poisons the factor. Nothing without a group.
  std::optional<float> of(const TensorPlan& plan);

 private:
  const ModelPlan& model_;
  std::map<int, std::vector<const ModelTensor*>> members_ = {};
  std::map<int, float> amax_ = {};
};

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
  Streamed write(const TensorPlan& plan, ShardWriter& out);

 private:
  void copy(const TensorPlan& plan, ShardWriter& out);
  int64_t decode(const TensorPlan& plan, ShardWriter& out);
  QuantizeReport quantise(const TensorPlan& plan, ShardWriter& out, Reported& reported);
  int64_t carry(const TensorPlan& plan, ShardWriter& out);

  const ModelPlan& model_;
  SharedAmax shared_;
  ProgressCount progress_;
};

}  // namespace fp4
