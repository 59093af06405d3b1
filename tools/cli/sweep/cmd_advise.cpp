// `fp4sim advise`: which recipe to train a model with on a chip: what each costs until it has bf16's loss, from a
// ladder's gaps or published tokens and the cost model, in three sentences and a table.
#include <fmt/core.h>

#include <cmath>
#include <set>

#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/cost/hardware.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/advice_words.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using sweeps::Advice;
using sweeps::AdviceRow;
using sweeps::TokensFrom;

const std::vector<std::string> objectives = {"time", "price", "energy"};  // as the enumerators

struct AdviseOptions {
  CostArguments cost;
  std::string ladder = built_in_ladder, baseline = "bf16", objective = "time";
  double tokens = 0;
  size_t samples = 200;
};

std::string tokens_origin(const AdviceRow& row) {
  switch (row.from) {
    case TokensFrom::ladder: return fmt::format("gap {:.2g} %", 100 * std::expm1(*row.gap));
    case TokensFrom::published: return row.source;
    case TokensFrom::supposed: return "supposed";
    default: return "";
  }
}

void print_advice_rows(const AdviseOptions& o, const Advice& advice) {
  Table table{{"recipe", ">tokens x", "from", ">step x", ">cost x", ">95 %", ""}, {}};
  std::set<std::string> formats;
  for (const AdviceRow& row : advice.rows) {
    formats.insert(row.decoded.begin(), row.decoded.end());
    table.rows.push_back({row.recipe + (row.decoded.empty() ? "" : " *"),
                          row.tokens ? multiple(*row.tokens)
                          : row.cost ? "never"
                                     : "unknown",
                          tokens_origin(row), multiple(row.step), row.cost ? multiple(*row.cost) : "",
                          row.interval ? multiple(row.interval->low) + ".." + multiple(row.interval->high) : "",
                          advice.best() != nullptr ? std::string(word(row.word)) : ""});
  }
  print_table(table);
  if (!formats.empty()) print_wrapped("* " + decoded_words(o.cost.hardware, joined(formats, "; ")));
  print_sentence(
      "tokens x, step x, cost x: as multiples of {}'s. step x and cost x are medians of {} draws of the cost model's "
      "doubts (results/cost_validation) and of the tokens; alike: some of the middle 95 % find it cheaper than the "
      "first.",
      o.baseline, o.samples);
}

void run_advise(const AdviseOptions& o, Invocation& invocation) {
  const LadderRuns ladder = read_ladder(o.ladder);
  const cost::Model model = cost::load_model(o.cost.model);
  const sweeps::AdviceOptions options = {
      .d = o.tokens,
      .baseline = o.baseline,
      .objective = static_cast<sweeps::Objective>(accepted_index("--objective", o.objective, objectives)),
      .draws = o.samples,
      .cost = o.cost.options(),
      .doubt = {}};
  const Advice advice = advice_of(ladder, model, cost::load_hardware(o.cost.hardware), options);
  const std::vector<std::string> answer = advice_answer(advice, model, o.cost.hardware, options);
  if (!o.cost.json) {
    print_sentence(
        "Losses of the ladder's small lm and of publications; a step of {} on {} as modelled, with 95 % of its doubt.",
        model.name, o.cost.hardware);
    for (const std::string& sentence : answer) print_wrapped(sentence);
    print_advice_rows(o, advice);
    print_sentence("{} until the loss of {} at D {:.3g}. Ladder: {}; beyond {:g} times its N or D it is not asked.",
                   o.objective, o.baseline, advice.d,
                   o.ladder == built_in_ladder ? "results/ladder_fixed (built-in)" : o.ladder, sweeps::farthest_advice);
    for (const std::string& name : ladder.left_out) print_wrapped(name + ": every run of the ladder diverged");
    return;
  }
  print_json(
      joined_json({{{"schema", 1}},
                   FP4_NAMED(o.cost.model, o.cost.hardware, o.objective, o.baseline, o.ladder, advice.n, advice.d),
                   {{"extrapolated_n", advice.far_n}, {"extrapolated_d", advice.far_d}},
                   FP4_NAMED(advice.by_ladder, advice.baseline_step),
                   advice_json(advice, answer),
                   {{"provenance", provenance(invocation)}}}));
}

}  // namespace

void command_advise(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<AdviseOptions>();
  option(app, "LADDER DIR|CSV", o->ladder,
         "Folder of a sweep of the task lm over sizes and budgets, or its `sweep export`; left out: the ladder that "
         "the program carries, results/ladder_fixed");
  o->cost.add_to(app);
  app.add_option("--tokens", o->tokens, "Tokens of the baseline (default: 20 for each parameter)")->check(above_zero());
  defaulted(app, "--objective time|price|energy", o->objective, "What is to be small: time, price or energy")
      ->check(CLI::IsMember(objectives));
  defaulted(app, "--baseline", o->baseline, "The recipe whose runs give the law and whose loss is to be reached");
  defaulted(app, "--samples", o->samples, "Draws")->check(CLI::Range(40, 100000));
  app.callback([o, &invocation] { run_advise(*o, invocation); });
  set_example(app, "fp4sim advise --hardware b200 --model llama3_8b");
}

}  // namespace fp4::tools
