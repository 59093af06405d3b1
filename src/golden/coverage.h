// How much of a bundle a dump answers: a verdict says what it is about, so that one case of 24 does not read like all.
#pragma once

#include <string>
#include <vector>

#include "src/golden/candidate.h"

namespace fp4::golden {

struct Coverage {
  struct Missing {
    std::string part;  // "dequantized", "codes_transposed"
    size_t cases = 0;  // judged cases whose dump lacks it
    size_t of = 0;     // judged cases that have it
  };
  size_t cases = 0;   // of the bundle
  size_t judged = 0;  // with at least one answer in the dump
  std::vector<std::string> parts;
  std::vector<Missing> missing;
};

// Of a bundle with the names of its arrays (Case::stored).
Coverage coverage_of(const Bundle& bundle, const std::vector<CandidateArray>& arrays);

// What judged cases lack: "tensor_scale, dequantized (2 of 3 cases)"; "" where nothing is missing.
std::string missing_text(const Coverage& coverage);

// "24 of 24 cases; stages scales codes; not in the dump: dequantized (2 of 3 cases)"
std::string text_of(const Coverage& coverage);

// What is asked for and not covered, a sentence each: "dequantized: not in the dump of 1 case". `required` holds "all",
// "padding" or parts; Error for other words.
std::vector<std::string> gaps(const Bundle& bundle, const Coverage& coverage, const std::vector<std::string>& required,
                              bool all_cases);

}  // namespace fp4::golden
