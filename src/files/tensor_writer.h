// Tensors to .npy, .npz, .safetensors and raw files, streamed: whatever is written appears on commit(), whole or not at
// all (output_file.h), and equal contents give equal bytes. Elements are little endian, C order.
// Errors: exit code 2 for a place that cannot be written or a type that a format lacks, 1 when writing fails (full
// disk).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/files/sha256.h"
#include "src/files/stored_array.h"
#include "src/files/zip.h"

namespace fp4 {

// One array in a .npy; any other extension means bare elements (.bin). Error for .npz and .safetensors, which have
// writers below, and .gguf.
class TensorWriter {
 public:
  // Whether sha256() will be asked for: hashed by write(), or by hash(), which another thread may call meanwhile.
  enum class Hashed : std::uint8_t { no, by_write, apart };
  TensorWriter(const std::string& path, Dtype dtype, Shape shape, bool force = false, Hashed hashed = Hashed::no);

  // The next elements. std::logic_error when they pass the shape's end.
  void write(const void* elements, std::size_t bytes);
  template <class Element>
  void write(const std::vector<Element>& elements) {
    write(elements.data(), elements.size() * sizeof(Element));
  }
  // The next elements for the hash, in the order of write(); std::logic_error unless Hashed::apart.
  template <class Element>
  void hash(const std::vector<Element>& elements) {
    hash(elements.data(), elements.size() * sizeof(Element));
  }
  void commit();  // std::logic_error when elements are missing
  // Of the whole file, header included; once, when all elements are written and hashed.
  std::string sha256() { return hash_.hex(); }

 private:
  void hash(const void* elements, std::size_t bytes);

  OutputFile out_;
  std::uint64_t left_;  // bytes still to come
  Hashed hashed_;
  Sha256 hash_{};
};

enum class Compression { stored, deflated };

// .npz as numpy.savez (stored) or savez_compressed (deflated).
class NpzWriter {
 public:
  NpzWriter(const std::string& path, Compression compression, bool force = false);

  // Starts the array `name` (without ".npy"); all elements of the one in front must have been written.
  void begin(const std::string& name, Dtype dtype, const Shape& shape);
  void write(const void* elements, std::size_t bytes);
  void commit();

 private:
  void end();

  OutputFile out_;
  ZipWriter zip_;
  Compression compression_;
  std::uint64_t left_ = 0;
  bool open_ = false;
};

// .safetensors: names, types and shapes first, then all elements in that order.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata = {}, bool force = false);
  void write(const void* elements, std::size_t bytes);
  void commit();

 private:
  OutputFile out_;
  std::uint64_t left_ = 0;
};

// A whole array in the format of the extension: .npy, .npz (stored, array "arr_0" as numpy names it), .safetensors
// (array "tensor"), anything else as TensorWriter does.
void save_tensor(const std::string& path, Dtype dtype, const Shape& shape, const void* elements, bool force = false);

}  // namespace fp4
