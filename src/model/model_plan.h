// What becomes of each tensor of a model: quantised, decoded or kept, and as which tensors of the output.
#pragma once

#include "src/model/model_write.h"

namespace fp4 {

enum class Way { quantise, decode, copy };

struct Plan {
  const ModelTensor* tensor;
  Way way;
  std::vector<TensorInfo> infos;            // to write, in this order; of GGUF's block types the shape counts elements
  std::vector<const GgufType*> types = {};  // of them, where GGUF is written
};

// Whether the output is a GGUF: schemes of its block types.
bool writes_gguf(const ModelJob& job);

// In the order of the tensors. Error for patterns that no tensor has and for tensors that cannot become what is asked.
std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const std::vector<ModelTensor>& tensors);

// The job's spec; Error when the scheme cannot hold it. A default one without a scheme.
QuantSpec model_spec(const ModelJob& job);

}  // namespace fp4
