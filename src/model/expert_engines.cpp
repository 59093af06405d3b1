#include "src/model/expert_engines.h"

#include <fmt/format.h>

namespace fp4 {

std::string experts_note(const std::string& scheme, const std::string& model_type) {
  std::string known;
  for (const ExpertEngine& row : expert_engines) {
    const std::string types = row.model_types;
    if (!scheme.starts_with(row.scheme) || (types != "*" && types.find(" " + model_type + " ") == std::string::npos))
      continue;
    known += fmt::format("{}{} {}", known.empty() ? "" : "; ", row.engine,
                         row.loads == LoadsExperts::loads     ? "loads them"
                         : row.loads == LoadsExperts::without ? "loads the model without them: they stay random"
                                                              : "refuses the scheme");
  }
  if (known.empty()) known = "which engines load them is not known";
  return fmt::format("experts{}: {}", model_type.empty() ? "" : " of " + model_type, known);
}

}  // namespace fp4
