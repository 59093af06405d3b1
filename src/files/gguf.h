// GGUF files (ggml-org/ggml docs/gguf.md, version 2 and 3, little endian): "GGUF", version, number of tensors, number
// of metadata entries, the entries, one description a tensor (name, axes from the fastest on, type, offset), padding to
// general.alignment (32), elements. The metadata is skipped but for the alignment; a
// file that is written takes over another's as it stands (with_file_type).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/files/dtype.h"
#include "src/files/output_file.h"
#include "src/text/byte_source.h"

namespace fp4 {

// Types that have values here are plain (a Dtype) or decoded by src/model; of the others only the size is known.
enum class GgufValues : std::uint8_t { plain, q8_0, mxfp4, nvfp4, none };

struct GgufType {
  std::uint32_t id;
  const char* name;
  std::uint64_t block, bytes;  // elements of a block, and its bytes
  GgufValues values;
  Dtype dtype;  // of plain ones
};
const std::vector<GgufType>& gguf_types();

struct GgufTensor {
  std::string name;
  const GgufType* type = nullptr;
  Shape shape;               // slowest axis first, as everywhere else
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
};

// The entries in front of the tensors' descriptions, as they stand in the file.
struct GgufMetadata {
  std::uint64_t count = 0, alignment = 32;
  std::string entries = {};
  std::uint64_t file_type = 0;  // where in `entries` the number of general.file_type stands; 0: nowhere
  bool has_version = false;     // whether general.quantization_version is one of them
};
GgufMetadata metadata_of(const Bytes& bytes);
// The same entry by entry: the key, and type and value as they stand in the file.
std::vector<std::pair<std::string, std::string>> entries_of(const Bytes& bytes);

inline constexpr std::size_t ggml_longest_name = 63,
                             ggml_most_axes = 4;  // GGML_MAX_NAME without its zero, GGML_MAX_DIMS

// In the order of the file. Error, naming file and tensor, for what ggml's reader refuses (gguf.cpp of llama.cpp):
// another version, an empty or second key, general.alignment of a type other than u32, a second name, a longer one,
// more axes, an unknown type, rows that do not fill blocks, tensors that do not follow each other padded, and whatever
// passes the end of the file, the last padding with it.
std::vector<GgufTensor> list_gguf(const Bytes& bytes);

// For files of version 3, little endian, that are written: the same entries with the general.file_type of a model whose
// matrices are MXFP4 or NVFP4 (llama.h, enum llama_ftype), and the general.quantization_version of ggml.h, which
// loaders of quantised files ask for.
GgufMetadata with_file_type(GgufMetadata metadata, GgufValues values);

// The type that holds plain elements; Error, which `place` opens, for a Dtype that GGUF lacks.
const GgufType& gguf_type_of(const std::string& place, Dtype dtype);
// MXFP4 or NVFP4.
const GgufType& gguf_type_of(GgufValues values);

// Streams such a file, as the other writers do: tensors [name, type, shape] in the order in which their elements are
// written; offsets are worked out here.
class GgufWriter {
 public:
  GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensor> tensors,
             bool force = false);
  // The next bytes, across the ends of tensors. std::logic_error when they pass the last one's.
  void write(const void* data, std::size_t bytes);
  void commit();  // std::logic_error when elements are missing

 private:
  void pad();

  OutputFile out_;
  std::vector<GgufTensor> tensors_;
  std::size_t at_ = 0;      // tensor
  std::uint64_t left_ = 0;  // bytes of it to come
  std::uint64_t alignment_;
};

}  // namespace fp4
