// A candidate: what a user's kernel dumped. A folder that mirrors a bundle, one case's folder, a .npz or .safetensors
// with entries named after arrays (or CASE/ARRAY, CASE.ARRAY), or a single array file. Finds which (case, stage) each
// array is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/golden/bundle.h"
#include "src/tensor_file/tensor_reader.h"

namespace fp4::golden {

// What is judged, in the order of a kernel's work.
inline constexpr const char* stage_names[] = {"scales", "tensor_scale", "codes", "dequantized", "output"};

struct CandidateArray {
  size_t case_index = 0;
  std::string stage;   // one of stage_names
  std::string golden;  // the golden array it is compared with: "codes", "output_fp32_block", "codes_transposed"
  std::string source;  // file or entry
  Array array;
};

struct CandidateOptions {
  std::vector<std::string> stages;         // empty: all that are there
  std::string case_name;                   // empty: by name
  std::string accumulator = "fp32_block";  // golden output that a bare `output` array is compared with
  OpenOptions open;                        // dtype and shape of raw files
};

// Throws Error where nothing matches, naming the cases and arrays of the bundle.
std::vector<CandidateArray> load_candidate(const Bundle& bundle, const std::string& path,
                                           const CandidateOptions& options);

}  // namespace fp4::golden
