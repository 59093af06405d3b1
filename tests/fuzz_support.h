// What the fuzzers of tensor files share: open bytes as a file of the given name, read everything in it by rows,
// forwards, transposed and as codes. Only fp4::Error may come out. And how they write numbers into files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/files/tensor_reader.h"
#include "src/text/error.h"

namespace fp4::fuzz {

// The lowest `bytes` bytes of a value, little-endian, behind what a string or a vector of bytes holds.
template <class Bytes>
void put(Bytes& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t b = 0; b < bytes; ++b) to.push_back(static_cast<typename Bytes::value_type>(value >> (8 * b)));
}

inline void read_some(TensorReader& reader) {
  // A row is the caller's unit of memory; a real caller also refuses rows it cannot hold.
  constexpr std::uint64_t kMaxElements = 1 << 20;
  if (reader.cols() > kMaxElements || reader.rows() == 0) return;
  const std::uint64_t step = std::min(reader.rows(), kMaxElements / std::max<std::uint64_t>(reader.cols(), 1));
  std::vector<float> values(static_cast<std::size_t>(step * reader.cols()));
  std::vector<unsigned char> codes(static_cast<std::size_t>(step) * reader.row_bytes());
  reader.read_raw(0, step, codes.data());
  reader.read_rows(reader.rows() - step, step, values.data());
}

inline void read_all(const std::string& name, const std::uint8_t* data, std::size_t size,
                     const OpenOptions& options = {}) {
  try {
    TensorReader reader(open_memory(name, {data, data + size}), options);
    for (const bool transposed : {false, true}) {
      if (transposed) reader.transpose();
      try {
        read_some(reader);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

// A .npy of version 1.0 whose dictionary and elements are the given bytes; the first one counts the elements' bytes.
// At least one byte, at most 65,000.
inline std::vector<std::uint8_t> npy_of(const std::uint8_t* data, std::size_t size) {
  const std::size_t elements = std::min<std::size_t>(data[0], size - 1), text = size - 1 - elements;
  std::vector<std::uint8_t> file = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  file.push_back(static_cast<std::uint8_t>(text & 0xff));
  file.push_back(static_cast<std::uint8_t>(text >> 8));
  file.insert(file.end(), data + 1, data + size);
  return file;
}

}  // namespace fp4::fuzz
