// The three writers: a header, then elements counted down to zero.
#include "src/files/tensor_writer.h"

#include <stdexcept>

#include "src/files/safetensors.h"
#include "src/files/stored_array.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

// A caller that miscounts its rows is a mistake in this program, not in the input.
void count_down(std::uint64_t& left, std::size_t bytes) {
  if (bytes > left) throw std::logic_error("tensor writer: more elements than the shape has");
  left -= bytes;
}

void require_complete(std::uint64_t left) {
  if (left != 0) throw std::logic_error("tensor writer: elements are missing");
}

// Bare elements under the name of a container would be a damaged one.
const std::string& npy_or_bare(const std::string& path) {
  for (const char* container : {".npz", ".safetensors", ".gguf"})
    if (path.ends_with(container))
      throw Error(path + ": the result is one array, which is not written as " + container +
                  "; accepted: .npy, or bare elements under another name (.bin)");
  return path;
}

}  // namespace

TensorWriter::TensorWriter(const std::string& path, Dtype dtype, Shape shape, bool force, Hashed hashed)
    : out_(npy_or_bare(path), force), left_(byte_count(path, dtype, shape)), hashed_(hashed) {
  if (!path.ends_with(".npy")) return;
  const std::string header = npy_header(dtype, shape);
  if (hashed_ != Hashed::no) hash_.update(header.data(), header.size());
  out_.write(header);
}

void TensorWriter::write(const void* elements, std::size_t bytes) {
  count_down(left_, bytes);
  if (hashed_ == Hashed::by_write) hash_.update(elements, bytes);
  out_.write(elements, bytes);
}

void TensorWriter::hash(const void* elements, std::size_t bytes) {
  if (hashed_ != Hashed::apart) throw std::logic_error("tensor writer: hashed apart without saying so");
  hash_.update(elements, bytes);
}

void TensorWriter::commit() {
  require_complete(left_);
  out_.commit();
}

NpzWriter::NpzWriter(const std::string& path, Compression compression, bool force)
    : out_(path, force), zip_(out_), compression_(compression) {}

void NpzWriter::begin(const std::string& name, Dtype dtype, const Shape& shape) {
  end();
  const std::string header = npy_header(dtype, shape);
  const std::uint64_t bytes = byte_count(name, dtype, shape);
  zip_.begin(name + ".npy", compression_ == Compression::deflated, header.size() + bytes);
  zip_.write(header.data(), header.size());
  left_ = bytes;
  open_ = true;
}

void NpzWriter::write(const void* elements, std::size_t bytes) {
  count_down(left_, bytes);
  zip_.write(elements, bytes);
}

void NpzWriter::end() {
  require_complete(left_);
  if (open_) zip_.end();
  open_ = false;
}

void NpzWriter::commit() {
  end();
  zip_.finish();
  out_.commit();
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<TensorInfo>& tensors,
                                     const std::map<std::string, std::string>& metadata, bool force)
    : out_(path, force) {
  out_.write(safetensors_header(tensors, metadata));
  for (const TensorInfo& tensor : tensors) left_ += byte_count(tensor.name, tensor.dtype, tensor.shape);
}

void SafetensorsWriter::write(const void* elements, std::size_t bytes) {
  count_down(left_, bytes);
  out_.write(elements, bytes);
}

void SafetensorsWriter::commit() {
  require_complete(left_);
  out_.commit();
}

void save_tensor(const std::string& path, Dtype dtype, const Shape& shape, const void* elements, bool force) {
  const std::size_t bytes = static_cast<std::size_t>(byte_count(path, dtype, shape));
  if (path.ends_with(".npz")) {
    NpzWriter writer(path, Compression::stored, force);
    writer.begin("arr_0", dtype, shape);
    writer.write(elements, bytes);
    return writer.commit();
  }
  if (path.ends_with(".safetensors")) {
    SafetensorsWriter writer(path, {{"tensor", dtype, shape}}, {}, force);
    writer.write(elements, bytes);
    return writer.commit();
  }
  TensorWriter writer(path, dtype, shape, force);
  writer.write(elements, bytes);
  writer.commit();
}

}  // namespace fp4
