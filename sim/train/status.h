// How a run ended, and its word in JSON, store and tables. A diverged run is a result, a failed one is not; a stopped
// one has steps left to do and is never stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace fp4::sim {

enum class Status : uint8_t { finished, diverged, failed, stopped };

constexpr std::string_view word(Status status) {
  constexpr std::string_view words[] = {"finished", "diverged", "failed", "stopped"};
  return words[static_cast<size_t>(status)];
}

}  // namespace fp4::sim
