// Which recipe to train with: the tokens that its law asks for to reach the baseline's loss, times what a token costs
// on a chip by the cost model. Both are uncertain, and Monte Carlo carries that through: draw i takes bootstrap sample
// i of the law and draws the chip's efficiency of GEMMs, memory bandwidth and issue rate, the same for all recipes.
//
// At the sizes people ask about N and D lie far outside every ladder, so something has to be supposed (Transfer). The
// caller says so (AdviceRow and Advice hold what it needs). A hundred times outside nothing is said of tokens.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/cost/cost.h"
#include "sweeps/cost/doubt.h"
#include "sweeps/judge/gaps.h"
#include "sweeps/judge/law.h"

namespace fp4::sweeps {

enum class Objective : uint8_t { time, price, energy };

// What a ladder says of sizes outside it. gaps: the paired gap of a recipe, ln(L / L_baseline) = a + x ln N + y ln D
// (gaps.h), carried to the model's N and D; the tokens that make it up follow from the baseline's slope at the ladder's
// largest N and D. The gap may be off by a factor that grows with the distance: 3 in 95 % of cases from 3.2M to 8B
// weights, as NVFP4 and MXFP4 cost 3.4 and 7.8 % of the loss there (results/ladder) and 1.5 and 2.5 % here
// (2509.25149). tokens: a recipe needs as many times the baseline's tokens as at the ladder's largest N and D; law:
// effN and effD stay what they are, and the law is read at the model's N and D. With exponents of .1 to .2 an effN of
// .015, which is 2.4 times the tokens at 2e5 weights, is 2,000 times the tokens at 7e9.
enum class Transfer : uint8_t { gaps, tokens, law };

inline constexpr double farthest_advice = 100;  // times outside the ladder's N or D

using cost::CostDoubt;

struct AdviceOptions {
  double d = 0;        // tokens of the baseline
  double max_gap = 0;  // the loss to reach is the baseline's times 1 + max_gap, for the baseline too
  Objective objective = Objective::time;
  Transfer transfer = Transfer::gaps;
  cost::CostOptions cost;
  CostDoubt doubt;
};

enum class AdviceWord : uint8_t { best, alike, dearer, never };

struct AdviceRow {
  std::string recipe;
  std::optional<double> gap;  // ln(L / L_baseline) at the place where it is read; of Transfer::gaps
  std::optional<Interval> gap_interval;
  std::optional<double> tokens;  // as a multiple of the baseline's; none: the loss is never reached
  std::optional<Interval> tokens_interval;
  double step = 1;                   // time, price or energy of a step, as modelled, as a multiple of the baseline's
  Interval step_interval;            // 95 % of the draws
  std::vector<std::string> decoded;  // formats that the chip does not multiply (cost.h)
  double cost = 1;                   // median of tokens x step over the draws; infinite where half never reach it
  Interval interval;                 // 95 % of the draws
  Interval against_best;             // of the cost as a multiple of the best row's, draw by draw
  AdviceWord word = AdviceWord::dearer;
};

struct Advice {
  double n = 0;                 // weights of the quantised layers
  double far_n = 1, far_d = 1;  // how many times N and D lie outside the ladder
  bool verdict = true;          // false: too far; tokens and costs are those at the ladder's largest N and D
  double baseline_step = 0;     // s, US dollars or J
  std::vector<AdviceRow> rows;  // by cost; the baseline among them
  // Where the first two change places: tokens and step of the first, as multiples of the baseline's.
  double turning_tokens = 0, turning_step = 0;
};

// `recipes`: the baseline's and those of the study; `gaps`: of the recipes, for Transfer::gaps. Throws Error where the
// chip has no price or power figures for the objective.
Advice advise(const LawStudy& study, const std::map<std::string, PlaneFit>& gaps,
              const std::map<std::string, cost::RecipeFacts>& recipes, const cost::Model& model,
              const cost::Hardware& hardware, const AdviceOptions& options);

// How many times a value lies outside a range; 1 inside.
double times_outside(double value, const Interval& range);

}  // namespace fp4::sweeps
