// Whole models from scheme to scheme: every shard is read once by bands and written under its own name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/arith/quantize_statistics.h"
#include "src/model/engine_config.h"
#include "src/model/model_plan.h"

namespace fp4 {

struct ModelLine {
  std::string tensor;  // as the input calls it
  std::string became;  // the scheme's name, f32, bf16, or "kept"
  Fate outcome;
  std::string rule;     // why it is kept, or what is not understood
  std::string read_as;  // orders of codes and scales that are not the usual ones: "nibbles high_first, scales 128x4"
  Shape shape;
  uint64_t bytes_in = 0, bytes_out = 0;
  QuantizeReport report;  // of quantised ones, measured on what the file says; of decoded ones `nonfinite` alone
  int group = -1;         // weights of one number share their tensor scale
  bool is_converted() const {
    return outcome == Fate::quantised || outcome == Fate::carried || outcome == Fate::decoded;
  }
};

// A row of fp4sim.json and of `--json`.
nlohmann::ordered_json to_json(const ModelLine& line);

struct ModelResult {
  std::vector<ModelLine> lines;
  std::vector<std::string> notes = {};  // of the folder: files that were not taken
  double seconds = 0;
};

// Writes OUT/SHARD.safetensors for every shard, model.safetensors.index.json where there are several, fp4sim.json and
// the rest of the folder (model_folder.cpp); or, for schemes of GGUF, whose source is GGUF, OUT/SHARD.gguf with its
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
