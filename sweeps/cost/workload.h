// Decides: what the cost model wants to know of a recipe, as plain numbers per GEMM and operand. sweeps/cost/adapt.h
// fills them from the axis rows, which carry their own cost facts: a new variant of an axis reaches the cost model as
// other numbers in these fields, never as a new word, and nothing here or in the formulas has to change for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fp4::cost {

/// One operand of one GEMM. Everything "per element" is per element of the operand.
struct OperandFacts {
  bool quantised = false;  // false: consumed as it is, bf16 or fp32
  double element_bits = 16;
  const char* element = "";  // its name; "": one that every chip takes
  bool is_choice = false;    // of two grids per block, which no matrix unit takes
  const char* scale = "";    // the scale's format, a word of scale_table ...
  double scale_bits = 0;     // bits of one scale ...
  double scale_block = 1;    // ... shared by so many elements along K, as the matrix unit reads them
  bool square = false;       // 2-D blocks: one set of codes for an operand and its transpose
  double random_bits = 0;    // drawn per element; 0: deterministic rounding
  double rule_ops = 0;       // scale rules beyond amax: 4/6 and mse try several scales
  double extra_passes = 0;   // reads of the tensor before it can be quantised: tensor scale current 1, hold 1/D
  double estimator_ops = 0;  // backward multiplication by Q'(u); 0: straight through
  double scale_gradient_ops = 0;
  double saved_bits = 0;    // payload kept from forward to backward for the two above
  bool from_fprop = false;  // quantised again from the decoded forward operand, not from bf16
  // A sparse operand, and its copy with zeros: of the elements `kept` are stored, with so many bits of metadata for
  // each element of the dense row; making the mask takes slots.
  const char* sparse = "";  // a word of sparsity_table; "": dense
  bool masked = false;
  double kept = 1, metadata_bits = 0, mask_ops = 0;

  /// Bits in memory for each element of the dense operand, its share of the scales included.
  double stored_bits() const {
    return kept * element_bits + metadata_bits + (quantised ? scale_bits / scale_block : 0);
  }
};

/// A recipe's KV cache (`attn` of a recipe).
struct CacheFacts {
  OperandFacts kv;
  bool keys_along_k = true, values_along_k = false;  // blocks lie along what Q K^T and P V sum over
};

struct HadamardFacts {
  int size = 0;               // 0: none
  bool normalised = true;     // a multiplication by 1/sqrt(size); false: folded into the product
  bool random_signs = false;  // drawn per layer or step; fixed signs cost nothing, they turn adds into subtractions
};

/// What a product that is cut into parts does besides its first part (sim/rules/split.h); shares are of the
/// multiply-adds of the whole product.
struct SplitFacts {
  double first = 1, second = 0;  // of the two products
  OperandFacts high;             // operands of the second
  double index_bits = 0;         // beside each of its activations: a sparse operand
  bool adds = false;             // its result is added to the first one's: read and written once more
  bool chooses = false;          // reads the activations once to choose its parts
  double rank = 0;               // > 0: low-rank parts of both operands, this share of the smaller side
};

struct GemmFacts {
  OperandFacts a, b;
  HadamardFacts hadamard;
  SplitFacts split = {};
};

/// Which linear layers the recipe quantises; the others run in bf16.
struct QuantisedLayers {
  enum class Kind : uint8_t { all, skip_first, skip_last, names } kind = Kind::all;
  double count = 0;                // layers, or a share of them when below 1
  std::vector<std::string> names;  // layers to quantise ("down", "block3.down")
};

/// Switches of a recipe that the points score of arXiv 2509.17791 counts besides what the operands show.
struct RecipeFacts {
  std::string name;
  GemmFacts fprop, dgrad, wgrad;
  QuantisedLayers layers;
  bool one_weight_quantiser = false;  // fprop's and dgrad's b are one set of codes (equal square blocks, no Hadamard)
  bool free_quantisation = false;     // operands arrive quantised, estimators are free: the reference of an overhead
  bool loss_scaling = false;
  bool center_keys = false;  // K minus its mean: two slots an element of K
  std::optional<CacheFacts> cache = {};
  bool by_depth = false;            // rules select the first or last layers
  bool full_output = false;         // attention multiplies P V twice forward (`delta` of_full_output)
  double weight_bytes = 0;          // moved a step for each quantised weight beyond the optimizer: averages, resets
  std::string high_class = "bf16";  // what layers outside the policy, head and attention run in

  // Ordered rules over layers; empty: none. The facts of one layer by its name ("block3.down"), its position among the
  // quantisable layers (-1: none of them) and their number; null where no rule makes a head quantisable. Layers under
  // the same rules share one object.
  using LayerFacts = std::shared_ptr<const RecipeFacts>;
  std::function<LayerFacts(const std::string& name, int position, int count)> at_layer = {};
  double share = 1;                      // of the steps: a phase's
  std::vector<RecipeFacts> phases = {};  // whose shares add up to 1; empty: one phase
};

/// The three GEMMs of a linear layer and their two operands, in the order of every table of the program.
inline const GemmFacts& gemm_of(const RecipeFacts& recipe, int gemm) {
  return gemm == 0 ? recipe.fprop : gemm == 1 ? recipe.dgrad : recipe.wgrad;
}

/// All operands as they are: bf16 (16 bits) or fp32 (32).
RecipeFacts unquantised_recipe(std::string name, double element_bits);
/// One plain block format with E8M0 scales on all operands of all GEMMs: what speed-ups over FP8 are measured against.
RecipeFacts uniform_recipe(std::string name, double element_bits, double scale_bits, double scale_block);

/// "fp4", "fp6", "fp8", "bf16" or "fp32": the narrowest class that holds elements of so many bits, or both operands.
std::string format_class(double element_bits);
std::string format_class(const GemmFacts& gemm);

}  // namespace fp4::cost
