#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "sweeps/judge/race.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

using sweeps::ContextFront;
using sweeps::ExtraTokens;
using sweeps::FrontPoint;
using sweeps::FrontStatus;

std::vector<const FrontPoint*> with_status(const ContextFront& front, FrontStatus status) {
  std::vector<const FrontPoint*> points;
  for (const FrontPoint& point : front.points) {
    if (point.status == status) points.push_back(&point);
  }
  return points;
}

// Races are run in differences: of gaps the intervals hold together, of losses themselves they do not.
bool is_raced(const sweeps::FrontOptions& options) { return options.y.ends_with("gap"); }

std::vector<std::string> row(const sweeps::Results& results, const ContextFront& front,
                             const sweeps::FrontOptions& options, const FrontPoint& point, const std::string& word) {
  return {word + (point.rates_differ ? ", rates differ" : ""),
          cost_text(options.x, point.x),
          point.y.n == 0 ? "" : fmt::format("{:.4g}", shown_mean(point, options.y)),
          interval_text(is_raced(options) ? point.raced_gap.interval : point.y.interval),
          relative_text(front, point, options.y),
          std::to_string(shown_seeds(point, options.y)),
          tuned_text(results, is_raced(options) ? *point.rung : *point.config),
          marked_setting(results, point)};
}

Table race_table(const sweeps::Results& results, const sweeps::FrontOptions& options) {
  return {{"", ">" + options.x, ">" + options.y, is_raced(options) ? ">interval" : ">raw interval", ">relative", ">n",
           tuned_title(results), "setting"},
          {}};
}

// "Worse: mxfp4 by 0.024 than nvfp4, ..", the least first.
void print_worse(const sweeps::Results& results, const ContextFront& front, size_t most) {
  std::vector<const FrontPoint*> worse = with_status(front, FrontStatus::off);
  std::stable_sort(worse.begin(), worse.end(),
                   [](const FrontPoint* a, const FrontPoint* b) { return a->difference.mean < b->difference.mean; });
  std::string text;
  for (size_t i = 0; i < worse.size() && (most == 0 || i < 2 * most); ++i)
    text +=
        fmt::format("{}{} by {:.2g} than {}", text.empty() ? "Worse: " : ", ", setting_of(results, *worse[i]->config),
                    worse[i]->difference.mean, setting_of(results, *worse[i]->rival));
  if (most > 0 && worse.size() > 2 * most) text += fmt::format(" and {} more", worse.size() - 2 * most);
  if (!text.empty()) print_wrapped(printable(text) + ".");
}

// Against whom the rates of a point differ, and both.
void print_rates(const sweeps::Results& results, const ContextFront& front) {
  std::string text;
  for (const FrontPoint& point : front.points)
    if (point.rates_differ && point.status != FrontStatus::off)
      text += fmt::format("{}{} at {} from {} at {}", text.empty() ? "Rates differ: " : ", ",
                          setting_of(results, *point.config), tuned_text(results, *point.own_rung),
                          setting_of(results, *point.rival), tuned_text(results, *point.rival_rung));
  if (!text.empty()) print_wrapped(printable(text) + ".");
}

// Divergence is a rate beside the loss, with the exact interval of 95 % of each by itself.
void print_diverged(const sweeps::Results& results, const ContextFront& front) {
  Table table{{">diverged", ">of", ">share", "setting"}, {}};
  for (const FrontPoint& point : front.points) {
    if (!point.candidate || point.diverged == 0) continue;
    const sweeps::Interval share = sweeps::clopper_pearson(point.diverged, point.runs);
    table.rows.push_back({std::to_string(point.diverged), std::to_string(point.runs),
                          fmt::format("{:.2g} .. {:.2g} %", 100 * share.low, 100 * share.high),
                          setting_of(results, *point.config)});
  }
  if (table.rows.empty()) return;
  fmt::print("\n");
  print_table(table);
}

// What was run, and what its words mean.
void print_race_words(const ContextFront& front) {
  print_sentence(
      "Race on up to {} fresh seeds{}. The intervals of its {} pairs are simultaneous (95 %), over all rounds. Costs "
      "that the model cannot tell apart count as equal.",
      front.seeds, front.at_best ? ", every recipe at the best of its own rungs" : ", all at the grid's fixed settings",
      front.comparisons);
  print_sentence(
      "step: loses less than every cheaper step, by however little. tied: within delta = {:.3g} of its step, either "
      "way. What loses less by a part of delta may be called either.",
      front.delta);
  if (const size_t least = sweeps::RaceRules{}.least_alone; front.seeds < least)
    print_sentence(
        R"(Fewer than {} seeds make no step, and call nothing worse than one. "race": {{"seeds": 320}} in the grid.)",
        least);
  if (front.left_out > 0)
    print_sentence(
        "{} more candidates did not race; one of them is below the screened front at its cost with a chance of {:.2g} "
        "%.",
        front.left_out, 100 * front.left_out_chance);
  print_wrapped(scale_text(front) + spread_text(front));
}

std::string extra_text(const std::optional<ExtraTokens>& extra) { return extra ? text(*extra) : ""; }

