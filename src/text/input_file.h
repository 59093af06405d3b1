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

// The files that a command has read: no output of it takes the place of one (output.h), whatever --force says. Files
// are told apart by device and inode, so that no other name of one hides it.

/// From here on.
void keep_inputs();
/// While it lives, of this thread: a call of a library, whose host may make anew what an earlier call has read.
struct InputsOfCall {
  InputsOfCall();
  ~InputsOfCall();
};
/// What is said first of a file holds; one that the command brings up to date may be replaced.
void note_input(const std::string& path, bool may_be_replaced = false);
/// Throws Error where the file of this name is an input.
void refuse_input(const std::string& path);

}  // namespace fp4
