// The .npy format, versions 1.0, 2.0 and 3.0 (numpy/lib/format.py, NEP 1): magic, header length, a Python dictionary
// with exactly the keys descr, fortran_order and shape, then the elements.
#pragma once

#include <string>

#include "src/files/stored_array.h"

namespace fp4 {

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
