// SHA-256 of the shards that `quantize` and `dequantize` wrote, kept in fp4sim.json beside them and compared when they
// are read again: one flipped bit of a code is a weight like any other.
#pragma once

#include <string>
#include <vector>

namespace fp4 {

inline constexpr const char* model_record = "fp4sim.json";

// Error (exit code 1) for a file that is not the one of fp4sim.json in its folder; files without such a record pass.
// `command` opens it.
void check_hashes(const std::string& command, const std::vector<std::string>& files);

}  // namespace fp4
