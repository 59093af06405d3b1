#include "tasks/tasks.h"

#include "src/error.h"

namespace fp4::tasks {

const std::vector<const sim::Task*>& all_tasks() {
  static const std::vector<const sim::Task*> list = {&regression(), &classifier(), &diffusion(), &lm()};
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
