#include "src/model/shard_writer.h"

#include "src/files/safetensors.h"

namespace fp4 {

ShardWriter::ShardWriter(const std::string& path, const PlannedShard& shard) : path_(path) {
  if (shard.gguf) {
    std::vector<GgufTensor> tensors;
    for (const Plan* plan : shard.tensors)
      for (size_t i = 0; i < plan->infos.size(); ++i)
        tensors.push_back({plan->infos[i].name, plan->types[i], plan->infos[i].shape, 0, 0});
    gguf_.emplace(path, *shard.gguf, std::move(tensors));
    return;
  }
  std::vector<TensorInfo> infos;
  for (const Plan* plan : shard.tensors) infos.insert(infos.end(), plan->infos.begin(), plan->infos.end());
  safetensors_.emplace(path, infos, shard.metadata);
  const std::string header = safetensors_header(infos, shard.metadata);
  hash_.update(header.data(), header.size());
}

void ShardWriter::write(const void* data, size_t bytes) {
  if (gguf_) return gguf_->write(data, bytes);
  hash_.update(data, bytes);
  safetensors_->write(data, bytes);
}

void ShardWriter::commit() { gguf_ ? gguf_->commit() : safetensors_->commit(); }

std::string ShardWriter::sha256() { return gguf_ ? sha256_file(path_) : hash_.hex(); }

}  // namespace fp4