std::string interval_text(const std::optional<ExtraTokens>& extra) {
  if (!extra || !extra->raw) return "";
  return fmt::format("{:+.1f} .. {:+.1f}", 100 * extra->raw->low, 100 * extra->raw->high);
}

}  // namespace

void print_race(const sweeps::Results& results, const ContextFront& front, const sweeps::FrontOptions& options,
                size_t members) {
  print_race_words(front);
  Table table = race_table(results, options);
  for (const FrontPoint& point : front.points) {
    const FrontPoint* step = &point;
    if (!point.on_front) continue;
    table.rows.push_back(
        row(results, front, options, *step, point.status == FrontStatus::on ? "step" : "leads, undecided"));
    size_t tied = 0;
    for (const FrontPoint* member : with_status(front, FrontStatus::tied)) {
      if (member->rival != step->config) continue;
      if (members == 0 || tied < members) table.rows.push_back(row(results, front, options, *member, "  tied"));
      ++tied;
    }
    if (members > 0 && tied > members)
      table.rows.push_back({fmt::format("  + {}", tied - members), "", "", "", "", "", "", "more tied with it"});
  }
  fmt::print("\n");
  print_table(table);
  print_tokens(results, front, with_status(front, FrontStatus::on));
  std::vector<const FrontPoint*> open = with_status(front, FrontStatus::undecided);
  const size_t steps = with_status(front, FrontStatus::on).size();
  const size_t tied = with_status(front, FrontStatus::tied).size(), off = with_status(front, FrontStatus::off).size();
  print_footnotes(results, front, options.x);
  print_sentence(
      "Of {} candidates {} {} a step, {} tied with one, {} worse than a step that costs no more, {} undecided.",
      steps + tied + off + open.size(), steps, steps == 1 ? "is" : "are", tied, off, open.size());
  print_worse(results, front, members);
  print_rates(results, front);
  print_diverged(results, front);
  std::erase_if(open, [](const FrontPoint* point) { return point->on_front; });
  if (open.empty()) return;
  fmt::print("\nUndecided, by the difference to the step that is hardest to tell from each:\n");
  Table undecided{{">" + options.x, ">difference", ">interval", ">detects", ">n", "", "setting"}, {}};
  for (const FrontPoint* point : open) {
    const sweeps::PairedDifference& d = point->difference;
    undecided.rows.push_back({cost_text(options.x, point->x), d.n == 0 ? "" : fmt::format("{:+.3g}", d.mean),
                              interval_text(d.interval), d.interval ? fmt::format("{:.2g}", point->detectable) : "",
                              std::to_string(d.n), point->rates_differ ? "rates differ" : "",
                              marked_setting(results, *point)});
  }
  print_table(undecided);
}

std::string relative_text(const ContextFront& front, const FrontPoint& point, const std::string& y) {
  if (point.y.n == 0 || !(front.scale.loss > 0)) return "";
  const double percent = 100 * shown_mean(point, y) / front.scale.loss;
  return percent != 0 && std::fabs(percent) < 1e-3 ? "~0 %" : fmt::format("{:.3g} %", percent);
}

std::string scale_text(const ContextFront& front) {
  if (!(front.scale.loss > 0)) return "";
  return fmt::format("`relative`: of fp32's loss{}, {:.4g}. ",
                     front.scale.above_irreducible ? " above its irreducible part" : "", front.scale.loss);
}

void print_tokens(const sweeps::Results& results, const ContextFront& front,
                  const std::vector<const FrontPoint*>& points) {
  const auto any = [&](auto column) {
    return std::any_of(points.begin(), points.end(),
                       [&](const FrontPoint* point) { return (point->*column).has_value(); });
  };
  if (!any(&FrontPoint::extra_fp32)) return;
  const bool mxfp8 = any(&FrontPoint::extra_mxfp8);
  Table table{{">over fp32", ">raw 95 %"}, {}};
  if (mxfp8) table.columns.insert(table.columns.end(), {">over mxfp8", ">raw 95 %"});
  if (front.target) table.columns.push_back(">tokens");
  table.columns.insert(table.columns.end(), {">x speed-up", "setting"});
  for (const FrontPoint* point : points) {
    std::vector<std::string> row = {extra_text(point->extra_fp32), interval_text(point->extra_fp32)};
    if (mxfp8) row.insert(row.end(), {extra_text(point->extra_mxfp8), interval_text(point->extra_mxfp8)});
    if (front.target)
      row.push_back(point->tokens_to_target ? fmt::format("{:.4g}", *point->tokens_to_target) : "not reached");
    row.push_back(point->quartet ? fmt::format("{:.3f}", *point->quartet) : "");
    row.push_back(setting_of(results, *point->config));
    table.rows.push_back(std::move(row));
  }
  fmt::print("\n");
  print_wrapped(
      front.target
          ? fmt::format("Extra tokens for a loss of {:.5g}, along curves of a constant learning rate:", *front.target)
          : "Extra tokens for the same loss, along the ladder of budgets (`train.steps`):");
  print_table(table);
}

}  // namespace fp4::tools
