// A golden case that a user describes: a spec and either a file or a kind of inputs and a shape.
#pragma once

#include "src/golden/suite.h"
#include "tools/cli/options.h"

namespace fp4::tools {

struct OwnCase {
  std::string spec, shape, input, input_b, type = "fp32";
  std::string sparse = "none";            // of the first operand of a product
  std::vector<std::string> accumulators;  // empty: all that have a name
  PlaceOptions place;
  OpenOptions open;  // of the files

  bool is_said() const { return !spec.empty(); }
};

void add_own_case_options(CLI::App& app, OwnCase& own);

// Error, which `command` opens ("golden make"), for words and files that make no case.
golden::Case own_case(const std::string& command, const OwnCase& own);

// The type of inputs that a word names.
golden::RealType input_type(const std::string& command, const std::string& word);

}  // namespace fp4::tools
