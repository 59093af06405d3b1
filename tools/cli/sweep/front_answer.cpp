// See front_answer.h.
#include "tools/cli/sweep/front_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

namespace {

using sweeps::ContextFront;
using sweeps::FrontPoint;
using sweeps::FrontStatus;

std::string short_percent(double share) {
  const double value = 100 * share;
  if (std::fabs(value) < 0.05) return "0 %";
  return std::fabs(value) < 10 ? fmt::format("{:.2g} %", value) : fmt::format("{:.3g} %", value);
}

// "2 % overhead"; `named` = false leaves the column's name out.
std::string price_text(const std::string& column, double value, bool named) {
  if (column == "overhead") return short_percent(value) + (named ? " overhead" : "");
  if (column == "quantisation_overhead") return short_percent(value) + (named ? " quantisation overhead" : "");
  if (column == "step_time_s") return fmt::format("{:.3g} ms{}", 1e3 * value, named ? " a step" : "");
  if (column == "energy_j") return fmt::format("{:.3g} J{}", value, named ? " a step" : "");
  if (column == "price") return fmt::format("{:.3g} USD{}", value, named ? " a step" : "");
  return fmt::format("{:.3g} {}", value, column);
}

std::string loss_text(double loss) { return fmt::format("{:.2g}", loss); }

bool loses_nothing(const ContextFront& front, const FrontPoint& point, const std::string& y) {
  return front.raced && y.ends_with("gap") && point.raced_gap.interval && point.raced_gap.interval->high < front.delta;
}

// "at 2 % overhead nvfp4 loses 0.026".
std::string step_text(const sweeps::Results& results, const ContextFront& front, const sweeps::FrontOptions& options,
                      const FrontPoint& point, bool named, const char* at = "at") {
  const std::string name = setting_of(results, *point.config);
  const std::string start = fmt::format("{} {} {}", at, price_text(options.x, point.x, named), name);
  const std::string open = front.raced && point.status == FrontStatus::undecided ? " (undecided)" : "";
  if (loses_nothing(front, point, options.y)) return start + " loses nothing that matters" + open;
  const double y = shown_mean(point, options.y);
  if (!options.y.ends_with("gap")) return start + " ends at a loss of " + fmt::format("{:.3g}", y) + open;
  return start + (y < 0 ? " gains " : " loses ") + loss_text(std::fabs(y)) + open;
}

std::string without_points(const ContextFront& front) {
  const auto diverged = std::count_if(front.points.begin(), front.points.end(),
                                      [](const FrontPoint& point) { return point.diverged > 0; });
  if (diverged == 0) return "No run has finished yet, so there is no front.";
  return fmt::format("There is no front: {} of {} settings diverged, and no setting finished all its runs.", diverged,
                     front.points.size());
}

}  // namespace

std::string front_answer(const sweeps::Results& results, const ContextFront& front,
                         const sweeps::FrontOptions& options) {
  std::vector<const FrontPoint*> steps;
  for (const FrontPoint& point : front.points)
    if (point.on_front && point.y.n > 0 && point.diverged < point.runs) steps.push_back(&point);
  if (steps.empty()) return without_points(front);
  std::string text;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps.size() > 4 && k >= 2 && k + 2 < steps.size()) {
      if (k == 2) text += fmt::format(", {} more steps", steps.size() - 4);
      continue;
    }
    // Dearer steps after the first without a loss lose nothing either, and say so by being named.
    const bool free = loses_nothing(front, *steps[k], options.y);
    text += k == 0 ? "" : free ? "; " : ", ";
    text += step_text(results, front, options, *steps[k], k == 0, free && k > 0 ? "from" : "at");
  }
  if (!front.raced) return fmt::format("By the means of {} seeds, not confirmed on fresh ones: {}.", front.seeds, text);
  text.front() = 'A';  // every step begins with "at"
  return text + ".";
}

std::vector<std::string> front_answers(const sweeps::Results& results, const std::vector<ContextFront>& fronts,
                                       const sweeps::FrontOptions& options) {
  std::vector<std::string> answers;
  for (const ContextFront& front : fronts)
    answers.push_back((fronts.size() > 1 ? front.description + ": " : "") + front_answer(results, front, options));
  return answers;
}

}  // namespace fp4::tools
