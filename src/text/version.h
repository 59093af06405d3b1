// The version of the program (CMakeLists.txt), as manifests, provenance and `fp4sim version` tell it.
#pragma once

namespace fp4 {

const char* version();

}  // namespace fp4
