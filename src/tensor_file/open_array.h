// Which format a file has, and which array in it is meant.
#pragma once

#include <string>
#include <vector>

#include "src/tensor_file/tensor_reader.h"

namespace fp4 {

// The array that `options` names. Error with the accepted words when it is not clear.
StoredArray open_array(const Bytes& bytes, const OpenOptions& options);

// Error for a file of torch.save, which names it and says what to save instead.
void refuse_pickle(const Bytes& bytes);

// "w.safetensors:layer.0" -> {"w.safetensors", "layer.0"}; a path that exists as it stands is never split.
struct PathAndEntry {
  std::string path, entry;
};
PathAndEntry split_entry(const std::string& path);

}  // namespace fp4
