// Which recipe to train with: the tokens until it has the baseline's loss, times what a token costs on a chip by the
// cost model. Both are uncertain, and Monte Carlo carries that through: draw i takes bootstrap sample i of the law and
// draws the chip's efficiency of GEMMs, memory bandwidth and issue rate, the same for all recipes.
//
// Tokens come from a ladder whose sizes reach within a hundred times of the model's, as the gap that GapRule carries
// there (gaps.h) and the slope of the baseline's loss at the ladder's largest N and D; else from what others published
// (orders.h), never from both. Both are of text: of a network that reads images or clicks nothing is said but what a
// step costs.
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

// Times outside the ladder's N or D. On the way a gap may move by a factor that grows with the distance: 3 in 95 % of
// cases from 3.2M to 8B weights, as NVFP4 and MXFP4 cost 3.4 and 7.8 % of the loss there (results/ladder) and 1.5 and
// 2.5 % here (2509.25149).
inline constexpr double farthest_advice = 100;

using cost::CostDoubt;

struct AdviceOptions {
  double d = 0;  // tokens of the baseline
  std::string baseline = "bf16";
  Objective objective = Objective::time;
  size_t draws = 200;
  cost::CostOptions cost;
  CostDoubt doubt;
};

// What a ladder says; study.samples.size() draws are made of it.
struct LadderAdvice {
  const LawStudy& study;
  const GapRule& gaps;
};

// Where a row's tokens come from. supposed: fp8, which published tokens are counted from, needs the baseline's.
enum class TokensFrom : uint8_t { baseline, ladder, published, supposed, unknown };
enum class AdviceWord : uint8_t { best, alike, dearer, never, unknown };

struct AdviceRow {
  std::string recipe;
  TokensFrom from = TokensFrom::unknown;
  std::string source;         // of published tokens
  std::optional<double> gap;  // of a ladder: ln(L / L_baseline) at the model's N and D
  std::optional<Interval> gap_interval;
  std::optional<double> tokens;  // as a multiple of the baseline's; none: not known, or never enough
  std::optional<Interval> tokens_interval;
  double step = 1;                       // time, price or energy of a step as a multiple of the baseline's: median draw
  Interval step_interval;                // 95 % of the draws
  std::vector<std::string> decoded;      // formats that the chip does not multiply (cost.h)
  std::optional<double> cost;            // median of tokens x step over the draws; infinite where half never reach it
  std::optional<Interval> interval;      // 95 % of the draws
  std::optional<Interval> against_best;  // of the cost as a multiple of the best row's, draw by draw
  AdviceWord word = AdviceWord::unknown;
};

struct Advice {
  double n = 0, d = 0;          // weights of the quantised layers, tokens
  double far_n = 1, far_d = 1;  // how many times N and D lie outside the ladder
  bool reads_text = true;
  bool by_ladder = false;       // it reaches so far
  double baseline_step = 0;     // s, US dollars or J, as modelled
  std::vector<AdviceRow> rows;  // by cost, the baseline among them; then those whose tokens are not known, by step
  // The cheapest row; none where nothing is known of the network's kind.
  const AdviceRow* best() const { return reads_text ? &rows.front() : nullptr; }
};

// `recipes`: the baseline's and others; `ladder`: none, or of the same baseline. Throws Error where the chip has no
// price or power figures for the objective.
Advice advise(const LadderAdvice* ladder, const std::map<std::string, cost::RecipeFacts>& recipes,
              const cost::Model& model, const cost::Hardware& hardware, const AdviceOptions& options);

}  // namespace fp4::sweeps
