// What becomes of each tensor of a model: quantised, carried over, decoded or kept, and as which tensors of the output.
#pragma once

#include <optional>

#include "src/model/model_write.h"

namespace fp4 {

enum class Way : std::uint8_t { quantise, carry, decode, copy };

struct Plan {
  const ModelTensor* tensor;
  Way way;
  Outcome outcome = Outcome::copied;
  std::string rule = {};                    // why it is kept, or what is not understood
  std::vector<TensorInfo> infos = {};       // to write, in this order; of GGUF's block types the shape counts elements
  std::vector<const GgufType*> types = {};  // of them, where GGUF is written
  bool has_factor = false;                  // whether the factor is one of them, behind the scales
  std::optional<float> inputs = {};         // stored factor of the layer's inputs, the last of them
};

// Reads stacks of gpt-oss, [E, in, out] in bf16 and [E, out, in] in blocks, in the order of the one that is written.
void set_orientations(const ModelJob& job, std::vector<ModelTensor>& tensors);

// Whether the output is a GGUF: schemes of its block types.
bool writes_gguf(const ModelJob& job);

// In the order of the tensors. Error for patterns that no tensor has, for tensors that cannot become what is asked, for
// weights whose parts are incomplete; with exit code 1 for tensors that look quantised and are not understood, unless
// job.allow_left.
std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const std::vector<ModelTensor>& tensors);

// The job's spec; Error when the scheme cannot hold it. A default one without a scheme.
QuantSpec model_spec(const ModelJob& job);

}  // namespace fp4
