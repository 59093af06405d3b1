// The one way in which a whole file of somebody else comes into memory. A pipe would wait for ever and a device never
// ends, so both are refused; what a file gains while it is read does not count.
#pragma once

#include <cstdint>
#include <string>

#include "src/text/byte_source.h"

namespace fp4 {

inline constexpr std::uint64_t any_size = ~std::uint64_t{0};

/// The content of a regular file of at most `most` bytes. Error with exit code 2, naming the file: absent, not
/// readable, a folder, a pipe, a device, larger; with exit code 1 when the disk fails.
std::string read_file(const std::string& path, std::uint64_t most = any_size);

}  // namespace fp4
