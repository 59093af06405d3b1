// A made-up trainer with a known truth, for tests of the sweep engine: two tasks, a recipe of a few fields with dead
// ones, losses by formula plus noise drawn from (configuration, seed), costs by formula. No number is trained.
#pragma once

#include <cmath>
#include <map>
#include <string>

#include "src/files/sha256.h"
#include "src/text/error.h"
#include "sweeps/judge/results.h"
#include "sweeps/training.h"

namespace fp4::test {

using sweeps::Json;

// A standard normal number that depends on the text alone.
inline double normal_of(const std::string& text) {
  const std::string digest = sha256_hex(text);
  const auto uniform = [&](size_t at) {
    return (static_cast<double>(std::stoull(digest.substr(at, 13), nullptr, 16)) + 0.5) / 4503599627370496.0;
  };
  return std::sqrt(-2 * std::log(uniform(0))) * std::cos(6.283185307179586 * uniform(16));
}

struct MadeUp {
  double noise = 0.01;      // SD of a run's own noise
  double seed_noise = 0.1;  // SD of what all runs of a seed share: pairing must remove it
  std::function<double(const Json& canonical)> truth = default_truth;
  std::function<void(const Json& canonical, uint64_t seed)> before_run = {};

  static double default_truth(const Json& config) {
    const Json& recipe = config["recipe"];
    if (recipe["wgrad"]["a"]["element"] == "fp32" || recipe["wgrad"]["a"]["element"] == "bf16") return 0;
    double gap = 0.1;
    if (recipe["wgrad"]["hadamard"]["size"] != 0) gap -= 0.04;
    if (recipe["wgrad"]["a"].value("rounding", "") == "stochastic") gap -= 0.02;
    return gap;
  }

  static Json named(const std::string& name) {
    std::string base = name.substr(0, name.find('@'));
    const std::map<std::string, std::string> elements = {
        {"fp32", "fp32"}, {"bf16", "bf16"}, {"mxfp8", "e4m3"}, {"mxfp4", "e2m1"}};
    if (!elements.contains(base)) throw unknown_word("recipe", base, {"fp32", "bf16", "mxfp8", "mxfp4"});
    Json recipe;
    for (const char* gemm : {"fprop", "dgrad", "wgrad"}) {
      const bool on = base == name || name == base + "@" + gemm;
      for (const char* operand : {"a", "b"}) recipe[gemm][operand] = {{"element", on ? elements.at(base) : "bf16"}};
    }
    return recipe;
  }

  static Json canonical(const Json& given) {
    Json out;
    const std::string task = given["task"]["name"];
    out["task"] = {{"name", task}, {"width", given["task"].value("width", 4)}};
    if (task == "alpha")
      out["task"]["outliers"] = {{"token", given["task"].value("/outliers/token"_json_pointer, 0.0)}};
    out["train"] = {{"steps", given["train"].value("steps", 100)},
                    {"batch", given["train"].value("batch", 8)},
                    {"schedule", given["train"].value("schedule", "cosine")}};
    if (given["train"].contains("lr")) out["train"]["lr"] = given["train"]["lr"];
    for (const char* section : {"branch", "eval"})
      if (given.contains(section)) out[section] = given[section];
    const Json recipe = given["recipe"].is_string() ? named(given["recipe"]) : given["recipe"];
    for (const auto& [gemm, spec] : recipe.items()) {
      if (gemm != "fprop" && gemm != "dgrad" && gemm != "wgrad")
        throw unknown_word("recipe", gemm, {"fprop", "dgrad", "wgrad"});
      for (const char* operand : {"a", "b"}) {
        const Json& in = spec[operand];
        Json& field = out["recipe"][gemm][operand];
        field["element"] = in.value("element", "fp32");
        if (field["element"] == "nonsense") throw unknown_word("element", "nonsense", {"e2m1"});
        if (field["element"] == "fp32" || field["element"] == "bf16") continue;
        field["rounding"] = in.value("rounding", "nearest_even");
        if (field["rounding"] == "stochastic") field["random_bits"] = in.value("random_bits", 16);
      }
      const int size = spec.value("/hadamard/size"_json_pointer, 0);
      out["recipe"][gemm]["hadamard"]["size"] = size;
      if (size > 0) out["recipe"][gemm]["hadamard"]["signs"] = spec.value("/hadamard/signs"_json_pointer, "none");
    }
    return out;
  }

