#include <fmt/core.h>

#include <cstdint>
#include <fstream>

#include "src/text/named_rows.h"
#include "tasks/run.h"
#include "tasks/task_data.h"
namespace fp4::tasks {

// One word a task, in the order of lists; each is defined in tasks/<name>.cpp.
#define FP4_TASKS(X) X(regression) X(classifier) X(diffusion) X(lm) X(recommender)

#define FP4_DECLARE(name) const sim::Task& name();
FP4_TASKS(FP4_DECLARE)
#define FP4_ADDRESS(name) &name(),

const std::vector<const sim::Task*>& all_tasks() {
  static const std::vector<const sim::Task*> list = {FP4_TASKS(FP4_ADDRESS)};
  return list;
}

const sim::Task& task(const std::string& name) { return *all_tasks()[accepted_index("task", name, task_names())]; }

std::optional<double> free_memory() {
  std::ifstream in("/proc/meminfo");
  std::string name;
  for (double kibibytes = 0; in >> name >> kibibytes; in.ignore(256, '\n'))
    if (name == "MemAvailable:") return 1024 * kibibytes;
  return {};
}

void check_room(const Json& config, int64_t examples, int64_t bytes, std::optional<double> room) {
  const std::string name = config.at("task").at("name");
  const std::string what = fmt::format("task {}: {} steps x {} = {} examples", name,
                                       config.at("train").at("steps").get<int64_t>(), batch_of(config), examples);
  if (examples > INT32_MAX) throw Error(fmt::format("{}; accepted: up to {}", what, INT32_MAX));
  const double needed = static_cast<double>(examples) * static_cast<double>(bytes + int64_t{sizeof(int32_t)});
  if (room && needed > *room)
    throw NoRoom(
        fmt::format("{} need {:.3g} GB of memory; this machine has {:.3g} GB left", what, 1e-9 * needed, 1e-9 * *room));
}

}  // namespace fp4::tasks
