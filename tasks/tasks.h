// The explicit list of tasks. A new one is a file tasks/<name>.cpp and one line in tasks.cpp.
#pragma once

#include <vector>

#include "sim/train/task.h"

namespace fp4::tasks {

const std::vector<const sim::Task*>& all_tasks();
/// Throws Error with the accepted names.
const sim::Task& task(const std::string& name);

}  // namespace fp4::tasks
