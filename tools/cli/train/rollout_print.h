// What `fp4sim eval --against` says: text and JSON of sweeps/judge/rollout.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sweeps/judge/rollout.h"

namespace fp4::tools {

/// The table of KL and top-1 with intervals, and a line on what is not finite.
void print_divergence(const sweeps::Divergence& divergence);
/// The keys kl, flipped, largest_kl and not_finite.
nlohmann::ordered_json json_of(const sweeps::Divergence& divergence);

/// `against` and `recipe`: how the two are called.
void print_rollout(const sweeps::Rollout& rollout, const std::string& against, const std::string& recipe);
/// The keys tokens, examples, kl, flipped, largest_kl, not_finite, first, causes, pairs, cause and metrics.
nlohmann::ordered_json json_of(const sweeps::Rollout& rollout);

}  // namespace fp4::tools
