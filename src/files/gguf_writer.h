// GGUF files of version 3, little endian (gguf.h says how they are laid out), streamed as the other writers do.
#pragma once

#include <string>
#include <vector>

#include "src/files/gguf.h"
#include "src/files/output_file.h"

namespace fp4 {

// The same entries with the general.file_type of a model whose matrices are MXFP4 or NVFP4 (llama.h, enum llama_ftype),
// and the general.quantization_version of ggml.h, which loaders of quantised files ask for.
GgufMetadata with_file_type(GgufMetadata metadata, GgufValues values);

// The type that holds plain elements; Error, which `place` opens, for a Dtype that GGUF lacks.
const GgufType& gguf_type_of(const std::string& place, Dtype dtype);
// MXFP4 or NVFP4.
const GgufType& gguf_type_of(GgufValues values);

// Tensors [name, type, shape] in the order in which their elements are written; offsets are worked out here.
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
