// .npz archives (numpy.savez, numpy.savez_compressed): a ZIP whose entries NAME.npy are .npy files.
#pragma once

#include <string>
#include <vector>

#include "src/files/stored_array.h"

namespace fp4 {

// The arrays' names without ".npy", in the archive's order; other entries are left out.
std::vector<std::string> npz_names(const Bytes& archive);

// One array. Error when `name` is none of them (naming the nearest), and all errors of zip.h and npy.h.
StoredArray parse_npz(const Bytes& archive, const std::string& name);

}  // namespace fp4
