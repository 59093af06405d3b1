// Decides: what to rent. For a model, a number of tokens and a time budget: the cheapest chip, count and recipe that
// finish in time, where the caller says how many tokens a recipe needs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/cost/doubt.h"

namespace fp4::cost {

struct RecommendOptions {
  double tokens = 0;               // to train on
  double hours = 0;                // time budget
  double global_tokens = 1 << 22;  // tokens of one optimizer step over all accelerators (512 sequences of 8192)
  int max_devices = 4096;  // counts tried: powers of two times the accelerators of a replica, of whole instances
  CostOptions cost;
  // The tokens that a recipe needs as a multiple of `tokens`. Those that have none are priced at 1 and stand last.
  // Empty: 1 for all.
  std::map<std::string, double> tokens_x = {};
};

struct Recommendation {
  std::string hardware, recipe;
  int devices = 0;
  double hours = 0, step_s = 0;
  double price = 0;
  CostRange doubt;  // of hours and price, as multiples
  std::optional<double> energy_kwh;
  double interconnect_stall = 0, network_stall = 0;
  double memory_bytes = 0;
  std::optional<double> tokens_x;  // none: not known, priced at 1
  bool in_time = false;
  bool native_fp4 = false;           // the chip has FP4 matrix units
  std::vector<std::string> decoded;  // formats that it does not multiply (CostResult)
  std::string limit;                 // what most of the step waits for: CostResult::limits
  double limit_share = 0;            // of the step
  double chip_hours() const { return hours * devices; }
};

/// One row per chip and recipe: its cheapest count that is in time and fits its memory, or its fastest one when none
/// is. Rows in time come first, of known tokens before others, by price; the others follow, by hours. Throws Error for
/// a chip without a price, and where no chip has a count to try: one of whole replicas, up to max_devices, that leaves
/// each a sequence.
std::vector<Recommendation> recommend(const Model& model, const std::vector<Hardware>& chips,
                                      const std::vector<RecipeFacts>& recipes, const RecommendOptions& options);

/// The model with its step spread over `devices`; micro-batches keep their size where the share allows.
/// 0 tokens a device is an error of the caller.
Model spread(const Model& model, double global_tokens, int devices);

}  // namespace fp4::cost
