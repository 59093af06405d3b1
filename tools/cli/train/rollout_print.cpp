#include "tools/cli/train/rollout_print.h"

#include <fmt/core.h>

#include "src/text/member_json.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

using nlohmann::ordered_json;
using sweeps::Divergence;
using sweeps::Rollout;
using sweeps::Summary;

std::string kl_text(const Divergence& d) { return d.kl.n == 0 ? "-" : fmt::format("{:.3g}", d.kl.mean); }
std::string share_text(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::string ci_text(const Summary& s, double factor) {
  if (!s.interval) return "-";
  return fmt::format("{:.3g} .. {:.3g}", factor * s.interval->low, factor * s.interval->high);
}

// A word's value as a table shows it: text without quotes, all else as JSON.
std::string word_text(const sweeps::Json& value) {
  if (value.is_null()) return "absent";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  constexpr size_t most = 32;
  if (text.size() > most) text = text.substr(0, most - 2) + "..";
  return text;
}

std::string first_text(const sweeps::FirstDifference& f) {
  const std::string product = f.layer + (f.part > 0 ? fmt::format(", product {}", f.part) : "");
  const std::string count = fmt::format("{} of {} values", grouped(f.differing), grouped(f.count));
  const std::string where =
      fmt::format("first in row {}, column {}: {:.9g} against {:.9g}", f.row, f.column, f.recipe, f.against);
  if (f.operand == "input")
    return fmt::format("{}, its input before it is quantised: {} differ, {}", product, count, where);
  if (f.operand == "sum")
    return fmt::format("{}, its sum: the operands are equal, {} of the result differ, {}", product, count, where);
  const char* what = f.operand == "a" ? "operand a" : f.operand == "b" ? "operand b" : "both operands; of a";
  return fmt::format("{}, {} as quantised: {} differ, {}", product, what, count, where);
}

std::string turn_name(const sweeps::Turn& t) { return t.meaning.empty() ? t.word : t.meaning + " (" + t.word + ")"; }

// The words of a cause: "scale format (fprop.*.scale) and scale rule (fprop.*.scale_rule)".
std::string cause_names(const Rollout& r, const std::vector<size_t>& words) {
  return joined(words, " and ", [&](size_t word) { return turn_name(r.turns[word]); });
}

// What turning back each word alone does at most; turns are sorted by what they leave.
std::string best_alone(const Rollout& r) {
  const sweeps::Turn& best = r.turns.front();
  if (!best.without) return "none can be turned back alone";
  if (best.without->kl.mean >= r.all.kl.mean) return "turned back alone, none lowers it";
  return fmt::format("turned back alone, {} lowers it most, to {}", best.word, kl_text(*best.without));
}

void print_cause(const Rollout& r) {
  if (r.all.kl.n == 0 || r.all.kl.mean == 0 || r.turns.empty()) return;
  const sweeps::Cause cause = cause_of(r);
  if (r.turns.size() == 1)
    return print_wrapped("Cause: " + turn_name(r.turns[0]) + ", the only word in which the two differ.");
  if (cause.words.size() == 1) {
    const sweeps::Turn& word = r.turns[cause.words[0]];
    return print_sentence("Cause: {}: without it {:.3g} of the KL of {:.3g} is left; alone it makes {}.",
                          turn_name(word), cause.left, r.all.kl.mean,
                          word.alone ? kl_text(*word.alone) : "what cannot run");
  }
  if (cause.words.size() == 2)
    return print_sentence(
        "Cause: {} together: without the two {:.3g} of the KL of {:.3g} is left. No word is it alone: {}.",
        cause_names(r, cause.words), cause.left, r.all.kl.mean, best_alone(r));
  std::string text = fmt::format("Cause: no word and no two words leave at most half of the KL of {:.3g}: {}",
                                 r.all.kl.mean, best_alone(r));
  if (!r.pairs.empty() && r.pairs.front().without)
    text += fmt::format("; without {} {} is left", cause_names(r, {r.pairs.front().first, r.pairs.front().second}),
                        kl_text(*r.pairs.front().without));
  text += ". They act together:";
  for (const sweeps::Turn& t : r.turns) text += (&t == &r.turns.front() ? " " : ", ") + t.word;
  print_wrapped(text + ".");
}

ordered_json summary_json(const Summary& s) {
  ordered_json out = {{"mean", s.n > 0 ? ordered_json(s.mean) : ordered_json()}, {"low", nullptr}, {"high", nullptr}};
  if (s.interval) out["low"] = s.interval->low, out["high"] = s.interval->high;
  return out;
}

ordered_json divergence_json(const std::optional<Divergence>& d) {
  if (!d) return nullptr;
  return {{"kl", summary_json(d->kl)},
          {"flipped", summary_json(d->flipped)},
          {"largest_kl", d->largest},
          {"not_finite", d->not_finite}};
}

}  // namespace

