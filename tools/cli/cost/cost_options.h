// What the cost subcommands share: the words for model, chip, recipe and weights, and the look of times and shares.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sweeps/cost/cost.h"
#include "tools/cli/command.h"

namespace fp4::tools {

struct CostArguments {
  std::string model = "llama3_8b", hardware = "b200";
  std::vector<std::string> weights;  // NAME=NUMBER, or a JSON file or object
  std::vector<std::string> views;    // fused, separate
  std::string hadamard = "fused";
  double recompute = 0;
  int devices = 1, tensor = 1, pipeline = 1, interleave = 1;
  std::string shard = "optimizer", gradients;  // gradients: "" bf16, or a spec
  int gradients_hadamard = 0;
  double prepare_rate = 0, fetch_rate = 0;
  int steps = 0;  // 0: not known
  bool what_if = false, json = false;

  // `of_one_system`: with --hardware and --devices; a command that chooses them itself has neither.
  void add_to(CLI::App& app, bool of_one_system = true);
  cost::CostOptions options() const;  // throws Error for unknown words
  cost::Parallel parallel() const;
  nlohmann::ordered_json describe() const;
};

/// "2250TFLOP/s", "8TB/s", "400Gb/s", "180GB", "1000W", or a number in `unit`: FLOP/s, B/s, B, W, /s. Throws Error for
/// one below `least` or a million times above it, as figures in other units are.
double with_unit(const std::string& text, const std::string& option, const std::string& unit, double least);

std::string format_seconds(double seconds);  // 4.53 s, 12.1 ms, 830 us
std::string format_bytes(double bytes);      // 154 GB
std::string format_percent(double share);    // 2.13 %
std::string format_number(double value);     // four digits

/// "RECIPE *" where the chip decodes operands that it does not multiply; the line that says what the star means, "" for
/// none. "b200 does not multiply fp4 with ue5m3 for 16: priced as ..".
std::string marked(const std::string& recipe, const cost::CostResult& result);
std::string decoded_words(const std::string& chip, const std::string& formats);
std::string decoded_note(const std::vector<std::pair<std::string, cost::CostResult>>& rows, const std::string& chip);

/// Everything a script may want of one evaluation; `terms` only when asked for.
nlohmann::ordered_json cost_json(const std::string& recipe, const cost::CostResult& result, bool with_terms);

/// One bar per recipe, a step with communication scaled to the slowest, a letter (or a colour on a terminal) for each
/// part, and the legend.
std::string cost_bars(const std::vector<std::pair<std::string, cost::CostResult>>& rows, size_t width, bool styled);

}  // namespace fp4::tools
