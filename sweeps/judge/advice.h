// Which recipe to train with: the tokens that its law asks for to reach the baseline's loss, times what a token costs
// on a chip by the cost model. Both are uncertain, and Monte Carlo carries that through: draw i takes bootstrap sample
// i of the law and draws the chip's efficiency of GEMMs, memory bandwidth and issue rate, the same for all recipes.
//
// At the sizes people ask about N and D lie far outside every ladder, so something has to be supposed (Transfer). The
// caller says so (AdviceRow and Advice hold what it needs).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/cost/cost.h"
#include "sweeps/judge/law.h"

namespace fp4::sweeps {

enum class Objective : uint8_t { time, price, energy };

// What a ladder says of sizes outside it. tokens: a recipe needs as many times the baseline's tokens as at the ladder's
// largest N and D; law: effN and effD stay what they are, and the law is read at the model's N and D. With exponents of
// .1 to .2 an effN of .015, which is 2.4 times the tokens at 2e5 weights, is 2,000 times the tokens at 7e9.
enum class Transfer : uint8_t { tokens, law };

// What results/cost_validation found: 14 of 16 predicted values lie within a factor 1.5, steps with FP4 operands are
// modelled up to 29 % too fast.
struct CostDoubt {
  double factor = 1.5;       // 95 % of log-normal factors on efficiency, bandwidth and issue rate lie within it
  double fp4_slower = 0.29;  // a step with FP4 operands takes up to this much longer, uniform
};

struct AdviceOptions {
  double d = 0;        // tokens of the baseline
  double max_gap = 0;  // the loss to reach is the baseline's times 1 + max_gap, for the baseline too
  Objective objective = Objective::time;
  Transfer transfer = Transfer::tokens;
  cost::CostOptions cost;
  CostDoubt doubt;
};

enum class AdviceWord : uint8_t { best, alike, dearer, never };

struct AdviceRow {
  std::string recipe;
  std::optional<double> tokens;  // as a multiple of the baseline's; none: the loss is never reached
  std::optional<Interval> tokens_interval;
  double step = 1;        // time, price or energy of a step, as modelled, as a multiple of the baseline's
  double cost = 1;        // median of tokens x step over the draws; infinite where half never reach it
  Interval interval;      // 95 % of the draws
  Interval against_best;  // of the cost as a multiple of the best row's, draw by draw
  AdviceWord word = AdviceWord::dearer;
};

struct Advice {
  double n = 0;                 // weights of the quantised layers
  double baseline_step = 0;     // s, US dollars or J
  std::vector<AdviceRow> rows;  // by cost; the baseline among them
  // Where the first two change places: tokens and step of the first, as multiples of the baseline's.
  double turning_tokens = 0, turning_step = 0;
};

// `recipes`: the baseline's and those of the study. Throws Error where the chip has no price or power figures for the
// objective.
Advice advise(const LawStudy& study, const std::map<std::string, cost::RecipeFacts>& recipes, const cost::Model& model,
              const cost::Hardware& hardware, const AdviceOptions& options);

}  // namespace fp4::sweeps
