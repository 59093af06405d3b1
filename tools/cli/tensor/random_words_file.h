// `--random-words FILE`: the random bits that a kernel took, in place of Philox's (fp4/backend.h, QuantizeCall).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace fp4::tools {

// The bytes of an array of unsigned integers (.npy and others; a raw file takes --dtype and --shape), low bytes first.
// Error for other types and for an empty file.
std::vector<uint32_t> load_random_words(const std::string& option, const std::string& path);

void add_random_words_option(CLI::App& app, const std::string& option, std::string& path, const std::string& of);

}  // namespace fp4::tools
