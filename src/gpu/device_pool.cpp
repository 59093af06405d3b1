#include "src/gpu/device.h"
#include "src/text/error.h"

namespace fp4::gpu {

std::pair<void*, std::size_t> Pool::take(std::size_t bytes) {
  std::size_t rounded = 256;
  while (rounded < bytes) rounded *= 2;
  std::vector<void*>& list = free_[rounded];
  if (!list.empty()) {
    void* memory = list.back();
    list.pop_back();
    return {memory, rounded};
  }
  ++allocations_;
  void* memory = device_.allocate(rounded);
  if (memory == nullptr) {  // give back what is kept and try again, once
    trim();
    memory = device_.allocate(rounded);
  }
  if (memory == nullptr) {
    throw Error("gpu: " + device_.description() + " has no " + std::to_string((rounded >> 20) + 1) +
                    " MiB left for an array; use a smaller tensor or --backend auto",
                Error::failed);
  }
  return {memory, rounded};
}

void Pool::trim() {
  for (auto& [bytes, list] : free_) {
    for (void* memory : list) device_.release(memory);
    list.clear();
  }
}

}  // namespace fp4::gpu
