// What several formats make of the tensors of a model, without writing anything.
#pragma once

#include <string>
#include <vector>

#include "src/arith/quantize_statistics.h"
#include "src/model/weight_reader.h"
#include "src/threads/progress.h"

namespace fp4 {

struct CompareJob {
  std::vector<std::string> files = {};  // tensors, FILE:ENTRY, models, folders of shards
  std::vector<std::string> specs = {};
  std::vector<std::string> sparse = {};  // masks, words of sparsity_table: every spec under each; empty: none
  std::vector<int> hadamards = {};       // sizes of rotations of the rows: every spec under each; 0 and empty: none
  OpenOptions open = {};                 // its entry is that of the files
  bool is_told = false;                  // `open` says what a raw or opaque file is
  Layouts layouts = {};                  // of FP4 weights
  bool all_tensors = false;              // of a model also what `quantize --scheme` leaves as it is (keep_rules.h)
  bool changed = false;                  // reads shards that are not those of fp4sim.json by their SHA-256
  bool follow_links = false;             // of a folder: links out of it
  std::string backend = "auto";
  int threads = 1;
  Progress progress = {};
};

struct CompareLine {
  std::string tensor, spec, sparse;  // sparse: empty where a job names no masks
  int hadamard = 0;
  QuantizeReport report = {};
  bool best = false;  // the smallest NMSE of a tensor; of equal ones the first
};

struct CompareResult {
  std::vector<CompareLine> lines = {};   // of each tensor the specs in their order
  std::vector<CompareLine> totals = {};  // of each spec, tensor "all"
  std::vector<std::string> notes = {};   // what was left out or converted
  std::vector<std::string> left = {};    // what looks quantised and is not understood
};

// Integers, single codes and single numbers are left out unless they are named, and of a model (some matrix is called
// *weight) what quantising it would keep: norms, biases, embeddings, heads. Error without a tensor of numbers.
CompareResult compare_formats(const CompareJob& job);

}  // namespace fp4
