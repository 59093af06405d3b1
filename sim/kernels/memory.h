// Where an arena's blocks come from, if not from the host: memory of a device, which only its kernels may touch.
#pragma once

#include <cstddef>

namespace fp4::sim {

struct Memory {
  void* (*take)(std::size_t bytes);  // aligned to 64 bytes; throws Error where there is none left
  void (*give)(void* memory);
};

}  // namespace fp4::sim
