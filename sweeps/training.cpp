// Binds the sweep engine to the trainer (tasks/run.h). A configuration's hash ignores what a recipe is called, so names
// and documentation are taken out of it here: two ways to the same arithmetic then store the same text.
#include "sweeps/training.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/engine/backend_check.h"
#include "sim/rules/recipe.h"
#include "src/backends/backends.h"
#include "src/backends/signature.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "tasks/run.h"

namespace fp4::sweeps {

namespace {

// Products with an operand of another format than fp32, bf16 and fp16.
double quantised_count(const sim::History& history) {
  double count = 0;
  for (const sim::PrecisionCounts& counts : history.products)
    for (const auto& [words, n] : counts)
      if (words != "fp32" && words != "bf16" && words != "fp16") count += static_cast<double>(n);
  return count;
}

RunRecord record_of(const sim::History& history, const std::string& backend) {
  RunRecord record{.status = history.status,
                   .message = history.message,
                   .digest = history.digest,
                   .seconds = history.seconds,
                   .backend = backend};
  for (const auto& [name, value] : history.metrics) {
    if (name == "loss") {
      record.loss = value;
    } else if (name == "loss_hp") {
      record.loss_hp = value;
    } else {
      record.metrics.emplace_back(name, value);
    }
  }
  if (history.steps_done > 0)
    record.metrics.emplace_back(quantised_products, quantised_count(history) / history.steps_done);
  if (record.status != Status::finished) record.loss = record.loss_hp = std::nullopt;
  for (const sim::CurvePoint& point : history.curve) {
    record.curve.step.push_back(point.step);
    record.curve.train_loss.push_back(point.train_loss.value_or(std::nan("")));
    record.curve.validation_loss.push_back(point.validation_loss.value_or(std::nan("")));
  }
  return record;
}

sim::RunOptions run_options(const std::string& backend, const std::function<bool()>& quit) {
  sim::RunOptions options;
  options.backend = backend;
  options.threads = 1;
  options.progress = [&quit](const sim::Progress&) { return !quit(); };
  options.stop = quit;
  return options;
}

RunRecord record_of_run(const Json& config, uint64_t seed, const sim::RunOptions& options, const std::string& backend) {
  try {
    return record_of(tasks::run(config, seed, options), backend);
  } catch (const tasks::NoRoom& error) {  // this machine's, not the run's: no failed row (engine/run.h)
    throw Error(error.what(), Error::failed);
  } catch (const sim::NoKernels& error) {  // this backend's
    throw Error(error.what(), Error::failed);
  }
}

bool task_has(const std::string& task, const std::string& path) {
  accepted_index("task", task, tasks::task_names());
  if (path.empty()) return true;
  const sim::Schema& schema = tasks::task_schema(task);
  return std::any_of(schema.begin(), schema.end(), [&](const sim::Field& field) { return field.path == path; });
}

}  // namespace

Simulator real_simulator(const std::string& backend, bool with_signature) {
  const Dispatcher known(backend);  // an unknown or absent backend is refused before any work
  Simulator simulator{
      .canonical =
          [](const Json& given) {
            Json config = tasks::canonical(given);
            config["recipe"] = tasks::nameless(std::move(config["recipe"]));
            if (config.contains("branch")) config["branch"]["recipe"] = tasks::nameless(config["branch"]["recipe"]);
            return config;
          },
      .hash = tasks::config_hash,
      .invalid_reason = tasks::invalid_reason,
      .static_cost = tasks::static_cost,
      .run =
          [backend](const Json& config, uint64_t seed, const std::function<bool()>& quit) {
            return record_of_run(config, seed, run_options(backend, quit), backend);
          },
      .run_with_checkpoints =
          [backend](const Json& config, uint64_t seed, const std::function<bool()>& quit, const std::string& file,
                    double every) {
            sim::RunOptions options = run_options(backend, quit);
            options.checkpoint_to = file;
            options.checkpoint_every = every;
            options.trunks = std::filesystem::path(file).parent_path().string();
            if (tasks::resumes(file, config, seed)) options.resume_from = file;
            return record_of_run(config, seed, options, backend);
          },
      .recipe = [](const std::string& name) { return tasks::nameless(sim::to_json(sim::recipe_from_json(name))); },
      .task_has = task_has,
      .signature = {},
      .train_signature = tasks::train_signature};
  if (with_signature) simulator.signature = arithmetic_signature();
  return simulator;
}

}  // namespace fp4::sweeps
