// A web page in one file that opens from a disk without a network: a template of this folder with its style, its
// scripts, the chart library and the data put in.
#pragma once

#include <string>
#include <string_view>

namespace fp4 {

/// The embedded `file` with {{title}}, {{library}}, {{data}} (deflated, in base 64) and {{file:NAME}} (of this folder)
/// replaced in one pass, so that nothing that was put in is looked at again. Throws Error where this program carries no
/// chart library.
std::string make_page(const std::string& file, std::string_view title, std::string_view data);

}  // namespace fp4
