#include "src/model/keep_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace fp4 {
namespace {

bool matches(const char* pattern, const std::string& name) {
  return name == pattern || fnmatch(pattern, name.c_str(), 0) == 0;
}

// "model.layers.12.conv" -> "model.layers.*.conv"; characters that fnmatch reads as more stay literal.
std::string without_numbers(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    const bool begins = i == 0 || name[i - 1] == '.';
    if (!is_digit || !begins) {
      out += name[i];
      continue;
    }
    out += '*';
    while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0) ++i;
  }
  return out;
}

}  // namespace

const KeepRule* keep_rule_of(const std::string& name) {
  const auto* rule = std::find_if(std::begin(keep_rules), std::end(keep_rules),
                                  [&](const KeepRule& r) { return matches(r.name, name); });
  return rule == std::end(keep_rules) ? nullptr : rule;
}

std::string reason_of_rules(const std::string& name, size_t dimensions, bool is_quantised) {
  if (const KeepRule* rule = keep_rule_of(name)) return rule->doc;
  return dimensions > 2 && !is_quantised && !is_expert(name) ? "convolution" : "";
}

std::string reason_of_architecture(const std::string& model_type, std::optional<std::uint64_t> layers,
                                   const std::string& name) {
  for (const ArchitectureRule& r : architecture_rules)
    if (!model_type.empty() && std::string(r.model_types).find(" " + model_type + " ") != std::string::npos &&
        matches(r.name, name))
      return r.doc;
  constexpr std::string_view word = "layers.";
  constexpr size_t most_digits = 9;
  const size_t at = name.find(word);
  const std::string_view root = std::string_view(name).substr(0, at == std::string::npos ? 0 : at);
  const bool is_text = root.empty() || root == "model." || root == "language_model.model." ||
                       root == "model.language_model." || root == "language_model.";
  if (at == std::string::npos || !layers || !is_text) return "";
  std::uint64_t number = 0;
  size_t end = at + word.size();
  const size_t first = end;
  while (end < name.size() && end < first + most_digits && std::isdigit(static_cast<unsigned char>(name[end])) != 0)
    number = number * 10 + static_cast<std::uint64_t>(name[end++] - '0');
  const bool is_number = end > first && end < name.size() && name[end] == '.';
  return is_number && number >= *layers ? "prediction layer behind num_hidden_layers" : "";
}

bool is_expert(const std::string& name) {
  if (name.find("_exps.") != std::string::npos) return true;
  const size_t at = name.find("experts.");
  return at != std::string::npos && (at == 0 || name[at - 1] == '.');
}

bool has_match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p.c_str(), name); });
}

std::vector<std::string> patterns_for(const std::vector<std::string>& wanted, const std::vector<std::string>& others) {
  std::vector<std::string> patterns;
  for (const std::string& name : wanted) {
    if (has_match(patterns, name)) continue;
    const std::string wide = without_numbers(name);
    const bool is_safe =
        std::none_of(others.begin(), others.end(), [&](const std::string& o) { return matches(wide.c_str(), o); });
    patterns.push_back(is_safe ? wide : name);
  }
  return patterns;
}

}  // namespace fp4
