// Data files that the program carries (recipes, grids, hardware profiles, the report page), read by name at run time.
// The folder that owns the files declares them (tools/cmake/embed.cmake makes one function per call) and the program
// registers that function's table; so src holds no name of a folder to its right.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fp4 {

struct EmbeddedFile {
  std::string_view path;     // "recipes/mxfp4.json"
  std::string_view content;  // followed by a zero byte that is not counted
};

// Adds a table; registering the same table again changes nothing. Call before any thread reads.
void register_embedded(std::span<const EmbeddedFile> table);

// The content of one file; throws Error with the accepted names of its folder when there is none.
std::string_view embedded(std::string_view path);

// Sorted paths of the files directly or deeper below `folder` ("recipes", or "" for all); empty when there is none.
std::vector<std::string_view> embedded_names(std::string_view folder);

}  // namespace fp4
