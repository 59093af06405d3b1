// Every test program carries the data files, as the real program does: this object is linked as a whole.
#include "sweeps/carried_files.h"

namespace {
[[maybe_unused]] const bool registered = (fp4::register_embedded(fp4::sweeps_data()), true);
}
