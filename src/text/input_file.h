// The files that a command has read: no output of it takes the place of one (output.h), whatever --force says. Files
// are told apart by device and inode, so that no other name of one hides it.
#pragma once

#include <string>

namespace fp4 {

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
