// Decides: whether two kernels compute the same network (`fp4sim eval --against`): the one that a rollout engine
// decodes with and the one that a trainer scores with. Both are recipes. Compared are
//   KL       of a token, sum p (ln p - ln q) over the classes: p the softmax of the recipe's logits, q of those that it
//            is compared with, in fp64: what a trainer that scores samples of the rollout sees on average. Nats
//   flipped  whether the largest logit (of equals the first) is another one
//   first    the forward product, in the order of the network, whose results differ first, and which of its operands
//   causes   every word in which the recipes' forward passes differ, turned alone (the compared recipe with this one
//            word of the other) and turned back alone (the recipe without it): what is left of the KL. The cause is
//            what leaves at most half of it when turned back; where no word does, pairs of words are turned back
// Tensor scales and averages that a checkpoint holds for its own recipe are left out: both measure every tensor.
// Means of examples (lm: sequences) are what intervals are made of, since tokens of a sequence are no trials of their
// own: 95 % by Student's t, a KL from 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/train/train.h"
#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

using sim::Json;

struct Divergence {
  Summary kl, flipped;     // over examples
  double largest = 0;      // KL of a token
  int64_t not_finite = 0;  // tokens with a logit that is infinite or NaN in one of the two: they count in neither mean
};

/// `outputs` and `reference`: logits [tokens, classes] of the recipe and of what it is compared with; an example has
/// `per_example` of the tokens.
Divergence divergence(const std::vector<float>& outputs, const std::vector<float>& reference, int classes,
                      int per_example);

struct FirstDifference {
  std::string layer;
  int part = 0;  // of several products of a layer in a step
  std::string
      operand;  // input: it differs before it is quantised; a, b, "a and b": as quantised; sum: in the result alone
  int64_t differing = 0, count = 0;  // values of that operand (sum: of the result)
  int64_t row = 0, column = 0;       // of the first of them
  float against = 0, recipe = 0;     // its values
};

struct Turn {
  std::string word;     // fprop.*.decode: of both operands
  std::string meaning;  // "decode order", "adder", "split K", ..; empty: the word itself
  Json against, recipe;
  std::optional<Divergence> alone, without;
  std::string reason;  // why one of them cannot be
};

/// Two words of Rollout::turns, turned back together.
struct PairTurn {
  size_t first = 0, second = 0;
  std::optional<Divergence> without;  // absent: such a recipe cannot be
};

struct Rollout {
  Json against, recipe;  // canonical
  int64_t tokens = 0, examples = 0;
  Divergence all;
  std::optional<FirstDifference> first;
  std::vector<Turn> turns;      // what leaves the least KL when turned back first
  std::vector<PairTurn> pairs;  // where no word alone is the cause; likewise
  std::map<std::string, double> against_metrics, recipe_metrics;
};

/// The words of two canonical recipes whose values differ and that a forward pass may read; both operands in one word
/// where they change alike.
std::vector<Turn> different_words(const Json& against, const Json& recipe);
/// `recipe` with the value of a word.
Json with_word(Json recipe, const std::string& word, const Json& value);

/// Words that leave at most half of the KL when they are turned back (0.0789 alone of 0.0701 is no cause where 0.0701
/// is left without it), by their indices in Rollout::turns: one, or two. Empty: none do, they act together.
struct Cause {
  std::vector<size_t> words;
  double left = 0;  // of the KL
};
inline constexpr double cause_leaves = 0.5;
Cause cause_of(const Rollout& rollout);

/// The network of a checkpoint under both recipes. `progress` is called after each of the `all` evaluations. Throws
/// Error as tasks::evaluate does, and for a task whose loss has no classes.
Rollout compare_rollout(const std::string& checkpoint, const Json& against, const Json& recipe,
                        const sim::RunOptions& options,
                        const std::function<void(size_t done, size_t all)>& progress = {});

}  // namespace fp4::sweeps
