// `-` as an input file: standard input as a temporary file, which whatever reads by place can open.
#pragma once

#include <string>

namespace fp4::tools {

// `word`, or for "-" the path of a file with the bytes of standard input, removed when the process ends. The extension
// follows the first bytes: .npy, .npz, .gguf, .safetensors, else .bin (raw numbers: --dtype and --shape say which).
// `place` opens messages. Throws Error when standard input is a terminal or cannot be read, or nothing can be written.
std::string input_path(const std::string& word, const std::string& place);

}  // namespace fp4::tools
