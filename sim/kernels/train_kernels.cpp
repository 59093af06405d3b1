// Chooses the instruction set at run time. A forced one that the CPU lacks is an error, never a silent fallback.
#include "sim/kernels/train_kernels.h"

#include <string>
#include <vector>

#include "src/backends/backends.h"
#include "src/text/error.h"

namespace fp4::sim {
// Fastest first, those of this CPU.
static std::vector<const Kernels*> available() {
  std::vector<const Kernels*> sets;
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    sets.push_back(&avx512::table);
  }
  if (has_avx2) sets.push_back(&avx2::table);
#endif
  sets.push_back(&generic::table);
  return sets;
}

const Kernels& kernels(std::string_view backend) {
  static const std::vector<const Kernels*> sets = available();
  if (backend == "auto" || backend == "gpu") return *sets.front();
  if (backend == "reference") return generic::table;
  for (const Kernels* k : sets) {
    if (k->name == backend) return *k;
  }
  if (backend == "avx2" || backend == "avx512") {
    throw Error("backend " + std::string(backend) + ": this CPU does not have it; accepted: auto, reference, generic");
  }
  throw unknown_word("backend", backend, backend_names());
}

}  // namespace fp4::sim
