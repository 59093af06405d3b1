#include "src/cpu/vector_backends.h"

namespace fp4 {

const std::vector<const Backend*>& vector_backends() {
  static const std::vector<const Backend*> list = {
#if defined(__x86_64__)
    &avx512_backend(),
    &avx2_backend(),
#endif
    &generic_backend()
  };
  return list;
}

}  // namespace fp4
