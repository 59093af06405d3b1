// What the name of an array says: "scales_128x4_transposed" is the stage `scales` of the transposed operand in tiles.
// The names are those that make_arrays() gives (suite.cpp), and codes_ and scales_ with every layout of digit_layout.h.
#pragma once

#include <string>
#include <string_view>

#include "src/layout/digit_layout.h"

namespace fp4::golden {

// What is judged, in the order of a kernel's work.
inline constexpr const char* stage_names[] = {"scales", "tensor_scale", "codes", "dequantized", "output"};
inline constexpr const char* input_stage = "input";  // what a kernel is given: input, a, b, random, metadata

struct ArrayName {
  std::string stage;  // one of stage_names, input_stage, or "" for a name that no bundle has
  std::string part;   // the array whatever its layout: "scales_transposed"; outputs of all accumulators are "output"
  bool is_transposed = false;
  CodeLayout code_layout = CodeLayout::low_first;
  ScaleLayout scale_layout = ScaleLayout::linear;
};

inline ArrayName parse_array_name(std::string_view name) {
  ArrayName out;
  std::string_view base = name;
  constexpr std::string_view transposed = "_transposed";
  out.is_transposed = base.ends_with(transposed);
  if (out.is_transposed) base.remove_suffix(transposed.size());
  for (const CodeLayoutInfo& layout : code_layout_table)
    if (base == std::string("codes_") + layout.name) {
      out.code_layout = layout.id;
      base = "codes";
    }
  for (const ScaleLayoutInfo& layout : scale_layout_table)
    if (base == std::string("scales_") + layout.name) {
      out.scale_layout = layout.id;
      base = "scales";
    }
  if (base.starts_with("output_")) base = "output";
  for (const char* stage : stage_names)
    if (base == stage) out.stage = stage;
  for (const char* given : {"input", "a", "b", "random", "metadata"})
    if (base == given) out.stage = input_stage;
  if (!out.stage.empty()) out.part = std::string(base) + std::string(out.is_transposed ? transposed : "");
  return out;
}

}  // namespace fp4::golden
