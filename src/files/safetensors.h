// The safetensors format (github.com/huggingface/safetensors): 8 bytes header length, a JSON object
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {"key": "text"}}, then the
// elements, little endian, C order, which the offsets cover without holes or overlaps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/files/stored_array.h"

namespace fp4 {

struct SafetensorsEntry {
  TensorInfo tensor{};
  std::uint64_t begin = 0;  // in the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in file order
  std::map<std::string, std::string> metadata;
};

// Error on a header over 100,000,000 bytes (the reference implementation's limit) or longer than the file, JSON that is
// malformed, nested deeper than the format is, or has a key twice; on unknown dtypes and keys, numbers that are not
// integers of 0 or more, and offsets that do not match dtype and shape or leave bytes uncovered.
SafetensorsHeader parse_safetensors(const Bytes& bytes);

// Everything in front of the elements, which start at a multiple of 8 bytes. The elements follow in the order of
// `tensors`; put wide types first if consumers want them aligned. Error when a name appears twice.
std::string safetensors_header(const std::vector<TensorInfo>& tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace fp4
