// Sixteen blocks, one a lane, and what a quantiser of panels carries around.
#pragma once

#include "src/cpu/quantize/draws_body.h"
#include "src/cpu/quantize/fp4_codes_body.h"
#include "src/cpu/quantize/level_body.h"
#include "src/cpu/quantize/payload_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

using cpu::CodePath;

// What becomes of the codes.
enum class Values : uint8_t {
  element,  // element values, scales apart
  scaled,   // fl32(element * scale)
  decoded   // the full value, tensor scale and prescale included
};

struct PanelOptions {
  Values values = Values::element;
  int byte_offset = 0;        // added to every byte (side A: makes them unsigned)
  int correction_factor = 0;  // != 0: correction = start - factor * sum of bytes over each run (side B)
  int32_t start = 0;
  int64_t run = 0;            // elements along K between scale changes of the product
  bool neutral_zeros = true;  // all-zero blocks get scale 0, which takes part in no range
  int level_room = -1;        // >= 0: panels may become level (level_body.h); elements can be shifted this far
  int threads = 1;            // of packing stored codes
  bool postpones = false;     // complete_panel is the caller's
  bool makes_unsigned = false;
};

// Most blocks of a lane whose scales are found together.
inline constexpr int most_blocks = 8;

// Sixteen blocks, one a lane.
struct Block {
  int64_t row0;      // first row of the panel
  int rows;          // valid rows
  int64_t k0;        // first column
  int n;             // columns
  Columns x;         // [n][16] elements
  LaneBuffer u;      // [n][16] payloads, scratch
  I amax;            // bits of the maxima over finite elements
  M nonfinite = {};  // lanes with Inf or NaN
  LaneFactor factor;
  LaneScales scales;
};

// Where a block goes; null pointers are not wanted.
struct Sink {
  int8_t* bytes;    // [n/4][16][4]
  float* values;    // [n][16]
  uint32_t* codes;  // [n][16], sign included
};

// Everything a panel quantiser carries around.
struct Quantization {
  const QuantPlan* plan = nullptr;
  PanelOptions options;
  DrawPlan draws;
  TableConstants table;
  NibbleTable magnitude_codes;  // of FP4 values
  FormatLanes element;
  FormatLanes scale;
  Panels* out = nullptr;
  Quantized* stored = nullptr;  // codes and scales in the files' layout instead of panels
};

}  // namespace fp4::FP4_ISA
