#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <tuple>

#include "src/text/words.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

namespace {

using sweeps::ContextFront;
using sweeps::FrontPoint;
using sweeps::FrontStatus;

std::string short_percent(double share) {
  const double value = 100 * share;
  if (std::fabs(value) < 0.05) return "0 %";
  if (std::fabs(value) >= 1000) return grouped(std::llround(value)) + " %";
  return std::fabs(value) < 10 ? fmt::format("{:.2g} %", value) : fmt::format("{:.3g} %", value);
}

// "2 % overhead"; `named` = false leaves the column's name out.
std::string price_text(const std::string& column, double value, bool named) {
  if (column == "overhead") return short_percent(value) + (named ? " overhead" : "");
  if (column == "quantisation_overhead") return short_percent(value) + (named ? " quantisation overhead" : "");
  if (column == "step_time_s") return format_seconds(value) + (named ? " a step" : "");
  if (column == "energy_j") return fmt::format("{:.4g} J{}", value, named ? " a step" : "");
  if (column == "price") return fmt::format("{:.3g} USD{}", value, named ? " a step" : "");
  return fmt::format("{:.3g} {}", value, column);
}

// A setting in short: its values alone where one or two axes of words tell all points apart, "stochastic, ue5m3".
std::string short_setting(const sweeps::Results& results, const sweeps::ConfigResult& config) {
  const std::vector<std::string>& axes = results.axes();
  const auto is_word = [](const std::string& label) {
    return !label.empty() && std::isalpha(static_cast<unsigned char>(label.front())) != 0 && label != "none" &&
           label != "true" && label != "false" && label != "null";
  };
  if (!config.in_plan || axes.size() > 2 || !std::all_of(config.labels.begin(), config.labels.end(), is_word))
    return setting_of(results, config);
  return fmt::format("{}", fmt::join(config.labels, ", "));
}

std::string loss_text(double loss) { return fmt::format("{:.2g}", loss); }

// Whether a mean loss is told apart from 0: by its interval; where two seeds have not made one, bf16's noise counts.
bool is_noise(const ContextFront& front, double mean, const std::optional<sweeps::Interval>& interval) {
  if (interval) return interval->low <= 0 && interval->high >= 0;
  return front.noise_floor && std::fabs(mean) <= front.noise_floor->sd;
}

bool loses_nothing(const ContextFront& front, const FrontPoint& point, const std::string& y) {
  return front.raced && y.ends_with("gap") && point.raced_gap.interval && point.raced_gap.interval->high < front.delta;
}

// "at 2 % overhead (-9 .. 15 %) nvfp4 loses 0.026".
std::string step_text(const sweeps::Results& results, const ContextFront& front, const sweeps::FrontOptions& options,
                      const FrontPoint& point, bool named, const char* at = "at") {
  const std::string name = short_setting(results, *point.config);
  const auto& doubt = point.overhead_range;
  const std::string range =
      doubt && options.x == "overhead"
          ? fmt::format(" ({:.0f} .. {:.0f} %)", std::floor(100 * doubt->first), std::ceil(100 * doubt->second))
          : "";
  const std::string start = fmt::format("{} {}{} {}", at, price_text(options.x, point.x, named), range, name);
  const std::string open = front.raced && point.status == FrontStatus::undecided ? " (undecided)" : "";
  if (loses_nothing(front, point, options.y)) return start + " loses nothing that matters" + open;
  const double y = shown_mean(point, options.y);
  if (!options.y.ends_with("gap")) return start + " ends at a loss of " + fmt::format("{:.3g}", y) + open;
  if (is_noise(front, y, point.raced_gap.interval ? point.raced_gap.interval : point.y.interval))
    return start + " loses nothing that can be seen" + open;
  return start + (y < 0 ? " gains " : " loses ") + loss_text(std::fabs(y)) + open;
}

std::string_view race_word(FrontStatus status) {
  return status == FrontStatus::off ? ", worse" : status == FrontStatus::undecided ? ", undecided" : "";
}

// The one value in which two settings differ; "" where none or several do.
std::string one_difference(const sweeps::ConfigResult& config, const sweeps::ConfigResult& other) {
  std::string value;
  for (size_t i = 0; i < config.labels.size(); ++i) {
    if (config.labels[i] == other.labels[i]) continue;
    if (!value.empty()) return "";
    value = config.labels[i];
  }
  return value;
}

// Who loses, where few do: values that differ from the best step of no higher cost in one axis, each by its difference,
// the least first.
std::string losers_text(const ContextFront& front, const sweeps::FrontOptions& options,
                        const std::vector<const FrontPoint*>& steps) {
  constexpr size_t most = 5;
  std::vector<std::tuple<double, std::string, FrontStatus>> losers;
  for (const FrontPoint& point : front.points) {
    if (point.on_front || !point.config->in_plan || point.y.n == 0 || point.diverged > 0) continue;
    const FrontPoint* step = nullptr;
    for (const FrontPoint* candidate : steps)
      if (candidate->config->in_plan && candidate->x <= point.x) step = candidate;
    if (step == nullptr || point.status == FrontStatus::tied) continue;
    const std::string value = one_difference(*point.config, *step->config);
    const bool paired = front.raced && point.difference.n > 0;
    const double more = paired ? point.difference.mean : point.y.mean - step->y.mean;
    const bool is_told = paired ? !is_noise(front, more, point.difference.interval) : more > front.detectable;
    if (!value.empty() && more > 0 && is_told) losers.emplace_back(more, value, point.status);
  }
  if (losers.empty() || losers.size() > most || !options.y.ends_with("gap")) return "";
  std::sort(losers.begin(), losers.end(),
            [](const auto& a, const auto& b) { return std::get<double>(a) < std::get<double>(b); });
  std::string text;
  for (const auto& [more, value, status] : losers)
    add_word(text, fmt::format("{} (+{}{})", value, loss_text(more), front.raced ? race_word(status) : ""));
  return " More is lost by " + text + ".";
}

// Who might be a step, or tied or worse: named, so that nobody is passed over in silence.
std::string undecided_text(const sweeps::Results& results, const ContextFront& front) {
  constexpr size_t most = 4;
  std::vector<std::string> names;
  for (const FrontPoint& point : front.points)
    if (point.status == FrontStatus::undecided && !point.on_front)
      names.push_back(short_setting(results, *point.config));
  if (names.empty()) return "";
  const size_t more = names.size() > most ? names.size() - most : 0;
  names.resize(names.size() - more);
  return fmt::format(" Undecided: {}{}.", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string without_points(const ContextFront& front) {
  const auto diverged = std::count_if(front.points.begin(), front.points.end(),
                                      [](const FrontPoint& point) { return point.diverged > 0; });
  if (diverged == 0) return "No run has finished yet, so there is no front.";
  return fmt::format("There is no front: {} of {} settings diverged, and no setting finished all its runs.", diverged,
                     front.points.size());
}

}  // namespace

std::string front_answer(const sweeps::Results& results, const ContextFront& front, const sweeps::FrontOptions& options,
                         const std::string& priced) {
  std::vector<const FrontPoint*> steps;
  for (const FrontPoint& point : front.points)
    if (point.on_front && point.y.n > 0 && point.diverged < point.runs) steps.push_back(&point);
  if (steps.empty()) return without_points(front) + undecided_text(results, front);
  // fp32 loses nothing by definition and costs more than anyone pays.
  const auto is_fp32 = [](const FrontPoint* step) {
    return !step->config->in_plan && step->config->record.recipe == "fp32";
  };
  if (steps.size() > 1) std::erase_if(steps, is_fp32);
  std::string text;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps.size() > 5 && k >= 2 && k + 2 < steps.size()) {
      if (k == 2) text += fmt::format(", {} more steps", steps.size() - 4);
      continue;
    }
    // Dearer steps after the first without a loss lose nothing either, and say so by being named.
    const bool free = loses_nothing(front, *steps[k], options.y);
    text += k == 0 ? "" : free ? "; " : ", ";
    text += step_text(results, front, options, *steps[k], k == 0, free && k > 0 ? "from" : "at");
  }
  if (!front.raced)
    return fmt::format(
        "Loss of a small {}, step of {} as modelled; by the means of {} seeds, not confirmed on fresh ones: {}.{}",
        front.task, priced, front.seeds, text, losers_text(front, options, steps));
  return fmt::format("Loss of a small {}, step of {} as modelled: {}.", front.task, priced, text) +
         losers_text(front, options, steps) + undecided_text(results, front);
}

std::vector<std::string> front_answers(const sweeps::Results& results, const std::vector<ContextFront>& fronts,
                                       const sweeps::FrontOptions& options, const std::string& priced) {
  std::vector<std::string> answers;
  for (const ContextFront& front : fronts)
    answers.push_back((fronts.size() > 1 ? front.description + ": " : "") +
                      front_answer(results, front, options, priced));
  return answers;
}

}  // namespace fp4::tools
