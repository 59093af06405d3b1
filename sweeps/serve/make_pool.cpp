// Members from checkpoints: answers by the trainer's evaluation, times and prices by the cost model.
#include <algorithm>
#include <cmath>
#include <map>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/serve/service_file.h"
#include "tasks/run.h"

namespace fp4::serve {

namespace {

std::vector<Nanoseconds> batch_times(const ServiceFile& file, const cost::RecipeFacts& recipe, const cost::Model& model,
                                     const cost::Hardware& chip) {
  std::vector<Nanoseconds> times;
  for (int64_t n = 1; n <= file.batch; ++n) {
    const double seconds = cost::inference_seconds(recipe, model, chip, n * file.request_tokens) / file.instance_share +
                           file.overhead_ms / 1e3;
    if (!(seconds < 1e6))
      throw Error("a batch of " + std::to_string(n) +
                  " requests takes more than 1e6 s; accepted: a larger share of a chip");
    times.push_back(std::max<Nanoseconds>(1, std::llround(seconds * second)));
  }
  return times;
}

// Members answer the same questions.
void check_labels(const Pool& pool, const std::vector<int32_t>& labels, const std::string& checkpoint,
                  const std::string& first) {
  if (labels.empty()) throw Error(checkpoint + ": its task names no classes; a service answers classifier or lm");
  if (labels != pool.labels)
    throw Error(checkpoint + ": another validation set than " + first +
                "'s; train all members with one task.data_seed, such as --set data_seed=1");
}

}  // namespace

Pool make_pool(const ServiceFile& file, const std::string& backend) {
  const cost::Hardware chip = cost::load_hardware(file.hardware);
  if (!chip.price_per_hour) throw Error("hardware " + chip.name + ": no price; a service costs what chips cost");
  Pool pool;
  std::map<std::string, std::vector<Nanoseconds>> known_times;  // members of a recipe and model share them
  for (const MemberFile& row : file.members) {
    std::vector<std::optional<uint64_t>> seeds = row.rounding_seeds;
    if (seeds.empty()) seeds.emplace_back();
    for (const std::optional<uint64_t>& seed : seeds) {
      sim::RunOptions options;
      options.backend = backend;
      options.rounding_seed = seed;
      tasks::Evaluated judged = tasks::evaluate(row.checkpoint, row.recipe, options);
      sim::Answers& answers = judged.result.answers;
      if (pool.members.empty()) pool.labels = answers.labels;
      check_labels(pool, answers.labels, row.checkpoint, file.members.front().checkpoint);
      const Json& recipe = judged.config.at("recipe");
      std::vector<Nanoseconds>& times = known_times[row.model + recipe.dump()];
      if (times.empty())
        times = batch_times(file, cost::facts_of(sim::recipe_from_json(recipe)), cost::load_model(row.model), chip);
      Member member;
      member.name = row.name + (seed ? " #" + std::to_string(*seed) : "");
      member.group = row.group;
      member.answers = std::move(answers.chosen);
      member.batch = times;
      member.price_per_hour = chip.price_per_hour->value * file.instance_share;
      pool.members.push_back(std::move(member));
    }
  }
  pool.calibration = pool.labels.size() / 2;
  learn(pool);
  return pool;
}

}  // namespace fp4::serve
