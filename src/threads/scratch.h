// Decides: storage of one thread or one step that is given back as a whole. After its first uses it is one block of the
// right size, and nothing is allocated any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace fp4 {

/// Where its blocks come from, if not from the host: memory of a device, which only its kernels may touch.
struct Memory {
  void* (*take)(std::size_t bytes);  // aligned to 64 bytes; throws Error where there is none left
  void (*give)(void* memory);
};

/// Bump allocator: take() is a pointer increment, reset() forgets everything and keeps the memory.
class Scratch {
 public:
  static constexpr std::size_t alignment = 64;  // one AVX-512 register, one cache line

  explicit Scratch(const Memory* memory = nullptr) : memory_(memory) {}

  // A cache line beyond each array keeps arrays of powers of two from sharing cache sets.
  template <class T>
  T* take(int64_t count) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 2 * alignment - 1) & ~(alignment - 1);
    if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) grow(bytes);
    std::byte* const at = blocks_.back().memory.get() + used_;
    used_ += bytes;
    taken_ += bytes;
    return reinterpret_cast<T*>(at);
  }
  template <class T>
  void put(T*& array, int64_t count) {
    array = take<T>(count);
  }

  /// Several blocks (a first step that had to grow) are replaced by one that holds all and a quarter more.
  void reset() {
    if (blocks_.size() > 1) {
      blocks_.clear();
      blocks_.push_back(block(taken_ + taken_ / 4));
    }
    used_ = taken_ = 0;
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
    blocks_.push_back(block(std::max({least, bytes, taken_ / 2})));
    used_ = 0;
  }

  const Memory* memory_;
  std::vector<Block> blocks_;
  std::size_t used_ = 0;   // in the last block
  std::size_t taken_ = 0;  // since the last reset
};

}  // namespace fp4
