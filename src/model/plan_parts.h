// The tensors that a planned weight is in the output: their names, types and shapes by the scheme.
#pragma once

#include "src/model/tensor_plan.h"

namespace fp4 {

// Whether a tensor lies in blocks of GGUF.
inline bool is_block_type(const ModelTensor& t) {
  return t.parts.front().gguf != nullptr && t.parts.front().gguf->values != GgufValues::plain;
}

// Sets the outcome and what is written of a tensor whose way is known. Error for a layer without the stored factor of
// its inputs that job.activations needs, and past the limits of ggml.
void set_parts(const ModelJob& job, const QuantSpec& spec, Plan& plan);

}  // namespace fp4