  sweeps::Simulator simulator() const {
    const MadeUp self = *this;
    return {
        .canonical = canonical,
        .hash = [](const Json& config) { return sha256_hex(config.dump()).substr(0, 16); },
        .invalid_reason = [](const Json& config) -> std::string {
          return config["recipe"]["wgrad"]["hadamard"]["size"] == 256 ? "Hadamard wider than the tensor" : "";
        },
        .static_cost =
            [](const Json& config) {
              return config["train"]["steps"].get<double>() * (config["task"]["name"] == "alpha" ? 10 : 1);
            },
        .run =
            [self](const Json& config, uint64_t seed, const std::function<bool()>&) {
              if (self.before_run) self.before_run(config, seed);
              const std::string hash = sha256_hex(config.dump()).substr(0, 16);
              const std::string world = config["task"].dump() + config["train"].dump() + std::to_string(seed);
              const bool exact = config["recipe"]["wgrad"]["a"]["element"] == "fp32";
              const double own = exact ? 0 : self.noise * normal_of(hash + " " + std::to_string(seed));
              sweeps::RunRecord record;
              record.loss = 1 + self.seed_noise * normal_of(world) + self.truth(config) + own;
              record.loss_hp = *record.loss - 0.001;
              record.digest = sha256_hex(std::to_string(*record.loss)).substr(0, 16);
              record.seconds = 0.001 * normal_of(hash) * normal_of(hash);
              record.backend = "made_up";
              double quantised = 0;
              for (const auto& [gemm, spec] : config["recipe"].items()) quantised += spec["a"]["element"] == "e2m1";
              record.metrics.emplace_back(sweeps::quantised_products, quantised);
              for (int i = 0; i <= 10; ++i) {
                record.curve.step.push_back(i * 10);
                record.curve.train_loss.push_back(*record.loss + 1.0 / (1 + i));
                record.curve.validation_loss.push_back(i % 2 == 0 ? *record.loss + 1.0 / (1 + i) : std::nan(""));
              }
              if (std::isinf(self.truth(config))) {
                record.status = sweeps::Status::diverged;
                record.loss = record.loss_hp = std::nullopt;
              }
              return record;
            },
        .recipe = named,
        .task_has =
            [](const std::string& task, const std::string& path) {
              if (task != "alpha" && task != "beta") throw unknown_word("task", task, {"alpha", "beta"});
              return path.empty() || path == "width" || (task == "alpha" && path == "outliers.token");
            },
        .signature = "0123456789abcdef",
        .train_signature = [](const std::string&) { return std::string("fedcba9876543210"); },
    };
  }
};

// Costs in arbitrary units: fp32 2, bf16 1, FP4 0 plus 0.1 for a Hadamard and 0.05 for stochastic rounding.
inline sweeps::CostModel made_up_costs() {
  return {.evaluate =
              [](const Json& recipe, int, const sweeps::CostWeights& weights) {
                const auto weight = [&](const char* name) { return weights.contains(name) ? weights.at(name) : 1.0; };
                const std::string element = recipe["wgrad"]["a"]["element"];
                sweeps::Cost cost;
                cost.overhead = element == "fp32" ? 2 : element == "bf16" ? 1 : 0;
                if (recipe["wgrad"]["hadamard"]["size"] != 0) cost.overhead += 0.1 * weight("hadamard");
                if (recipe["wgrad"]["a"].value("rounding", "") == "stochastic") cost.overhead += 0.05 * weight("sr");
                cost.step_time_s = 1 + cost.overhead;
                cost.speedup_bf16 = 2 / cost.step_time_s;
                return cost;
              },
          .hardware = "made_up",
          .model = "toy"};
}

}  // namespace fp4::test
