// What becomes of each tensor of a model: quantised, carried over, decoded or kept, and as which tensors of the output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/model/cache_scales.h"
#include "src/model/outcome.h"

namespace fp4 {

enum class Way : std::uint8_t { quantise, carry, decode, copy, drop };

// Who says that a tensor which could be converted stays as it is.
enum class KeptBy : std::uint8_t { nobody, tensors, keep, keep_only, rule, scheme };

struct Plan {
  const ModelTensor* tensor;
  Way way;
  Outcome outcome = Outcome::copied;
  KeptBy kept_by = KeptBy::nobody;
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
std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const PlanFacts& facts,
                           const std::vector<ModelTensor>& tensors);

}  // namespace fp4
