#include "tools/cli/sweep/advice_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/rules/recipe.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/judge/orders.h"
#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

using nlohmann::ordered_json;
using sweeps::Advice;
using sweeps::AdviceRow;
using sweeps::AdviceWord;
using sweeps::Interval;
using sweeps::TokensFrom;

std::string_view word(AdviceWord word) {
  static constexpr std::string_view words[] = {"cheapest", "alike", "dearer", "never",
                                               "unknown"};  // as the enumerators
  return words[static_cast<size_t>(word)];
}

std::string multiple(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.3g}", ratio) : "never"; }

std::map<std::string, cost::RecipeFacts> recipe_facts(const LadderRuns& ladder, int steps) {
  std::map<std::string, cost::RecipeFacts> facts;
  const auto add = [&](const std::string& name, const sim::Json& given) {
    facts[name] = cost::facts_of(sim::recipe_from_json(given), steps);
  };
  for (const sweeps::PublishedOrder& order : sweeps::published_orders())
    for (const auto& [name, range] : order.tokens) add(name, name);
  for (const auto& [name, points] : ladder.points) {
    const auto kept = ladder.recipes.find(name);
    add(name, kept != ladder.recipes.end() ? kept->second : sim::Json(name));
  }
  return facts;
}

sweeps::Advice advice_of(const LadderRuns& ladder, const cost::Model& model, const cost::Hardware& hardware,
                         sweeps::AdviceOptions o) {
  constexpr size_t samples = 40;  // of the baseline's slope; gaps and costs are drawn anew each time
  const sweeps::LawStudy study = study_law(ladder.points, o.baseline, sweeps::LawForm::quartet, samples);
  const sweeps::GapRule gaps = gap_rule(ladder.points, o.baseline);
  const sweeps::LadderAdvice said{study, gaps};
  if (o.d == 0) o.d = 20 * static_cast<double>(model.parameters());
  return advise(&said, recipe_facts(ladder, o.cost.steps), model, hardware, o);
}

