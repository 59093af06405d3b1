// One file of a model that is written, in the format that its scheme asks for, and the SHA-256 of its bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/files/gguf_writer.h"
#include "src/files/sha256.h"
#include "src/files/tensor_writer.h"
#include "src/model/model_plan.h"

namespace fp4 {

class ShardWriter {
 public:
  // The tensors of `plans`, in their order: a .safetensors with this __metadata__, or a GGUF with these entries.
  ShardWriter(const std::string& path, const std::vector<const Plan*>& plans,
              const std::map<std::string, std::string>& metadata);
  ShardWriter(const std::string& path, const std::vector<const Plan*>& plans, const GgufMetadata& metadata);
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
