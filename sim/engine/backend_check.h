// Whether a backend that was asked for by name takes a recipe's products, before any of them is made.
#pragma once

#include <string>

#include "src/backends/backends.h"
#include "src/text/error.h"

namespace fp4::sim {

/// True of this program, not of the run: with another backend it is what it is.
struct NoKernels : Error {
  using Error::Error;
};

/// The words of a spec that fast kernels do not know ("scale_rule=ms_eden"; of several, with commas); empty: all known.
std::string unknown_words(const QuantSpec& s);

/// Tries the product on zeros. Throws NoKernels, which opens with `place` and names the words, where the backend
/// declines it.
void require_kernels(const Dispatcher& backend, const GemmSpec& s, const std::string& place);

}  // namespace fp4::sim
