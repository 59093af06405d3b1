// Elements of an array as integers, read where they lie: codes, bits of floats. Any NaN of floats is one word.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "fp4/bits.h"
#include "src/files/large_pages.h"

namespace fp4::golden {

using Elements = std::vector<uint32_t>;
// An element that nobody can be wrong about: the codes of a block whose scale is NaN, and what a layout pads.
inline constexpr uint32_t any_element = 0xFFFFFFFEu;

class Words {
 public:
  Words() = default;
  explicit Words(Elements made)
      : made_(std::make_shared<const Elements>(std::move(made))),
        bytes_(reinterpret_cast<const unsigned char*>(made_->data())),
        size_(made_->size()) {}
  // Of an array that stays where it is; elements of 4 or 6 bits follow each other without gaps, low bits first.
  Words(std::span<const unsigned char> bytes, int bits, bool are_floats = false)
      : bytes_(bytes.data()),
        size_(8 * bytes.size() / static_cast<size_t>(bits)),
        bits_(bits),
        are_floats_(are_floats) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint32_t raw(size_t i) const {
    uint32_t w = 0;
    switch (bits_) {
      case 4: return bytes_[i / 2] >> 4 * (i % 2) & 15u;
      case 8: return bytes_[i];
      case 6: {
        const size_t at = 6 * i, byte = at / 8;
        return (bytes_[byte] | (at % 8 > 2 ? uint32_t{bytes_[byte + 1]} << 8 : 0u)) >> at % 8 & 63u;
      }
      default: std::memcpy(&w, bytes_ + i * static_cast<size_t>(bits_ / 8), static_cast<size_t>(bits_ / 8)); return w;
    }
  }
  uint32_t operator[](size_t i) const { return merged(raw(i)); }
  void copy(size_t first, size_t count, uint32_t* out) const {
    const bool is_even = first % 2 == 0;
    if (bits_ == 4 && is_even) {
      const unsigned char* const from = bytes_ + first / 2;
      for (size_t i = 0; i < count / 2; ++i) out[2 * i] = from[i] & 15u, out[2 * i + 1] = from[i] >> 4u;
      if (count % 2 != 0) out[count - 1] = from[count / 2] & 15u;
    } else if (bits_ == 32) {
      std::memcpy(out, bytes_ + 4 * first, 4 * count);
      for (size_t i = 0; i < count && are_floats_; ++i) out[i] = merged(out[i]);
    } else {
      for (size_t i = 0; i < count; ++i) out[i] = raw(first + i);
    }
  }
  Elements some(size_t first, size_t count) const {
    auto out = large_vector<uint32_t>(count);
    copy(first, count, out.data());
    return out;
  }
  Elements all() const { return some(0, size_); }

 private:
  uint32_t merged(uint32_t w) const { return are_floats_ && (w & 0x7FFFFFFFu) > 0x7F800000u ? canonical_nan_bits : w; }

  std::shared_ptr<const Elements> made_{};
  const unsigned char* bytes_ = nullptr;
  size_t size_ = 0;
  int bits_ = 32;
  bool are_floats_ = false;
};

}  // namespace fp4::golden
