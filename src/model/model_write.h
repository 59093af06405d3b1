// Whole models from scheme to scheme: every shard is read once by bands and written under its own name.
#pragma once

#include <string>
#include <vector>

#include "fp4/spec.h"
#include "src/arith/quantize_statistics.h"
#include "src/model/engine_config.h"
#include "src/model/fused_groups.h"
#include "src/model/model_tensors.h"
#include "src/model/outcome.h"
#include "src/threads/progress.h"

namespace fp4 {

struct ModelJob {
  std::string in;  // a folder of shards, a .safetensors or a .gguf
  std::string out;
  const CheckpointScheme* scheme = nullptr;     // to write; null: decode FP4 weights to real numbers
  std::string words;                            // of the spec; "": the scheme's
  Dtype real = Dtype::f32;                      // decode: f32 or bf16 (nearest even)
  std::vector<std::string> tensors;             // patterns with * and ?: what is converted; none: all that can be
  std::vector<std::string> keep;                // patterns of what stays besides what keep_rules.h names
  std::vector<std::string> keep_only;           // patterns of what stays instead of that; {"none"}: nothing does
  Activations activations = Activations::none;  // of activations_of()
  FuseRules fuse = {};                          // which weights share a tensor scale
  Layouts layouts;                              // of the scheme that is written; decode: of that which is read
  bool allow_left = false;  // what looks quantised and is not understood stays as it is, instead of an Error
  RandomPlace place;        // the stream of the n-th quantised tensor is stream + 128 n
  bool force = false;
  bool changed = false;  // reads shards that are not those of fp4sim.json by their SHA-256
  std::string backend = "auto";
  int threads = 1;
  std::string command_line;
  Progress progress = {};  // of bytes read
};

struct ModelLine {
  std::string tensor;  // as the input calls it
  std::string became;  // the scheme's name, f32, bf16, or "kept"
  Outcome outcome;
  std::string rule;     // why it is kept, or what is not understood
  std::string read_as;  // orders of codes and scales that are not the usual ones: "nibbles high_first, scales 128x4"
  Shape shape;
  uint64_t bytes_in = 0, bytes_out = 0;
  QuantizeReport report;  // of quantised ones, measured on what the file says; of decoded ones `nonfinite` alone
  int group = -1;         // weights of one number share their tensor scale
};

struct ModelResult {
  std::vector<ModelLine> lines;
  std::vector<std::string> notes = {};  // of the folder: files that were not taken
  double seconds = 0;
};

// Writes OUT/SHARD.safetensors for every shard, model.safetensors.index.json where there are several, fp4sim.json and
// the rest of the folder (model_folder.h); or, for schemes of GGUF, whose source is GGUF, OUT/SHARD.gguf with its
// metadata (names stay as they are). A tensor whose whole name is a word of `tensors` is quantised although a rule
// keeps it. fp4sim.json: spec, scheme, statistics of
// every tensor. Errors name file, tensor and reason: a pattern that no tensor has, a tensor that a pattern names and
// that has no values or no rows of whole blocks, a spec that the scheme cannot hold.
ModelResult convert_model(const ModelJob& job);

// The word of ModelJob::real: f32 or bf16; Error, which `place` opens.
Dtype decoded_type_of(const std::string& place, const std::string& word);

// Whether a path is a model: a .safetensors, a .gguf or a folder of them that `quantize` did not write (no manifest).
bool is_model(const std::string& path);

}  // namespace fp4