namespace {

std::vector<std::string> recipes_from(const Advice& advice, TokensFrom from) {
  std::vector<std::string> names;
  for (const AdviceRow& row : advice.rows)
    if (row.from == from) names.push_back(row.recipe);
  return names;
}

// "mxfp4_all_h16 8.5 %".
std::string token_shares(const Advice& advice, TokensFrom from) {
  std::vector<std::string> words;
  for (const AdviceRow& row : advice.rows)
    if (row.from == from)
      words.push_back(fmt::format("{} {:.3g} %", row.recipe, 100 * (row.gap ? std::expm1(*row.gap) : *row.tokens - 1)));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string known_words(const Advice& advice, const std::string& baseline) {
  if (!advice.reads_text)
    return "Known: nothing. Published tokens and the ladders of this program are of networks that read text.";
  std::vector<std::string> parts;
  if (const std::string gaps = token_shares(advice, TokensFrom::ladder); !gaps.empty())
    parts.push_back(fmt::format(
        "the ladder's gaps to {}, of the size nearest to this one where its law has no skill: {}", baseline, gaps));
  for (const AdviceRow& row : advice.rows)
    if (row.from == TokensFrom::published) {
      parts.push_back(fmt::format("extra tokens over fp8 that {} publishes: {}", row.source,
                                  token_shares(advice, TokensFrom::published)));
      break;
    }
  return parts.empty() ? "Known: no tokens of these recipes." : fmt::format("Known: {}.", fmt::join(parts, "; "));
}

std::string modelled_words(const Advice& advice, const cost::Model& model, const std::string& hardware,
                           const sweeps::AdviceOptions& o) {
  const char* words[] = {"time", "price", "energy"};
  const char* units[] = {"s", "US dollars", "J"};
  const auto objective = static_cast<size_t>(o.objective);
  const std::string start = fmt::format("Modelled: a step of {} on {} takes {:.4g} {} in {}; ", model.name, hardware,
                                        advice.baseline_step, units[objective], o.baseline);
  const AdviceRow* best = advice.best();
  if (best == nullptr) {
    const auto quickest = std::min_element(advice.rows.begin(), advice.rows.end(),
                                           [](const auto& a, const auto& b) { return a.step < b.step; });
    return start + fmt::format("the least is {} of it, in {}, which says nothing of its loss: no recipe is named.",
                               multiple(quickest->step), quickest->recipe);
  }
  std::vector<std::string> alike;
  for (const AdviceRow& row : advice.rows)
    if (row.word == AdviceWord::alike) alike.push_back(row.recipe);
  return start +
         (best->recipe == o.baseline ? fmt::format("no recipe of known tokens is cheaper than {} itself", o.baseline)
                                     : fmt::format("by those tokens {} is cheapest, {} [{}, {}] of {}'s {}",
                                                   best->recipe, multiple(*best->cost), multiple(best->interval->low),
                                                   multiple(best->interval->high), o.baseline, words[objective])) +
         (alike.empty() ? "" : fmt::format(", not told from {}", fmt::join(alike, ", "))) + ".";
}

std::string unknown_words(const Advice& advice, const std::string& baseline) {
  if (!advice.reads_text) return "Not known: how many more examples any recipe needs for the loss of " + baseline + ".";
  std::vector<std::string> parts;
  if (!recipes_from(advice, TokensFrom::supposed).empty() || !recipes_from(advice, TokensFrom::published).empty())
    parts.push_back("whether fp8 needs no more tokens than " + baseline + ", as is supposed");
  if (const auto names = recipes_from(advice, TokensFrom::unknown); !names.empty())
    parts.push_back(fmt::format("the tokens of {}", fmt::join(names, ", ")));
  if (advice.far_n > 1 || advice.far_d > 1)
    parts.push_back(fmt::format(
        "what the ladder's gaps become at {:.2g} times its weights and {:.2g} times its tokens{}", advice.far_n,
        advice.far_d, advice.by_ladder ? ", though draws let them move" : ", so that it is not asked"));
  return parts.empty() ? "Not known: what other data do." : fmt::format("Not known: {}.", fmt::join(parts, "; "));
}

}  // namespace

std::vector<std::string> advice_answer(const Advice& advice, const cost::Model& model, const std::string& hardware,
                                       const sweeps::AdviceOptions& o) {
  return {known_words(advice, o.baseline), modelled_words(advice, model, hardware, o),
          unknown_words(advice, o.baseline)};
}

std::vector<std::string> usual_answer(const std::string& model, const std::string& hardware,
                                      const std::vector<std::string>& weights) {
  const cost::Model of = cost::load_model(model);
  const cost::Hardware chip = cost::load_hardware(hardware);
  sweeps::AdviceOptions options;
  for (const std::string& word : weights) cost::set_weight(options.cost.weights, word);
  return advice_answer(advice_of(read_ladder(built_in_ladder), of, chip, options), of, chip.name, options);
}

ordered_json advice_json(const Advice& advice, const std::vector<std::string>& answer) {
  static constexpr const char* origins[] = {"baseline", "ladder", "published", "supposed", "unknown"};
  const AdviceRow* best = advice.best();
  ordered_json json = {{"best", best != nullptr ? ordered_json(best->recipe) : ordered_json()},
                       {"answer", answer},
                       {"rows", ordered_json::array()}};
  for (const AdviceRow& row : advice.rows) {
    std::optional<double> gap = row.gap;
    std::optional<Interval> gap_interval = row.gap_interval;
    if (gap) gap = std::expm1(*gap), gap_interval = {std::expm1(gap_interval->low), std::expm1(gap_interval->high)};
    json["rows"].push_back({{"recipe", row.recipe},
                            {"tokens_from", origins[static_cast<size_t>(row.from)]},
                            {"source", row.source},
                            {"gap", number(gap)},
                            {"gap_interval", ends(gap_interval)},
                            {"tokens", number(row.tokens)},
                            {"tokens_interval", ends(row.tokens_interval)},
                            {"step", row.step},
                            {"step_interval", ends(row.step_interval)},
                            {"decoded", row.decoded},
                            {"cost", number(row.cost)},
                            {"cost_interval", ends(row.interval)},
                            {"against_best", ends(row.against_best)},
                            {"word", word(row.word)}});
  }
  return json;
}

}  // namespace fp4::tools
