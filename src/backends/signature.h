// One number that says whether any arithmetic changed: 16 hex digits over a frozen list of cases that touches every
// axis. A new format or variant leaves it alone (the list names its cases); a changed bit anywhere does not.
#pragma once

#include <string>

namespace fp4 {

// Computed by the reference backend, a tenth of a second; the same on every machine.
std::string computed_signature();

// The same, for what a program writes. The build of fp4sim computes it with the library that the program is linked to
// (tools/CMakeLists.txt); elsewhere it is computed at the first call.
const std::string& arithmetic_signature();

}  // namespace fp4
