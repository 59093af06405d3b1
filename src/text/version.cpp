// The only source that is compiled again when the version changes.
#include "src/text/version.h"

namespace fp4 {

const char* version() { return FP4_VERSION; }

}  // namespace fp4
