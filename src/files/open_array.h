// Which format a file has, and which array in it is meant.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/files/tensor_reader.h"
#include "src/files/zip.h"

namespace fp4 {

// Where one array of a file lies, found once: whoever reads many of them parses the file's header no second time.
struct ArrayPlace {
  TensorInfo info = {};
  Bytes bytes = {};                            // of the whole file
  std::uint64_t offset = 0;                    // .safetensors: of the first element
  std::shared_ptr<const ZipEntry> entry = {};  // .npz
};

// What a file holds, in its order; one row without a name for .npy. Reads headers only.
std::vector<ArrayPlace> list_arrays(const Bytes& bytes);

// The array of such a place. Errors of the format's parser; `options` as for a file with that array alone.
TensorReader reader_at(const ArrayPlace& place, OpenOptions options = {});

// The array that `options` names. Error with the accepted words when it is not clear.
StoredArray open_array(const Bytes& bytes, const OpenOptions& options);

// .npz archives (numpy.savez, numpy.savez_compressed): a ZIP whose entries NAME.npy are .npy files. The arrays' names
// without ".npy", in the archive's order; other entries are left out.
std::vector<std::string> npz_names(const Bytes& archive);

// One of them. Error when `name` is none of them (naming the nearest), and all errors of zip.h and parse_npy().
StoredArray parse_npz(const Bytes& archive, const std::string& name);

// Error for a file of torch.save, which names it and says what to save instead.
void refuse_pickle(const Bytes& bytes);

// "w.safetensors:layer.0" -> {"w.safetensors", "layer.0"}; a path that exists as it stands is never split.
struct PathAndEntry {
  std::string path, entry;
};
PathAndEntry split_entry(const std::string& path);

}  // namespace fp4
