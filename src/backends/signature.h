// One number that says whether any arithmetic changed: 16 hex digits over a frozen list of cases that touches every
// axis. A new format or variant leaves it alone (the list names its cases); a changed bit anywhere does not.
#pragma once

#include <string>

namespace fp4 {

// Computed by the reference backend at the first call, a tenth of a second; the same on every machine.
const std::string& arithmetic_signature();

}  // namespace fp4
