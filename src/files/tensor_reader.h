// Tensors from .npy, .npz, .safetensors and raw files, by rows, in memory bounded by the rows asked for.
// The format follows from the extension, or from the first bytes where the extension says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/files/stored_array.h"

namespace fp4 {

struct OpenOptions {
  std::string entry{};                  // the array in a .npz or .safetensors; empty: its only one
  bool uint16_is_bfloat16 = false;      // numpy has no bfloat16, so dumps carry it as uint16 (or opaque '<V2')
  std::optional<Dtype> opaque_dtype{};  // what opaque numpy elements ('<V2', '|V1') are; refused without
  std::optional<Dtype> raw_dtype{};     // with raw_shape: the file is bare elements, little endian, C order
  Shape raw_shape{};
};

// The options that words say; Error for a shape without a dtype and for unknown words.
OpenOptions open_options_of(const std::string& dtype, const std::string& shape, const std::string& entry,
                            bool uint16_is_bfloat16);

class TensorReader {
 public:
  // `path` may also be FILE.npz:ENTRY or FILE.safetensors:ENTRY. Error when the file cannot be read, is malformed, has
  // several arrays and no entry is named, or is raw and its size is not that of dtype and shape.
  explicit TensorReader(const std::string& path, const OpenOptions& options = {});
  // The same for bytes at hand; the extension of their name counts.
  explicit TensorReader(Bytes bytes, const OpenOptions& options = {});

  const std::string& name() const { return array_.bytes->name(); }  // opens messages
  Dtype dtype() const { return array_.dtype; }
  const Shape& shape() const { return array_.shape; }  // as in the file, also after transpose()
  std::uint64_t rows() const { return rows_; }         // [product of the leading axes, last axis]; scalars [1, 1]
  std::uint64_t cols() const { return cols_; }
  std::size_t row_bytes() const;  // of read_raw(); packed elements fill whole bytes per row, or the reader refuses

  // Swaps rows and columns of the matrix: read_rows then gives rows of its transpose. Error for packed elements.
  void transpose();

  // Rows [first, first + count) as float32, [count, cols()]. float16, bfloat16 and integers of up to 24 bits exactly,
  // float64 and wider integers rounded to nearest even, with a note. Error for codes (fp8, fp4, complex), for rows past
  // the end, and when an archive's checksum does not match.
  // C order reads straight through; Fortran order and transposes read panels of up to 32 MiB (at least one row).
  void read_rows(std::uint64_t first, std::uint64_t count, float* out);

  // The same rows as little-endian elements of dtype(), count * row_bytes() bytes.
  void read_raw(std::uint64_t first, std::uint64_t count, void* out);

  // What a person should hear: conversions made so far. Complete once the first rows are read.
  const std::vector<std::string>& notes() const { return array_.notes; }

  // Whether copies can read at the same time, in any order: neither compressed, nor checked as it goes by, nor
  // gathered.
  bool reads_anywhere() const { return axes_.empty() && array_.bytes->reads_anywhere(); }

 private:
  void prepare(const OpenOptions& options);
  void read_stored(std::uint64_t first, std::uint64_t count, unsigned char* out);

  StoredArray array_{};
  std::uint64_t rows_ = 0, cols_ = 0;
  bool transposed_ = false;
  std::vector<FileAxis> axes_{};  // empty: rows lie in the file as they are
  std::vector<unsigned char> panel_{};
  std::uint64_t panel_first_ = 0, panel_count_ = 0;
  bool noted_ = false;
};

// What a file holds, in its order: one unnamed row for .npy. Reads headers only.
std::vector<TensorInfo> list_tensors(const std::string& path);

// Whole arrays, for small ones. Error over `max_bytes` (of the result) instead of filling the memory.
struct FloatTensor {
  Shape shape;
  std::vector<float> values;
  std::vector<std::string> notes;
};
struct RawTensor {
  Dtype dtype;
  Shape shape;
  std::vector<unsigned char> bytes;
  std::vector<std::string> notes;
};
inline constexpr std::uint64_t kWholeTensorBytes = std::uint64_t{8} << 30;
FloatTensor load_floats(const std::string& path, const OpenOptions& options = {},
                        std::uint64_t max_bytes = kWholeTensorBytes);
RawTensor load_raw(const std::string& path, const OpenOptions& options = {},
                   std::uint64_t max_bytes = kWholeTensorBytes);

}  // namespace fp4
