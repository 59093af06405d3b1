#include "src/model/fused_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

// "l.0.mlp.experts.17.w1" -> "l.0.mlp.experts.*.w1"; other names as they are.
std::string of_all_experts(const std::string& module) {
  constexpr std::string_view word = "experts.";
  const size_t at = module.find(word);
  if (at == std::string::npos) return module;
  const size_t first = at + word.size();
  size_t end = first;
  while (end < module.size() && std::isdigit(static_cast<unsigned char>(module[end])) != 0) ++end;
  if (end == first) return module;
  return module.substr(0, first) + "*" + module.substr(end);
}

// What a module's group is called; "" without one.
std::string key_by_rows(const std::string& module) {
  const std::string general = of_all_experts(module);
  const size_t dot = general.rfind('.');
  const std::string parent = dot == std::string::npos ? "" : general.substr(0, dot);
  const std::string last = dot == std::string::npos ? general : general.substr(dot + 1);
  for (const FusedRow& row : fused_rows) {
    std::istringstream members(row.name);
    for (std::string member; members >> member;)
      if (member == last) return fmt::format("{}.{}", parent, row.name);
  }
  return general != module ? general : "";
}

// The text that * stands for; false where the pattern does not match.
bool star_text(const std::string& pattern, const std::string& name, std::string& text) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) {
    text.clear();
    return pattern == name;
  }
  const std::string_view before = std::string_view(pattern).substr(0, star);
  const std::string_view after = std::string_view(pattern).substr(star + 1);
  if (name.size() < before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  text = name.substr(before.size(), name.size() - before.size() - after.size());
  return true;
}

std::string key_by_file(const FuseRules& rules, const std::string& module) {
  std::string text;
  for (size_t i = 0; i < rules.groups.size(); ++i)
    for (const std::string& pattern : rules.groups[i])
      if (star_text(pattern, module, text)) return fmt::format("{}:{}", i, text);
  return "";
}

}  // namespace

FuseRules fuse_rules_of(const std::string& place, const std::string& word) {
  if (word == "auto") return {};
  if (word == "none") return {false, {}};
  if (!word.ends_with(".json")) throw unknown_word(place, word, {"auto", "none", "GROUPS.json"});
  FuseRules rules = {false, {}};
  const nlohmann::json document = parse_json(read_text_file(word, "groups of weights").text, word);
  JsonReader reader(document, word);
  for (const JsonReader& group : reader.at("groups").list(1)) {
    rules.groups.emplace_back();
    for (const JsonReader& member : group.list(1)) {
      const std::string pattern = member.text();
      if (pattern.find('*') != pattern.rfind('*')) member.fail("one * at most: " + pattern);
      rules.groups.back().push_back(pattern);
    }
  }
  reader.finish();
  return rules;
}

std::vector<int> fused_groups(const FuseRules& rules, const std::vector<std::string>& modules) {
  for (size_t group = 0; group < rules.groups.size(); ++group)
    for (const std::string& pattern : rules.groups[group]) {
      std::string text;
      if (std::none_of(modules.begin(), modules.end(), [&](const auto& m) { return star_text(pattern, m, text); }))
        throw Error(
            fmt::format("--fuse: groups[{}]: no weight that is quantised belongs to a module '{}'", group, pattern));
    }
  std::map<std::string, std::vector<size_t>> members;
  for (size_t i = 0; i < modules.size(); ++i) {
    const std::string key = rules.is_auto ? key_by_rows(modules[i]) : key_by_file(rules, modules[i]);
    if (!key.empty()) members[key].push_back(i);
  }
  std::vector<int> groups(modules.size(), -1);
  int number = 0;
  for (const auto& [key, which] : members) {
    if (which.size() < 2) continue;
    for (const size_t i : which) groups[i] = number;
    ++number;
  }
  return groups;
}

}  // namespace fp4
