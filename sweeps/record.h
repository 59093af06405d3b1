// The rows of a sweep, as they travel between grid, engine, store and tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/train/status.h"

namespace fp4::sweeps {

// Why a run exists. A configuration that the grid asks for outranks the same configuration as a reference.
// `tune` runs choose a learning rate and are in no table of results.
enum class Role : uint8_t { run, confirm, reference, tune };
using sim::Status;

std::string_view word(Role role);
Role parse_role(std::string_view text);
Status parse_status(std::string_view text);

// Whose value a configuration has in the grid's tuned fields: the grid's, its own best, the best of a ladder that ends
// there, or that of a rung near its best at which it is judged as well.
enum class At : uint8_t { fixed, best, edge, near };
std::string_view word(At at);  // "fixed", "best", "at edge", "near best"
At parse_at(std::string_view text);

// A distinct configuration: canonical JSON (dead fields erased, names and paths gone) and its 16-hex hash.
struct ConfigRecord {
  std::string hash;
  std::string task;
  std::string reference;   // hash of the fp32 configuration with the same task, task parameters and training
  std::string recipe;      // name of the base it came from, for people; not part of the hash
  std::string config;      // canonical JSON text
  double static_cost = 0;  // multiply-adds x steps: the order of execution
  double probability = 1;  // of having entered an importance sample
  At at = At::fixed;
};

// A point of the grid's product. Several points share a hash where fields are dead.
struct PointRecord {
  std::string hash;
  std::vector<std::string> labels;  // one per axis, the word of the value
};

struct Curve {
  std::vector<double> step;
  std::vector<double> train_loss;       // NaN where not measured
  std::vector<double> validation_loss;  // NaN where not measured
};

// The name of a run's metric: products with a quantised operand, per training step.
inline constexpr const char* quantised_products = "quantised_products";

struct RunRecord {
  std::string hash;
  uint64_t seed = 0;
  std::string task;
  Role role = Role::run;
  Status status = Status::finished;
  std::string message;         // of a failed run
  std::optional<double> loss;  // none when the run diverged or failed
  std::optional<double> loss_hp;
  std::vector<std::pair<std::string, double>> metrics;  // all others
  std::string digest;
  double seconds = 0;
  std::string backend;
  Curve curve;
};

// The metric of that name, such as trivial_loss; none where the task measures no such thing.
std::optional<double> measured(const RunRecord& run, std::string_view name);

}  // namespace fp4::sweeps
