// The words of sweeps/WORDS.md, which the program carries: one section for each, with its other spellings.
#pragma once

#include <string>
#include <vector>

namespace fp4::tools {

struct GlossaryEntry {
  std::string word;
  std::vector<std::string> also;
  std::string text;  // one paragraph, without marks of links
};

const std::vector<GlossaryEntry>& glossary();

std::string lower_case(std::string text);

// By the word or one of its other spellings, in any case; null if there is none.
const GlossaryEntry* glossary_entry(const std::string& word);

}  // namespace fp4::tools
