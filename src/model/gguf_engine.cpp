#include "src/model/gguf_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/text/error.h"

namespace fp4 {

void check_factors(const ModelJob& job, const std::vector<std::string>& files, const std::vector<Plan>& plans,
                   std::vector<std::string>& notes) {
  const auto first = std::find_if(plans.begin(), plans.end(), [](const Plan& p) { return p.has_factor; });
  if (first == plans.end()) return;
  constexpr size_t type_and_length = 12;  // in front of a text
  std::string name;
  for (const auto& [key, value] : entries_of(open_file(files.front())))
    if (key == "general.architecture" && value.size() > type_and_length) name = value.substr(type_and_length);
  if (name.empty() || name == "unknown") return;
  const auto* row = std::find_if(std::begin(gguf_architectures), std::end(gguf_architectures),
                                 [&](const GgufArchitecture& a) { return name == a.name; });
  if (row == std::end(gguf_architectures)) {
    notes.push_back(
        fmt::format("whether llama.cpp multiplies by the factors of tensors (STEM.scale) in models of {} is "
                    "not known; --spec {} writes none",
                    name, job.scheme->spec));
  } else if (!row->takes_factors) {
    throw Error(
        fmt::format("{}: {} has a factor, and llama.cpp computes {} as if it were 1; --spec {} quantises without",
                    first->tensor->file(), first->tensor->name, name, job.scheme->spec));
  }
}

}  // namespace fp4
