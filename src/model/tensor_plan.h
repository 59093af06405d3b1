// What becomes of each tensor of a model: quantised, carried over, decoded or kept, and as which tensors of the output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fp4/axis.h"
#include "src/model/model_job.h"

namespace fp4 {

// What became of a tensor of a model. Every command over models says one of these for each tensor.
enum class Fate : std::uint8_t { quantised, carried, decoded, kept, copied, folded, dropped, left };
inline constexpr AxisWord<Fate> outcome_table[] = {
    {Fate::quantised, "quantised", "its values in the scheme that is written"},
    {Fate::carried, "carried", "codes and scales of another scheme, bit for bit, under new names"},
    {Fate::decoded, "decoded", "FP4 or FP8 weights as real numbers"},
    {Fate::kept, "kept", "could be converted and stays by a rule, which is named"},
    {Fate::copied, "copied", "cannot be converted: vectors, integers, types without values here"},
    {Fate::folded, "folded in", "multiplied a weight, whose values have it in them now"},
    {Fate::dropped, "dropped", "described the old format and has no place in the new one"},
    {Fate::left, "not understood", "looks like codes, scales or factors, and no scheme reads it"},
};
static_assert(ids_are_indices(outcome_table));

enum class Way : std::uint8_t { quantise, carry, decode, copy, drop };

struct TensorPlan {
  const ModelTensor* tensor;
  Way way;
  Fate outcome = Fate::copied;
  std::string name = {};                    // copied under this name; "": its own
  std::string rule = {};                    // why it is kept, or what is not understood, in words
  std::vector<TensorInfo> infos = {};       // to write, in this order; of GGUF's block types the shape counts elements
  std::vector<const GgufType*> types = {};  // of them, where GGUF is written
  bool has_factor = false;                  // whether the factor is one of them, behind the scales
  std::optional<float> inputs = {};         // stored factor of the layer's inputs, the last of them
  uint32_t number = 0;                      // of the quantised tensors, for random numbers
  int group = -1;                           // weights of one number share their tensor scale

  // In the scheme that is written, which may be one of FP8.
  bool is_fp4() const { return way == Way::quantise || way == Way::carry; }
  std::uint64_t bytes() const;  // that its tensors take in the output
};

// Reads stacks of gpt-oss, [E, in, out] in bf16 and [E, out, in] in blocks, in the order of the one that is written.
void set_orientations(const ModelJob& job, std::vector<ModelTensor>& tensors);

// What is known of the source and of the output besides tensors.
struct PlanFacts {
  SourceConfig source = {};
  CacheEntries cache = {};
};

// In the order of the tensors. Error for patterns that no tensor has, for tensors that cannot become what is asked, for
// weights whose parts are incomplete; with exit code 1 for tensors that look quantised and are not understood, unless
// job.allow_left.
std::vector<TensorPlan> plans_of(const ModelJob& job, const QuantSpec& spec, const PlanFacts& facts,
                                 const std::vector<ModelTensor>& tensors);

// The tensors that a planned weight is in the output: their names, types and shapes by the scheme (plan_parts.cpp).

// Whether a tensor lies in blocks of GGUF.
inline bool is_block_type(const ModelTensor& t) {
  return t.parts.front().gguf != nullptr && t.parts.front().gguf->values != GgufValues::plain;
}

// Sets the outcome and what is written of a tensor whose way is known. Error for a layer without the stored factor of
// its inputs that job.activations needs, and past the limits of ggml.
void set_parts(const ModelJob& job, const QuantSpec& spec, TensorPlan& plan);

}  // namespace fp4
