// The conformance pack: what every preset, adder, order, packing and format of this version does, as .npy files and one
// manifest.json, for implementations that do not have this program. tools/examples/read_pack.py reads it with numpy.
#pragma once

#include <filesystem>
#include <string>

namespace fp4::golden {

struct PackSize {
  size_t files = 0;
  uint64_t bytes = 0;
};

// A folder that appears whole or not at all:
//   presets/NAME/KIND/{input,codes,scales,tensor_scale,dequantized}.npy   [8, 160] of boundary, special and bf16 inputs
//   accumulators/OPERANDS/{a,b}_{codes,scales,tensor_scale}.npy, NAME.npy  products [6, 5] over K = 256
//   packings/words.npy, NAME.npy                                           draws that a word of 32 bits gives
//   layouts/{codes,scales}.npy, nibbles_NAME.npy, scales_NAME.npy
//   formats/NAME.npy                                                       value of every code, float64
// The manifest has shape, type and SHA-256 of every file, the spec of every preset, the address of every layout, and
// the names of IEEE P3109 where it has the same thing.
PackSize write_pack(const std::filesystem::path& dir, bool force, const std::string& backend, int threads);

}  // namespace fp4::golden
