#include "tools/cli/train/train_result.h"

#include <array>
#include <cmath>

#include "src/text/member_json.h"
#include "tasks/run.h"
#include "tools/cli/provenance.h"

namespace fp4::tools {

nlohmann::ordered_json train_result(const sim::Json& config, uint64_t seed, const sim::History& h,
                                    const Invocation& i) {
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  const auto number = [](const std::optional<double>& v) {
    return v && std::isfinite(*v) ? nlohmann::ordered_json(*v) : nlohmann::ordered_json(nullptr);
  };
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

}  // namespace fp4::tools
