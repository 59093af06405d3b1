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

// How far one step along an axis of the file goes in a matrix, whose rows may lie in the file in another order: Fortran
// order, or the transpose of either order (axis_steps.cpp).
struct FileAxis {
  std::uint64_t extent = 1;
  std::uint64_t row_step = 0, col_step = 0;
};

// The axes of `array` from slowest to fastest in the file, as steps in its matrix [rows, cols] (dtype.h) or, with
// `transposed`, in [cols, rows].
std::vector<FileAxis> file_axes(const StoredArray& array, bool transposed);

// Copies rows [first, first + count) of the matrix with `cols` columns into `out` (row-major, elements as stored), in
// one pass over the file in rising offsets. Extra memory: at most 2 MiB. Elements of 1, 2, 4 or 8 bytes.
void gather_rows(const StoredArray& array, const std::vector<FileAxis>& axes, std::uint64_t cols, std::uint64_t first,
                 std::uint64_t count, unsigned char* out);

// Name, type and shape of an array inside a container.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::string opaque{};  // as in StoredArray
};

// The .npy format, versions 1.0, 2.0 and 3.0 (numpy/lib/format.py, NEP 1): magic, header length, a Python dictionary
// with exactly the keys descr, fortran_order and shape, then the elements.

// Reads and checks the header, and that the elements fill the rest of `bytes` exactly. Error on wrong magic, unknown
// version, a header of more than 65,535 bytes, anything but that dictionary, an unsupported descr (objects, structures,
// strings), or a size that does not match. Big endian is accepted with a note; opaque types ('|V1', '<V2': what numpy
// writes for the ml_dtypes package's bfloat16 and fp8) are parsed, but have no values until the caller says what they
// are.
StoredArray parse_npy(Bytes bytes);

// Everything in front of the elements, version 1.0, little endian, C order; the elements start at a multiple of 64
// bytes. bf16 and fp8 are stored as the unsigned integers of their width. Error for packed types (under 8 bits).
std::string npy_header(Dtype dtype, const Shape& shape);

}  // namespace fp4
