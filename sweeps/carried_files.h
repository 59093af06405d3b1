// The data files of this folder (recipes/, grids/, hardware/, models/, report/) as the program carries them;
// the table is made by tools/cmake/embed.cmake. To be given to register_embedded (src/text/embedded.h) once per
// program.
#pragma once

#include <span>

#include "src/text/embedded.h"

namespace fp4 {

std::span<const EmbeddedFile> sweeps_data();

// The report's chart library, one file; empty when node_modules was missing at build time.
std::span<const EmbeddedFile> chart_library_data();

// The licences of what the program carries of others, one text (tools/cmake/notices.cmake).
std::span<const EmbeddedFile> notices_data();

}  // namespace fp4
