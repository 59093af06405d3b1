#include "tools/cli/sweep/front_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>

#include "src/text/words.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

using sweeps::ContextFront;
using sweeps::FrontPoint;
using sweeps::FrontStatus;

char letter(const FrontPoint& point) {
  switch (point.status) {
    case FrontStatus::on: return '#';
    case FrontStatus::tied: return 't';
    case FrontStatus::undecided: return 'o';
    case FrontStatus::off: return 'x';
    case FrontStatus::screening: return 's';
    case FrontStatus::unjudged: return '.';
  }
  return '.';
}

// Judged points decide the frame: thousands of hopeless ones would squeeze the front into a corner.
struct Frame {
  double low = INFINITY;
  double high = -INFINITY;
  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    if (!(high > low)) high = low + std::max(1e-12, std::fabs(low) * 0.1);
  }
  double at(double value) const { return (value - low) / (high - low); }
};

}  // namespace

void add_front_options(CLI::App& app, sweeps::FrontOptions& options) {
  defaulted(app, "--x overhead|quantisation_overhead|step_time_s|energy|price|points", options.x,
            "Cost that the front is judged by");
  defaulted(app, "--y loss_gap|loss_hp_gap|loss|loss_hp", options.y, "Quality that the front is judged by");
}

std::string cost_text(const std::string& column, double value) {
  const bool is_share = column.find("overhead") != std::string::npos;
  return is_share ? fmt::format("{:.2f}%", 100 * value) : fmt::format("{:.4g}", value);
}

std::string spread_text(const ContextFront& front) {
  std::string text;
  if (front.noise_floor) text += fmt::format("Noise floor (SD of bf16 - fp32): {:.3g}. ", front.noise_floor->sd);
  if (std::isnan(front.paired_sd)) return text;
  return text + fmt::format("SD of the differences compared: {:.3g}; detectable at 80 % power: {:.3g}.",
                            front.paired_sd, front.detectable);
}

std::string marked_setting(const sweeps::Results& results, const FrontPoint& point) {
  return setting_of(results, *point.config) + (point.cost.decoded.empty() ? "" : " *");
}

std::string decoded_text(const sweeps::Results& results, const ContextFront& front) {
  constexpr size_t most_names = 4;
  std::set<std::string> formats, settings;
  for (const FrontPoint& point : front.points) {
    if (point.cost.decoded.empty()) continue;
    formats.insert(point.cost.decoded);
    settings.insert(setting_of(results, *point.config));
  }
  if (formats.empty()) return "";
  const auto end = std::next(settings.begin(), static_cast<std::ptrdiff_t>(std::min(settings.size(), most_names)));
  return fmt::format("the chip does not multiply {}: priced as bf16 products of decoded operands ({}{})",
                     fmt::join(formats, "; "), fmt::join(settings.begin(), end, ", "),
                     end == settings.end() ? "" : fmt::format(" and {} more", settings.size() - most_names));
}

void print_footnotes(const sweeps::Results& results, const ContextFront& front, const std::string& x) {
  if (const std::string text = decoded_text(results, front); !text.empty()) print_wrapped("* " + printable(text));
  if (x != "overhead") return;
  std::string text;
  for (const FrontPoint& point : front.points)
    if (point.on_front && point.overhead_range)
      add_word(text, fmt::format("{} ({:.0f} .. {:.0f})", cost_text(x, point.x),
                                 std::floor(100 * point.overhead_range->first),
                                 std::ceil(100 * point.overhead_range->second)));
  if (!text.empty()) print_wrapped("Overheads are modelled. 95 % intervals: " + text + ".");
}

std::string front_picture(const ContextFront& front, const std::string& x, const std::string& y, size_t width) {
  constexpr size_t rows = 16;
  const size_t columns = width - 12;
  Frame across, up;
  bool any_diverged = false;
  for (const FrontPoint& point : front.points) {
    any_diverged |= point.diverged > 0;
    if (point.y.n == 0 || point.diverged > 0) continue;
    // fp32 stands at ten times the cost of bf16: it goes to the right edge instead of squeezing all others together.
    const bool far = !point.config->in_plan && point.config->record.recipe == "fp32";
    if (far || (point.status == FrontStatus::unjudged && front.points.size() >= 40)) continue;
    across.hold(point.x);
    up.hold(point.y.mean);
  }
  if (across.low > across.high)
    return any_diverged ? "(no point to draw: every setting has diverged runs)\n" : "(no finished runs yet)\n";
  across.widen();
  up.widen();
  std::vector<std::string> canvas(rows, std::string(columns, ' '));
  const auto rank = [](char c) { return std::string(" .sxot#").find(c); };
  for (const FrontPoint& point : front.points) {
    if (point.y.n == 0 || point.diverged > 0) continue;
    if (point.status == FrontStatus::unjudged && point.x > across.high) continue;
    const double height = std::clamp(up.at(point.y.mean), 0.0, 1.0);
    const auto column =
        static_cast<size_t>(std::lround(std::min(across.at(point.x), 1.0) * static_cast<double>(columns - 1)));
    const auto row = rows - 1 - static_cast<size_t>(std::lround(height * static_cast<double>(rows - 1)));
    char& cell = canvas[row][column];
    if (rank(letter(point)) > rank(cell)) cell = letter(point);
  }
  std::string text = y + "\n";
  for (size_t r = 0; r < rows; ++r) {
    const std::string label = r == 0          ? fmt::format("{:.3g}", up.high)
                              : r + 1 == rows ? fmt::format("{:.3g}", up.low)
                                              : "";
    std::string line = canvas[r];
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>10} |{}\n", label, line);
  }
  text += fmt::format("{:>10} +{}\n", "", std::string(columns, '-'));
  const std::string low = cost_text(x, across.low);
  const std::string high = cost_text(x, across.high);
  const size_t gap = columns > low.size() + high.size() + x.size() ? columns - low.size() - high.size() - x.size() : 2;
  text +=
      fmt::format("{:>12}{}{}{}{}{}\n", "", low, std::string(gap / 2, ' '), x, std::string(gap - gap / 2, ' '), high);
  return text;
}

