// A backend that is asked for by name does not do what is asked.
#pragma once

#include <string>

#include "src/text/error.h"

namespace fp4 {

struct Declined : Error {
  Declined(const std::string& name, const char* what)
      : Error("backend: '" + name + "' does not support this " + what + "; accepted: auto, reference") {}
};

}  // namespace fp4
