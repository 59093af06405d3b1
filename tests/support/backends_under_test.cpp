#include "tests/support/backends_under_test.h"

#include <cstdlib>
#include <iostream>
#include <string>

#include "src/gpu/gpu_backend.h"

namespace fp4::test {

std::vector<const Backend*> backends_under_test() {
  const char* only = std::getenv("FP4_TEST_BACKEND");
  std::vector<const Backend*> list;
  std::string absent;
  for (const Backend* b : all_backends()) {
    const std::string name = b->name();
    if (name == "reference" || (only != nullptr && name != only)) continue;
    if (b->available()) {
      list.push_back(b);
    } else {
      absent += " " + name + (name == "gpu" ? " (" + gpu_status() + ")" : "");
    }
  }
  if (!absent.empty()) std::cout << "not on this machine:" << absent << '\n';
  if (list.empty()) std::cout << "[test skipped] no fast backend to compare\n";
  return list;
}

}  // namespace fp4::test
