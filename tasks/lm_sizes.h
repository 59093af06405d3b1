// Decides: the ladder of sizes of the language model, one row each: shape, tokens of a step, learning rate. `size` of a
// task gives the shape's defaults, `tokens_per_weight` the steps; every setting can still be given.
// Weights are those of the quantised layers, 4 d^2 + 3 d ffn a block; embedding, norms and head are not counted.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace fp4::tasks {

struct LmSize {
  const char* name;
  int width, layers, heads, ffn, context;
  int batch;  // sequences of a step
  double lr;  // 50k: bf16's best of a ladder of factor sqrt(2) at 20 tokens a weight; from there as N^(-1/4)
};

// "" is the model of the sweeps over recipes, with the training of its own that lm.cpp states.
inline constexpr std::array<LmSize, 8> lm_sizes = {{
    // name   width layers heads ffn context batch lr
    {"", 128, 2, 4, 352, 64, 16, 2.8e-3},
    {"20k", 32, 2, 1, 64, 128, 4, 7.4e-3},
    {"50k", 64, 2, 2, 64, 128, 16, 5.7e-3},
    {"100k", 64, 4, 2, 64, 128, 16, 4.8e-3},
    {"200k", 96, 2, 3, 256, 128, 16, 4e-3},
    {"400k", 128, 2, 4, 352, 128, 16, 3.4e-3},
    {"800k", 128, 4, 4, 352, 128, 32, 2.8e-3},
    {"3200k", 256, 4, 8, 704, 128, 64, 2e-3},
}};

/// The row of this name; the first one for a name that is none (the field's words refuse it).
inline const LmSize& lm_size(std::string_view name) {
  const auto found = std::find_if(lm_sizes.begin(), lm_sizes.end(), [&](const LmSize& s) { return name == s.name; });
  return found == lm_sizes.end() ? lm_sizes.front() : *found;
}

inline std::vector<std::string> lm_size_names() {
  std::vector<std::string> names;
  for (const LmSize& s : lm_sizes) names.emplace_back(s.name);
  return names;
}

/// Weights of the quantised layers.
constexpr double lm_weights(double width, double layers, double ffn) {
  return layers * (4 * width * width + 3 * width * ffn);
}

/// Steps of `batch` x `context` bytes that read `ratio` bytes for each weight, to nearest.
inline int lm_steps(double weights, double ratio, double batch, int context) {
  return std::max(1, static_cast<int>(std::lround(weights * ratio / (batch * context))));
}

}  // namespace fp4::tasks
