// Decides: where numbers live. A Tensor is a view of row-major fp32; its memory belongs to an Arena (values,
// gradients and tape of one step, given back as a whole) or to Parameters. After the first steps an arena has
// one block of the right size and nothing is allocated any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "sim/kernels/train_kernels.h"

namespace fp4::sim {

struct Tensor {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;

  int64_t size() const { return int64_t{rows} * cols; }
  float* row(int r) const { return data + int64_t{r} * cols; }
};

/// Bump allocator: take() is a pointer increment, reset() forgets everything and keeps the memory.
class Arena {
 public:
  static constexpr std::size_t alignment = 64;  // one AVX-512 register, one cache line

  explicit Arena(const Memory* memory = nullptr) : memory_(memory) {}

  template <class T>
  T* take(int64_t count) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + alignment - 1) & ~(alignment - 1);
    if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) grow(bytes);
    std::byte* const at = blocks_.back().memory.get() + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(at);
  }
  Tensor tensor(int rows, int cols) { return {take<float>(int64_t{rows} * cols), rows, cols}; }

  /// Several blocks (a first step that had to grow) are replaced by one that holds as much as all of them.
  void reset() {
    if (blocks_.size() > 1) {
      const std::size_t total = bytes();
      blocks_.clear();
      blocks_.push_back(block(total));
    }
    used_ = 0;
  }
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const Block& b : blocks_) total += b.bytes;
    return total;
  }

 private:
  struct Release {
    const Memory* memory = nullptr;
    void operator()(std::byte* p) const {
      if (memory != nullptr) return memory->give(p);
      ::operator delete[](p, std::align_val_t{alignment});
    }
  };
  struct Block {
    std::unique_ptr<std::byte[], Release> memory;
    std::size_t bytes;
  };

  Block block(std::size_t bytes) const {
    void* const taken =
        memory_ != nullptr ? memory_->take(bytes) : ::operator new[](bytes, std::align_val_t{alignment});
    return {std::unique_ptr<std::byte[], Release>(static_cast<std::byte*>(taken), Release{memory_}), bytes};
  }
  void grow(std::size_t bytes) {
    const std::size_t least = std::size_t{1} << 18;
    blocks_.push_back(block(std::max({least, bytes, blocks_.empty() ? 0 : 2 * blocks_.back().bytes})));
    used_ = 0;
  }

  const Memory* memory_;
  std::vector<Block> blocks_;
  std::size_t used_ = 0;  // in the last block
};

}  // namespace fp4::sim