void print_divergence(const Divergence& d) {
  Table table{{"of a token", ">mean", ">95 % interval", ">largest"}, {}};
  table.rows.push_back({"KL, nats", kl_text(d), ci_text(d.kl, 1), fmt::format("{:.3g}", d.largest)});
  table.rows.push_back({"another top-1, %", d.flipped.n == 0 ? "-" : fmt::format("{:.3g}", 100 * d.flipped.mean),
                        ci_text(d.flipped, 100), ""});
  print_table(table);
  if (d.not_finite > 0)
    print_sentence("{} tokens have an output that is not finite; they count in no mean.", grouped(d.not_finite));
}

ordered_json json_of(const Divergence& d) { return divergence_json(d); }

void print_rollout(const Rollout& r, const std::string& against, const std::string& recipe) {
  const std::string examples = r.tokens == r.examples
                                   ? fmt::format("{} examples", grouped(r.examples))
                                   : fmt::format("{} tokens of {} sequences", grouped(r.tokens), grouped(r.examples));
  print_sentence("{} against {}: {}", recipe, against, examples);
  print_divergence(r.all);
  print_sentence("Loss: {:.6g} against {:.6g}.", r.recipe_metrics.at("loss"), r.against_metrics.at("loss"));
  print_wrapped(r.first ? "First difference: " + first_text(*r.first) + "." : "No forward product differs in a bit.");
  if (r.turns.empty()) return print_wrapped("The forward passes of the two recipes are described by the same words.");
  Table causes{{"word", ">against", ">recipe", ">KL alone", ">top-1 alone", ">KL without"}, {}};
  for (const sweeps::Turn& t : r.turns)
    causes.rows.push_back({t.word, word_text(t.against), word_text(t.recipe), t.alone ? kl_text(*t.alone) : "cannot be",
                           t.alone ? share_text(t.alone->flipped.mean) : "",
                           t.without ? kl_text(*t.without) : "cannot be"});
  print_table(causes);
  for (const sweeps::Turn& t : r.turns)
    if (!t.reason.empty()) print_wrapped(t.word + " alone: " + t.reason);
  print_cause(r);
}

ordered_json json_of(const Rollout& r) {
  ordered_json out = {{"tokens", r.tokens}, {"examples", r.examples}};
  out.update(divergence_json(r.all));
  if (r.first)
    out["first"] = FP4_NAMED(r.first->layer, r.first->part, r.first->operand, r.first->differing, r.first->count,
                             r.first->row, r.first->column, r.first->against, r.first->recipe);
  else
    out["first"] = nullptr;
  out["causes"] = ordered_json::array();
  for (const sweeps::Turn& t : r.turns) {
    out["causes"].push_back(
        joined_json({FP4_NAMED(t.word, t.meaning, t.against, t.recipe),
                     {{"alone", divergence_json(t.alone)}, {"without", divergence_json(t.without)}}}));
    if (!t.reason.empty()) out["causes"].back()["reason"] = t.reason;
  }
  out["pairs"] = ordered_json::array();
  for (const sweeps::PairTurn& pair : r.pairs)
    out["pairs"].push_back(
        {{"words", {r.turns[pair.first].word, r.turns[pair.second].word}}, {"without", divergence_json(pair.without)}});
  out["cause"] = nullptr;
  if (const sweeps::Cause cause = cause_of(r); !cause.words.empty()) {
    out["cause"] = {{"words", ordered_json::array()}, {"left", cause.left}};
    for (const size_t word : cause.words) out["cause"]["words"].push_back(r.turns[word].word);
  }
  out["metrics"] = {{"against", r.against_metrics}, {"recipe", r.recipe_metrics}};
  return out;
}

}  // namespace fp4::tools
