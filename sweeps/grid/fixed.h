// A tuned grid at a fixed value: what the same comparison says where nobody has a learning rate of its own.
#pragma once

#include <span>
#include <string>

namespace fp4::sweeps {

// The text of a grid in which each field of `fixed` ("train.lr=0.002", value a JSON number) is an axis of that one
// value instead of a ladder; a grid without a ladder left has no "tune_best" either. `place` opens messages. Throws
// Error for a field that the grid does not tune, naming those that it does.
std::string at_fixed(const std::string& text, const std::string& place, std::span<const std::string> fixed);

}  // namespace fp4::sweeps
