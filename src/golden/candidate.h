// A candidate: what a user's kernel dumped. A folder that mirrors a bundle (files below it may lie deeper), one case's
// folder, a .npz or .safetensors with entries named after arrays (or CASE/ARRAY, CASE.ARRAY), or a single array file.
// Every file and every array of it is opened and accounted for: it is judged, or it is listed with the reason why not,
// or its name is an error. So no dump is called equal because nobody looked at it.
#pragma once

#include <string>
#include <vector>

#include "src/files/tensor_reader.h"
#include "src/golden/array_name.h"
#include "src/golden/array_words.h"
#include "src/golden/bundle.h"

namespace fp4::golden {

struct CandidateArray {
  size_t case_index = 0;
  std::string stage;   // of array_name.h; input_stage: compared, but no answer of the kernel
  std::string golden;  // the golden array it is compared with: "codes", "output_fp32_block", "scales_128x4_transposed"
  std::string source;  // file or entry
  Array array;
  RealType type = RealType::fp32;  // of the dump's own elements: decoded values and outputs are judged in it
};

struct Ignored {
  std::string source;
  std::string reason;  // "--ignore", "not of --stage", "no array"
};

struct Dump {
  std::vector<CandidateArray> arrays;
  std::vector<Ignored> ignored;
};

struct CandidateOptions {
  std::vector<std::string> stages;                       // empty: all that are there
  std::string case_name;                                 // empty: by name
  std::string accumulator = "fp32_block";                // golden output that a bare `output` array is compared with
  std::vector<std::string> ignore;                       // file names, array names or folders that are left out
  CodeLayout nibbles = CodeLayout::low_first;            // of arrays called codes
  ScaleLayout scale_layout = ScaleLayout::linear;        // of arrays called scales
  bool says_nibbles = false, says_scale_layout = false;  // an order that was said is judged, else it may be found
  OpenOptions open;                                      // of raw files and opaque types
};

// Error where a name fits no array of the bundle, or no answer is found, naming the cases and arrays of the bundle.
Dump load_dump(const Bundle& bundle, const std::string& path, const CandidateOptions& options);

}  // namespace fp4::golden
