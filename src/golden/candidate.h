// A candidate: what a user's kernel dumped. A folder that mirrors a bundle (files below it may lie deeper), one case's
// folder, a .npz or .safetensors with entries named after arrays (or CASE/ARRAY, CASE.ARRAY), or a single array file.
// Every file and every array of it is opened and accounted for: it is judged, or it is listed with the reason why not,
// or its name is an error. So no dump is called equal because nobody looked at it.
#pragma once

#include <string>
#include <vector>

#include "src/files/tensor_reader.h"
#include "src/golden/array_words.h"
#include "src/golden/bundle.h"

namespace fp4::golden {

struct CandidateArray {
  size_t case_index = 0;
  std::string stage;   // of stage_names; input_stage: compared, but no answer of the kernel
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

// How much of a bundle a dump answers: a verdict says what it is about, so that one case of 24 does not read like all.
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
