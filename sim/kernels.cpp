// Chooses the instruction set at run time. A forced one that the CPU lacks is an error, never a silent fallback.
#include "sim/kernels.h"

#include <string>

#include "src/error.h"

namespace fp4::sim {

const Kernels& kernels(std::string_view backend) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  const bool has_avx2 = false, has_avx512 = false;
#endif
  if (backend == "auto" || backend == "gpu")
    return has_avx512 ? avx512::table : has_avx2 ? avx2::table : generic::table;
  if (backend == "reference" || backend == "generic") return generic::table;
  if ((backend == "avx2" && !has_avx2) || (backend == "avx512" && !has_avx512))
    throw Error("backend " + std::string(backend) + ": this CPU does not have it; accepted: auto, reference");
  if (backend == "avx2") return avx2::table;
  if (backend == "avx512") return avx512::table;
  throw unknown_word("backend", backend, {"auto", "reference", "avx2", "avx512", "gpu"});
}

}  // namespace fp4::sim
