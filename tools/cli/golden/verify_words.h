// What a dump is judged under beside the bundle: orders of codes and scales, a tolerance, the random bits that the
// kernel took, the epilogue of its products. As words and files, for the command line and for Python.
#pragma once

#include <string>

#include "tools/cli/golden/verdict.h"

namespace fp4::tools {

struct VerifyWords {
  std::string nibbles, scale_layout, tolerance;  // "": none was said
  std::string random_words, c, bias;             // files
  float alpha = 1, beta = 0;
  std::string output = "fp32", activation = "none";
};

// Into the job, and the random bits and the epilogue into the bundle's cases.
void say(const VerifyWords& words, VerifyJob& job, golden::Bundle& bundle);

}  // namespace fp4::tools
