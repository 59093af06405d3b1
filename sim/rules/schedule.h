// Decides: how a recipe changes over depth and time. `layers` as a list are rules in order, later ones over earlier:
//   [{"kind": "attention", "recipe": "mxfp8"}, {"last": 0.15, "recipe": "bf16"}, {"match": "head", "recipe": "mxfp8"}]
// Each selects layers and says what changes for them: a recipe's products, or single fields of products. `phases` say
// the same of time, [{"until": 0.82}, {"fprop": "bf16.fprop"}]: the second change counts from 82 % of the steps on.
// Order for one layer: the recipe's products, the rules that select it, the phase.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fp4/spec.h"
#include "sim/rules/attention_rules.h"
#include "sim/rules/calls.h"
#include "sim/rules/oscillation.h"
#include "sim/rules/post_training.h"
#include "src/backends/sparse.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

struct LayerRule {
  enum class By : uint8_t { match, kind, first, last };
  By by = By::match;
  std::string word;       // match: a pattern with * and ?; kind: attention, ffn, head, embedding, qk, pv
  double amount = 0;      // first, last: layers, or a share of the quantisable ones when below 1
  bool optional = false;  // match, kind: may select no layer, for recipes of models with and without such layers
  Json change;            // "all", "fprop", "dgrad", "wgrad", "sparse" as in a recipe
};

struct Phase {
  double until = 1;       // steps after which the next phase begins, or a share of all steps when below 1
  bool is_marked = true;  // false: without `until`
  double when = 0;        // > 0: begins once the gradient's ratio to its noise lies below, or after the mark before it
  Json change;
};

/// The recipe of all layers and steps (fp4/spec.h), and what changes over them.
struct TrainingRecipe : fp4::Recipe {
  TrainingRecipe() = default;
  TrainingRecipe(fp4::Recipe products) : fp4::Recipe(std::move(products)) {}
  std::vector<LayerRule> rules;
  std::vector<Phase> phases;
  WeightRules weights;
  PostTraining ptq;
  AttentionRules attention;
  Calls calls;
  Sparsity sparse = Sparsity::none;  // of linear layers' weights along K of fprop, by magnitude, in every forward pass
  bool center_keys = false;  // a quantised Q K^T sees K minus its mean over the sequence, which softmax cannot tell
};

/// The three products, in the order of every table of the program.
inline constexpr const char* product_words[] = {"fprop", "dgrad", "wgrad"};
inline GemmSpec& product_of(fp4::Recipe& r, int i) { return i == 0 ? r.fprop : i == 1 ? r.dgrad : r.wgrad; }

struct LayerPlace {
  std::string name;  // "block3.down"; a pattern meets all of it or what follows the last dot
  int position = 0;  // among the quantisable layers, in the order of the forward pass; -1: not one of them
  int count = 0;     // quantisable layers
};

/// A layer of a model under a recipe: W [out, in], multiply-adds of its forward product for one row of X (qk and pv:
/// one token, all heads; an embedding, which only looks up: 0) and the words of fprop, dgrad and wgrad ("e2m1",
/// "e2m1 x e4m3").
struct LayerInfo {
  std::string name;
  int in = 0, out = 0;
  bool quantisable = true;
  double multiply_adds = 0;
  std::array<std::string, 3> precisions;
};

/// How many products of each kind ran, by the precision of their operands ("e2m1", "e2m1 x e4m3").
using PrecisionCounts = std::map<std::string, int64_t>;

/// A layer that is not quantisable (head, embedding, qk, pv) is selected only by its name without * or ?, or by its
/// kind, which is what follows the last dot of its name.
bool selects(const LayerRule& rule, const LayerPlace& place);

/// The layers at an end that a number means: itself, or below 1 that share of `count`, to nearest, half up.
int layers_at_end(double amount, int count);

/// Whether a rule selects the layer.
bool is_ruled(const TrainingRecipe& recipe, const LayerPlace& place);
/// `start` under the rules that select the layer and under a phase; `phase` -1: none. Throws Error for products that
/// cannot be.
fp4::Recipe products_at(const TrainingRecipe& recipe, fp4::Recipe start, const LayerPlace& place, int phase);
/// The mask of a layer's weights under the same: a rule or phase that says `sparse`, or else names a whole product of a
/// recipe, which is dense, takes the place of what stood before.
Sparsity sparsity_at(const TrainingRecipe& recipe, Sparsity start, const LayerPlace& place, int phase);
/// `start` under a phase alone.
fp4::Recipe products_in(const TrainingRecipe& recipe, fp4::Recipe start, int phase);

/// The last step of each phase by its mark; one without a mark, and the last, ends with the training. A share ends
/// after floor(until * steps + 1/2) steps; a phase that ends before the one in front of it has no step.
std::vector<int> phase_ends(const TrainingRecipe& recipe, int steps);
/// The phase of a step (1 .. steps), counted from 0; -1 without phases.
int phase_of(const TrainingRecipe& recipe, int step, int steps);
/// The share of the steps that each phase has by the marks; they add up to 1. With `steps` 0, for a training of unknown
/// length, the shares as they are written; throws Error for marks in steps then.
std::vector<double> phase_shares(const TrainingRecipe& recipe, int steps);

/// Throws Error when a pattern or a kind selects none of these layers and its rule is not optional.
void check_rules(const TrainingRecipe& recipe, const std::vector<LayerPlace>& layers, const std::string& place);

/// Reads a product: fields laid over it, or another recipe's whole product by its words, RECIPE.PRODUCT (bf16.fprop).
/// The latter sets `mask`, where that is not null, to what RECIPE.fprop has, or to none.
void set_product(GemmSpec& product, Sparsity* mask, const JsonReader& given);

/// A whole number of layers or steps, or a share of all below 1.
double share_or_count(const JsonReader& given, double high, const char* unit);

/// Readers and canonical JSON of the two fields. A `recipe` becomes its three products in full.
std::vector<LayerRule> rules_from(const JsonReader& list);
std::vector<Phase> phases_from(const JsonReader& list);
Json rules_to(const std::vector<LayerRule>& rules);
Json phases_to(const std::vector<Phase>& phases);

}  // namespace fp4::sim
