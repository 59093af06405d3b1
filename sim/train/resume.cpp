#include "sim/train/resume.h"

#include <algorithm>
#include <tuple>

#include "sim/rules/recipe.h"
#include "sim/train/loss_curve.h"
#include "src/files/sha256.h"
#include "src/text/error.h"

namespace fp4::sim {

void check_program(const Checkpoint& c, const RunOptions& options, const std::string& path) {
  for (const auto& [what, there, here] : {std::tuple("signature", c.signature, options.signature),
                                          std::tuple("train signature", c.train_signature, options.train_signature)})
    if (there != here)
      throw Error(path + ": the checkpoint was made under " + what + " " + there + ", this program has " + here,
                  Error::failed);
}

std::optional<Parent> check_origin(const Checkpoint& c, const Continuation& run, bool is_branch,
                                   const std::string& path) {
  if (c.seed != run.seed)
    throw Error(path + ": the checkpoint belongs to seed " + std::to_string(c.seed) + ", not " +
                std::to_string(run.seed));
  if (is_branch) {
    if (c.config.at("task") != run.config.at("task"))
      throw Error(path + ": the checkpoint belongs to another task or to other data; a branch keeps both");
    if (c.step >= run.steps)
      throw Error(path + ": the checkpoint was made after step " + std::to_string(c.step) +
                  "; a branch needs more steps than that, found " + std::to_string(run.steps));
    const Json name = c.config.at("recipe").value("name", Json(""));
    return Parent{sha256_file(path).substr(0, 16), JsonReader(name, path).text(), c.step};
  }
  // With every field: an older version's recipe lacks those of later ones, a sweep's its name.
  const auto completed = [&](Json config) {
    if (config.contains("recipe")) config["recipe"] = to_json(recipe_from_json(config["recipe"], path));
    return config;
  };
  const Json there = completed(c.config), here = completed(run.config);
  if (there != here) {
    const Json change = Json::diff(there, here).at(0);
    throw Error(path + ": the checkpoint belongs to another configuration: " +
                change.at("path").get<std::string>().substr(1) + " is different");
  }
  return std::nullopt;
}

void check_parts(const Checkpoint& c, const Continuation& run, bool is_branch, const std::string& path) {
  const auto total = static_cast<size_t>(run.weights);
  const bool has_same_curve = is_branch || c.next_point == run.next_point;
  if (c.weights.size() != total || c.step < 0 || c.step > run.steps || !has_same_curve)
    throw Error(path + ": its weights or its step are not those of the configuration", Error::failed);
  if ((!c.teacher.empty() && c.teacher.size() != total) || !(c.distil >= 0 && c.distil <= 1) ||
      (!is_branch && c.turned > std::max(run.phases - 1, 0)) || c.recent.size() > LossCurve::window ||
      c.curve_count > c.step ||
      std::any_of(c.curve.begin(), c.curve.end(), [&](const CurvePoint& p) { return p.step > c.step; }))
    throw Error(path + ": its teacher, phase or losses are not those of the configuration", Error::failed);
}

}  // namespace fp4::sim
