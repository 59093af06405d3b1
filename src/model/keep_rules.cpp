#include "src/model/keep_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>

namespace fp4 {
namespace {

bool matches(const char* pattern, const std::string& name) { return fnmatch(pattern, name.c_str(), 0) == 0; }

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

bool is_expert(const std::string& name) {
  if (name.find("_exps.") != std::string::npos) return true;
  const size_t at = name.find("experts.");
  return at != std::string::npos && (at == 0 || name[at - 1] == '.');
}

bool has_match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p.c_str(), name); });
}

bool is_pattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

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
