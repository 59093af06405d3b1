#include "tools/cli/train/train_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/text/member_json.h"
#include "tasks/run.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

nlohmann::ordered_json train_result(const sim::Json& config, uint64_t seed, const sim::History& h,
                                    const Invocation& i) {
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const sim::CurvePoint& p : h.curve)
    curve.push_back(
        {{"step", p.step}, {"train_loss", number(p.train_loss)}, {"validation_loss", number(p.validation_loss)}});
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object(), products;
  for (const auto& [name, value] : h.metrics) metrics[name] = number(value);
  for (size_t g = 0; g < 3; ++g) products[std::array{"fprop", "dgrad", "wgrad"}[g]] = h.products[g];
  nlohmann::ordered_json result =
      joined_json({{{"task", config.at("task").at("name")},
                    {"recipe", config.at("recipe").at("name")},
                    {"seed", seed},
                    {"steps", config.at("train").at("steps")},
                    {"status", std::string(sim::word(h.status))},
                    {"message", h.message},
                    {"metrics", metrics},
                    {"curve", curve},
                    {"products", products}},
                   FP4_NAMED(h.digest, h.seconds, h.steps_per_second, h.step_cpu_seconds, h.evaluation_cpu_seconds),
                   {{"config", config}, {"config_hash", tasks::config_hash(config)}, {"provenance", provenance(i)}}});
  if (h.parent)
    result["parent"] = {{"checkpoint", h.parent->checkpoint}, {"step", h.parent->step}, {"recipe", h.parent->recipe}};
  if (!h.placement.empty()) result["device"] = h.placement;
  return result;
}

std::string draw_curve(const std::vector<sim::CurvePoint>& curve, std::size_t width) {
  constexpr int height = 12, margin = 12;
  const int columns = static_cast<int>(width) - margin;
  double low = INFINITY, high = -INFINITY;
  for (const sim::CurvePoint& p : curve)
    for (const auto& loss : {p.train_loss, p.validation_loss})
      if (loss && std::isfinite(*loss)) low = std::min(low, *loss), high = std::max(high, *loss);
  if (!(low <= high) || columns < 10) return "";
  if (high - low < 1e-12) high = low + 1e-12;
  std::vector<std::string> rows(height, std::string(static_cast<size_t>(columns), ' '));
  const int last = curve.back().step;
  const auto mark = [&](int step, double loss, char c) {
    if (!std::isfinite(loss)) return;
    const int x = std::min(columns - 1, static_cast<int>(static_cast<double>(step) / last * (columns - 1) + 0.5));
    const int y = static_cast<int>((high - loss) / (high - low) * (height - 1) + 0.5);
    rows[static_cast<size_t>(y)][static_cast<size_t>(x)] = c;
  };
  // Straight lines between training points, then the points themselves.
  for (size_t i = 1; i < curve.size(); ++i) {
    if (!curve[i - 1].train_loss || !curve[i].train_loss) continue;
    for (int s = curve[i - 1].step; s <= curve[i].step; ++s) {
      const double share = static_cast<double>(s - curve[i - 1].step) / (curve[i].step - curve[i - 1].step);
      mark(s, *curve[i - 1].train_loss + share * (*curve[i].train_loss - *curve[i - 1].train_loss), '.');
    }
  }
  for (const sim::CurvePoint& p : curve)
    if (p.validation_loss) mark(p.step, *p.validation_loss, 'o');
  std::string text;
  for (int y = 0; y < height; ++y) {
    const double value = high - (high - low) * y / (height - 1);
    const std::string label = y % 3 == 0 || y == height - 1 ? fmt::format("{:>10.4g}", value) : std::string(10, ' ');
    std::string row = rows[static_cast<size_t>(y)];
    row.erase(row.find_last_not_of(' ') + 1);
    text += label + " |" + row + '\n';
  }
  text += std::string(11, ' ') + '+' + std::string(static_cast<size_t>(columns), '-') + '\n';
  const std::string end = fmt::format("step {}", last);
  const std::string legend = ". training loss   o validation loss";
  const int gap = std::max(2, columns - static_cast<int>(legend.size() + end.size()));
  return text + std::string(12, ' ') + legend + std::string(static_cast<size_t>(gap), ' ') + end + '\n';
}

}  // namespace fp4::tools
