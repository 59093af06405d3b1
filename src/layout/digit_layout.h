// Orders in which kernels keep block scales and FP4 codes. A layout is a row: the digits of an address, slowest first.
// A digit is index/step % extent of the row or the column; together they are one number of mixed radix, which counts
// scales (one byte each) or codes: position p takes bits p*4 and up (p*6 for six-bit codes, p*8 where each has a byte)
// of the bytes, low bits first; a little-endian uint32 holds eight of four bits. So 128x4 reads: tile of 128 rows, tile
// of 4 columns, row mod 32, row/32 mod 4, column mod 4. Scales are [rows, K/B] and codes [rows, K], K the axis that the
// product contracts. Padding is zero.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fp4/axis.h"

namespace fp4::golden {

struct Placing {
  int64_t row_multiple, col_multiple;  // rows and columns are padded to these
  const char* digits;                  // "r/128, c/4, r%32, r/32%4, c%4"; "1-c%2" counts down from 1
  constexpr Placing(int64_t rows, int64_t cols, const char* text)
      : row_multiple(rows), col_multiple(cols), digits(text) {}
};

enum class ScaleLayout : uint8_t { linear, tile_128x4, amd_preshuffled, column_major, tile_8x4, gfx950, deepgemm };

struct ScaleLayoutInfo {
  ScaleLayout id;
  const char* name;
  Placing placing;
  bool in_bundles;  // written into golden bundles; the others are worked out from the linear array
  const char* doc;
  const char* source;
};
inline constexpr ScaleLayoutInfo scale_layout_table[] = {
    {ScaleLayout::linear, "linear", Placing(1, 1, "r, c"), true, "row-major, unpadded", "cli.md; torchao, vLLM"},
    {ScaleLayout::tile_128x4, "128x4", Placing(128, 4, "r/128, c/4, r%32, r/32%4, c%4"), true,
     "cuBLAS, CUTLASS, tcgen05: tiles of 512 bytes", "cuBLAS documentation, 1D block scaling factors layout"},
    {ScaleLayout::amd_preshuffled, "amd_preshuffled", Placing(256, 8, "r/32, c/8, c%4, r%16, c/4%2, r/16%2"), true,
     "AITER on MI355X", "AITER fp4_utils.e8m0_shuffle; mxDataGenerator PreSwizzle.hpp"},
    {ScaleLayout::column_major, "column_major", Placing(1, 1, "c, r"), false, "transposed, unpadded",
     "triton_kernels MX scales [K/32, rows]"},
    {ScaleLayout::tile_8x4, "8x4", Placing(8, 4, "r/8, c/4, r%8, c%4"), false,
     "TensorRT-LLM and FlashInfer for few rows: tiles of 32 bytes", "TensorRT-LLM get_sf_out_offset_8x4"},
    {ScaleLayout::gfx950, "gfx950", Placing(32, 8, "r/32, c/8, c%4, r%16, c/4%2, r/16%2"), false,
     "hipBLASLt and Triton: AITER's order", "hipBLASLt BLK32_UE8M0_32_8_EXT; Triton GFX950MXScaleLayout"},
    {ScaleLayout::deepgemm, "deepgemm", Placing(4, 4, "c/4, r, c%4"), false,
     "four columns an int32, MN-major, rows padded to 16 bytes", "DeepGEMM smxx_layout.hpp"},
};
static_assert(ids_are_indices(scale_layout_table));

enum class CodeLayout : uint8_t {
  low_first,
  high_first,
  unpacked,
  column_major,
  half_split_32,
  half_split_16,
  uint32,
  gptq,
  marlin,
  aiter,
  fp6_low_first
};

struct CodeLayoutInfo {
  CodeLayout id;
  const char* name;
  Placing placing;
  int word_bytes;  // of the array's elements
  int bits;        // of memory for a code: 4, 6, or 8 where each has a byte
  const char* doc;
  const char* source;
};
inline constexpr CodeLayoutInfo code_layout_table[] = {
    {CodeLayout::low_first, "low_first", Placing(1, 2, "r, c"), 1, 4, "row-major, the even column in the low nibble",
     "torch.float4_e2m1fn_x2; safetensors F4; PTX cvt e2m1x2"},
    {CodeLayout::high_first, "high_first", Placing(1, 2, "r, c/2, 1-c%2"), 1, 4,
     "row-major, the even column in the high nibble", "bitsandbytes kQuantizeBlockwise"},
    {CodeLayout::unpacked, "unpacked", Placing(1, 1, "r, c"), 1, 8, "row-major, a byte for each code",
     "torchao f4_unpacked"},
    {CodeLayout::column_major, "column_major", Placing(2, 1, "c, r"), 1, 4,
     "transposed, the even row in the low nibble", "MN-major storage; Triton dot_scaled, k_pack=False"},
    {CodeLayout::half_split_32, "half_split_32", Placing(1, 32, "r, c/32, c%16, c/16%2"), 1, 4,
     "byte j of 32 codes holds j low and j+16 high", "ggml block_mxfp4"},
    {CodeLayout::half_split_16, "half_split_16", Placing(1, 16, "r, c/16, c%8, c/8%2"), 1, 4,
     "byte j of 16 codes holds j low and j+8 high", "ggml block_nvfp4"},
    {CodeLayout::uint32, "uint32", Placing(1, 8, "r, c"), 4, 4, "eight columns a word, row-major",
     "vLLM marlin_utils_fp4.py"},
    {CodeLayout::gptq, "gptq_uint32", Placing(1, 8, "c/8, r, c%8"), 4, 4, "eight columns a word, words [K/8, rows]",
     "GPTQ qweight; vLLM gptq_marlin_repack input"},
    {CodeLayout::marlin, "marlin_uint32", Placing(64, 16, "c/16, r/64, r%8, c/2%4, r/16%4, c%2, r/8%2, c/8%2"), 4, 4,
     "tiles of 16 x 64 as lanes of mma.m16n8k16 read them", "Marlin get_weight_perm(4), marlin_weights"},
    {CodeLayout::aiter, "aiter_16x16", Placing(16, 64, "r/16, c/64, c/32%2, r%16, c%32"), 1, 4,
     "tiles of 16 rows x 16 bytes, two to a step of K", "AITER shuffle_weight, layout (16, 16)"},
    {CodeLayout::fp6_low_first, "fp6_low_first", Placing(1, 4, "r, c"), 1, 6,
     "six-bit codes without gaps, four in three bytes, row-major",
     "safetensors F6_E2M3, F6_E3M2; HIP __amd_fp6x32_storage_t"},
};
static_assert(ids_are_indices(code_layout_table));

// Whether codes of an element format of so many bits lie in it: those of its width, and up to eight bits unpacked.
constexpr bool holds(const CodeLayoutInfo& layout, int code_bits) {
  return layout.bits == code_bits || (layout.bits == 8 && code_bits < 8);
}

// "r/128, c/4, r%32, r/32%4, c%4; padded to 128 x 4".
std::string address_text(const Placing& placing);

// Where elements lie. A digit depends on the row or on the column alone, so an address is the sum of two numbers.
class Placement {
 public:
  Placement(const Placing& placing, int64_t rows, int64_t cols);
  int64_t at(int64_t row, int64_t col) const {
    return row_part_[static_cast<size_t>(row)] + col_part_[static_cast<size_t>(col)];
  }
  int64_t size() const { return size_; }  // with padding

 private:
  std::vector<int64_t> row_part_, col_part_;
  int64_t size_;
};

// One-byte scales [rows, cols] in another order, and back. from_layout: Error, which `place` opens, when there are more
// or fewer bytes than the layout has.
int64_t padded_size(ScaleLayout layout, int64_t rows, int64_t cols);
std::vector<uint8_t> to_layout(ScaleLayout layout, const std::vector<uint8_t>& scales, int64_t rows, int64_t cols);
std::vector<uint8_t> from_layout(ScaleLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place);

// FP4 or FP6 codes [rows, cols], one a byte, to the bytes of a layout, and back. What the layout has no room for, the
// high bits of a code, is left out.
int64_t padded_bytes(CodeLayout layout, int64_t rows, int64_t cols);
std::vector<uint8_t> to_layout(CodeLayout layout, const std::vector<uint8_t>& codes, int64_t rows, int64_t cols);
std::vector<uint8_t> from_layout(CodeLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place);

// The layout of a word; Error, which `place` opens, for one that no row has.
ScaleLayout scale_layout_of(const std::string& place, const std::string& word);
CodeLayout code_layout_of(const std::string& place, const std::string& word);

}  // namespace fp4::golden
