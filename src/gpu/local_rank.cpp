#include <charconv>
#include <cstdlib>
#include <cstring>

#include "src/gpu/device.h"

namespace fp4::gpu {

int device_of_rank(int count) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const char* end = text + std::strlen(text);
    int rank = 0;
    const auto [stop, error] = std::from_chars(text, end, rank);
    if (error == std::errc() && stop == end && rank >= 0 && count > 0) return rank % count;
  }
  return 0;
}

}  // namespace fp4::gpu
