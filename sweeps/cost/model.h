// Decides: what a network costs to train, apart from the recipe: its linear layers, attention, what stays in high
// precision, tokens a step and micro-batches. JSON rows (sweeps/models/NAME.json, or a path given by the user).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_reader.h"

namespace fp4::cost {

using fp4::Json;

/// Linear layers that share one input and run as one GEMM (q, k and v): [tokens, in] x [in, sum of out].
struct Linear {
  std::string name;
  int64_t in = 0;
  std::vector<int64_t> out;         // one entry a layer; a layer policy counts entries
  std::vector<std::string> layers;  // their names as a layer policy writes them ("q", "k", "v")
  bool dgrad = true;                // false: the first layer, whose input needs no gradient
  int64_t experts = 1, top = 1;     // so many copies of the weights, of which each token meets `top`
  int64_t positions = 1;            // pixels of a convolution: an image (token) meets the weights at each of them
  int64_t uses() const { return top * positions; }  // of weights by a token
  int64_t width_out() const;
};

struct UnquantisedLinear {
  Linear linear;
  std::string format_class = "bf16";
};

struct Model {
  std::string name, doc, source;
  int64_t blocks = 0;           // how often `linears` repeats
  int64_t width = 0;            // residual stream
  std::vector<Linear> linears;  // of one block, in the order of the forward pass
  std::vector<UnquantisedLinear> unquantised;
  int64_t attention_width = 0;  // heads x head size; 0: no attention
  int64_t heads = 0;            // of attention; 0: one for each 128 of its width
  int64_t sequence = 0;
  int64_t tokens_per_step = 0;        // on one accelerator
  int64_t micro_batches = 1;          // accumulated into one step
  int64_t saved_per_token_block = 0;  // bf16 elements kept for the backward pass besides the linear layers' inputs
  int64_t extra_parameters = 0;       // embeddings, norms, biases

  int64_t linear_parameters() const;  // of the quantisable layers
  int64_t parameters() const;
  int64_t layers() const;  // quantisable linear layers, as a layer policy counts them
  int64_t attention_heads() const { return heads > 0 ? heads : (attention_width + 127) / 128; }
  /// Elements of K and V that a token leaves in the caches of all blocks: the widths of the layers `k` and `v`, else
  /// twice the attention's.
  int64_t cached_elements() const;
  /// Sequences with attention between their tokens: text, of what is shipped. Images and clicks have neither.
  bool reads_text() const { return sequence > 0 && attention_width > 0; }
  int64_t micro_tokens() const { return tokens_per_step / micro_batches; }
};

Model parse_model(const Json& object, const std::string& place, FieldNotes* notes = nullptr);
/// A built-in name, or a path ending in .json. `place`: where the word stands, if it stands in a file.
Model load_model(std::string_view word, std::string_view place = "");
std::vector<std::string> model_names();
Json to_json(const Model& model);

}  // namespace fp4::cost
