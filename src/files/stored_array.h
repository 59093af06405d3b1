// What a format's parser hands to the reader: where the elements of one array lie and how they are laid out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/files/dtype.h"
#include "src/text/byte_source.h"

namespace fp4 {

struct StoredArray {
  Bytes bytes{};
  std::uint64_t offset = 0;  // of the first element; byte_count(dtype, shape) bytes follow, checked by the parser
  Dtype dtype = Dtype::f32;
  Shape shape{};
  bool big_endian = false;
  bool fortran_order = false;        // first axis fastest
  std::string opaque{};              // '<V2', '|V1': numpy knows the width alone, and dtype is a stand-in of that width
  std::vector<std::string> notes{};  // what a person should hear about ("big endian: converted")
};

// Name, type and shape of an array inside a container.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::string opaque{};  // as in StoredArray
};

}  // namespace fp4
