#include "src/text/error.h"
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

const sim::Task& task(const std::string& name) {
  std::vector<std::string> names;
  for (const sim::Task* t : all_tasks()) {
    if (t->name() == name) return *t;
    names.push_back(t->name());
  }
  throw unknown_word("task", name, names);
}

}  // namespace fp4::tasks
