// Chooses the instruction set at run time. A forced one that the CPU lacks is an error, never a silent fallback.
#include "sim/kernels/train_kernels.h"

#include <string>
#include <vector>

#include "src/backends/backends.h"
#include "src/cpu/vector_backends.h"
#include "src/text/error.h"

namespace fp4::sim {
// Fastest first, those of this CPU, as its vector backends.
static std::vector<const Kernels*> available() {
  const Kernels* const all[] = {
#if defined(__x86_64__)
    &avx512::table,
    &avx2::table,
#endif
    &generic::table
  };
  std::vector<const Kernels*> sets;
  for (const Backend* backend : vector_backends())
    for (const Kernels* k : all)
      if (backend->available() && k->name == backend->name()) sets.push_back(k);
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