// What of the grid would make a front, to be copied. Without mxfp4 there is no delta but one that is given: 2
// % of the largest gap here, to a digit.
std::string race_field(const sweeps::Grid& grid, const ContextFront& front) {
  if (grid.race && !grid.may_race()) return R"(delete "judged" and "finer" from the grid's `tune`)";
  if (front.delta > 0) return R"(add "race": {"seeds": 320} to the grid)";
  double worst = 0;
  for (const FrontPoint& point : front.points)
    if (point.y.n > 0 && point.config->in_plan && point.diverged == 0) worst = std::max(worst, std::fabs(point.y.mean));
  return fmt::format(R"(add "race": {{"seeds": 320, "delta": {:.1g}}} to the grid)", worst > 0 ? 0.02 * worst : 0.01);
}

void print_front(const sweeps::Results& results, const ContextFront& front, const sweeps::FrontOptions& options,
                 size_t limit) {
  fmt::print("\n== {} ==\n", printable(front.description));
  if (front.raced) {
    fmt::print("{}", front_picture(front, options.x, options.y, terminal_width()));
    fmt::print("{:>12}# step   t tied with one   o undecided   x worse   . not raced\n\n", "");
    return print_race(results, front, options, limit == 0 ? 0 : 5);
  }
  print_sentence("Screening on {} seeds: no front yet, the best of many are lucky. Give the grid a `race` for one.",
                 front.seeds);
  print_wrapped(scale_text(front) + spread_text(front));
  if (front.left_out > 0) fmt::print("{} more candidates lie beyond the grid's limit.\n", front.left_out);
  fmt::print("\n{}", front_picture(front, options.x, options.y, terminal_width()));
  fmt::print("{:>12}s near the front   . not near it\n\n", "");
  Table table{
      {"", "status", ">" + options.x, ">" + options.y, ">relative", ">raw 95 %", ">n", ">x bf16", "setting", "config"},
      {}};
  std::vector<const FrontPoint*> shown;
  for (const FrontPoint& point : front.points) {
    if (point.on_front || point.candidate) shown.push_back(&point);
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const FrontPoint* a, const FrontPoint* b) { return a->on_front > b->on_front; });
  size_t hidden = 0;
  for (const FrontPoint* point : shown) {
    if (limit > 0 && table.rows.size() >= limit) {
      ++hidden;
      continue;
    }
    const auto& interval = point->y.interval;
    table.rows.push_back({point->on_front ? ">" : "", std::string(word(point->status)), cost_text(options.x, point->x),
                          point->y.n == 0 ? "" : fmt::format("{:.5g}", point->y.mean),
                          relative_text(front, *point, options.y),
                          interval ? fmt::format("+-{:.2g}", interval->high - point->y.mean) : "",
                          std::to_string(point->y.n), fmt::format("{:.2f}", 1 / point->cost.speedup_bf16),
                          marked_setting(results, *point), point->config->record.hash.substr(0, 8)});
  }
  print_table(table);
  fmt::print("> undominated by means; x bf16: time of a step as a multiple{}\n",
             hidden > 0 ? fmt::format("; {} more candidates (--limit 0 shows all)", hidden) : "");
  print_footnotes(results, front, options.x);
  for (const FrontPoint* point : shown) {
    if (!point->on_front || point->sensitivity.empty()) continue;
    std::string text;
    for (const auto& [weight, range] : point->sensitivity)
      if (range.low > 0.25 || range.high < 4)
        add_word(text, fmt::format("{} x{:.2f}..{:.2f}", weight, range.low, range.high));
    if (!text.empty()) print_sentence("{} stays on the front for: {}", point->config->record.hash.substr(0, 8), text);
  }
  print_wrapped("A front: " + race_field(results.grid(), front) + " and run it again; its runs stay.");
  if (limit > 0 && shown.size() > limit) shown.resize(limit);
  print_tokens(results, front, shown);
}

}  // namespace fp4::tools
