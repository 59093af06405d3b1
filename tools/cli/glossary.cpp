#include "tools/cli/glossary.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

#include "src/text/embedded.h"

namespace fp4::tools {
namespace {

// "*Also: tie, equal within delta.*"
std::vector<std::string> spellings(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream in(line.substr(7, line.size() - 9));
  for (std::string word; std::getline(in, word, ',');) found.push_back(word.substr(word.find_first_not_of(' ')));
  return found;
}

std::vector<GlossaryEntry> read(std::string_view page) {
  std::vector<GlossaryEntry> entries;
  std::istringstream in{std::string(page)};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## "))
      entries.push_back({line.substr(3), {}, ""});
    else if (entries.empty() || line.empty())
      continue;
    else if (line.starts_with("*Also: "))
      entries.back().also = spellings(line);
    else
      entries.back().text += (entries.back().text.empty() ? "" : " ") + line;
  }
  static const std::regex link("\\[([^\\]]*)\\]\\(/?([^)]*)\\)");
  for (GlossaryEntry& entry : entries) entry.text = std::regex_replace(entry.text, link, "$1 ($2)");
  return entries;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const std::vector<GlossaryEntry>& glossary() {
  static const std::vector<GlossaryEntry> entries = read(embedded("WORDS.md"));
  return entries;
}

const GlossaryEntry* glossary_entry(const std::string& word) {
  const std::string wanted = lower_case(word);
  for (const GlossaryEntry& entry : glossary()) {
    const auto same = [&](const std::string& other) { return lower_case(other) == wanted; };
    if (same(entry.word) || std::any_of(entry.also.begin(), entry.also.end(), same)) return &entry;
  }
  return nullptr;
}

}  // namespace fp4::tools
