// Models in several GGUF files, as llama.cpp's gguf-split makes them: each says its number (split.no, from 0), how many
// there are (split.count) and how many tensors all of them hold (split.tensors.count). llama.cpp refuses other counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/files/gguf.h"

namespace fp4 {

// Whether the files of a model are parts of one. Error, naming the file, where a part is missing or there twice, or
// where `in` is one part by itself.
bool check_split(const std::string& in, const std::vector<std::string>& files);

// The entries of a part, `source`, with another split.tensors.count; `metadata` holds them from its beginning on.
void set_split_tensors(GgufMetadata& metadata, const std::string& source, std::uint64_t tensors);

}  // namespace fp4
