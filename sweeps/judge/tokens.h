// Tokens-to-target: how many training examples (tokens) a run needs until its smoothed validation loss first falls
// below a target. Only runs with a constant learning rate are comparable along their way; "not reached" stays a value.
#pragma once

#include <optional>

#include "sweeps/judge/results.h"

namespace fp4::sweeps {

// Step of the first crossing of the validation curve, smoothed by a running mean of three points and interpolated
// linearly between points; none when the target is not reached.
std::optional<double> step_to_target(const Curve& curve, double target);

// True when the configuration trains with a constant learning rate.
bool has_constant_rate(const std::string& config);
// Examples (for the language model: bytes) that one step of this configuration reads.
double tokens_per_step(const std::string& config);

// The default target of a context: the mean over seeds of the fp32 runs' smoothed validation loss at three quarters of
// training, so that fp32 reaches it and a worse run has a quarter of the schedule left to.
std::optional<double> default_target(const ConfigResult& reference);

}  // namespace fp4::sweeps
