// What is asked of a whole model: from scheme to scheme, or back to real numbers.
#pragma once

#include <string>
#include <vector>

#include "fp4/spec.h"
#include "src/model/fused_groups.h"
#include "src/model/model_tensors.h"
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
  bool is_dry = false;      // says what would become of each tensor, and writes nothing
  RandomPlace place;        // the stream of the n-th quantised tensor is stream + 128 n
  bool force = false;
  bool changed = false;       // reads shards that are not those of fp4sim.json by their SHA-256
  bool follow_links = false;  // reads and copies what links out of the folder lead to
  std::string backend = "auto";
  int threads = 1;
  std::string command_line;
  Progress progress = {};  // of bytes read

  bool writes_gguf() const { return scheme != nullptr && scheme->gguf != GgufValues::plain; }
  const char* command() const { return scheme != nullptr ? "quantize" : "dequantize"; }
};

}  // namespace fp4
