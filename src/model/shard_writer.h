// One file of a model that is written, in the format that its scheme asks for, and the SHA-256 of its bytes.
#pragma once

#include <optional>
#include <string>

#include "src/files/gguf_writer.h"
#include "src/files/sha256.h"
#include "src/files/tensor_writer.h"
#include "src/model/model_plan.h"

namespace fp4 {

class ShardWriter {
 public:
  // The tensors of `shard`, in their order: a .safetensors with its __metadata__, or a GGUF with its entries.
  ShardWriter(const std::string& path, const PlannedShard& shard);
  // The next bytes, across the ends of tensors.
  void write(const void* data, size_t bytes);
  void commit();
  // Of the whole file, after commit(): hashed as it was written, of a GGUF read once more.
  std::string sha256();

 private:
  std::string path_;
  std::optional<SafetensorsWriter> safetensors_ = {};
  std::optional<GgufWriter> gguf_ = {};
  Sha256 hash_{};
};

}  // namespace fp4
