#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "src/files/gguf.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

void put(std::string& out, std::uint64_t value, unsigned bytes) {
  for (unsigned b = 0; b < bytes; ++b) out.push_back(static_cast<char>(value >> (8 * b)));
}

void put(std::string& out, const std::string& text) {
  put(out, text.size(), 8);
  out += text;
}

std::uint64_t rounded_up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }

}  // namespace

GgufMetadata with_file_type(GgufMetadata m, GgufValues values) {
  constexpr std::uint64_t mostly_mxfp4_moe = 38, mostly_nvfp4 = 39, quantization_version = 2;
  constexpr unsigned u32 = 4;
  const std::uint64_t type = values == GgufValues::nvfp4 ? mostly_nvfp4 : mostly_mxfp4_moe;
  const auto add = [&](const char* key, std::uint64_t number) {
    put(m.entries, std::string(key));
    put(m.entries, u32, 4);
    put(m.entries, number, 4);
    ++m.count;
  };
  if (m.file_type != 0) {
    std::string number;
    put(number, type, 4);
    m.entries.replace(m.file_type, 4, number);
  } else {
    add("general.file_type", type);
    m.file_type = m.entries.size() - 4;
  }
  if (!m.has_version) add("general.quantization_version", quantization_version);
  m.has_version = true;
  return m;
}

const GgufType& gguf_type_of(const std::string& place, Dtype dtype) {
  std::string accepted;
  for (const GgufType& type : gguf_types()) {
    if (type.values != GgufValues::plain) continue;
    if (type.dtype == dtype) return type;
    add_word(accepted, info(type.dtype).name);
  }
  throw Error(fmt::format("{}: GGUF has no type for {}; it has {}", place, info(dtype).name, accepted));
}

const GgufType& gguf_type_of(GgufValues values) {
  const std::vector<GgufType>& all = gguf_types();
  return *std::find_if(all.begin(), all.end(), [&](const GgufType& type) { return type.values == values; });
}

GgufWriter::GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensor> tensors,
                       bool force)
    : out_(path, force), tensors_(std::move(tensors)), alignment_(metadata.alignment) {
  std::string header = "GGUF";
  put(header, 3, 4);
  put(header, tensors_.size(), 8);
  put(header, metadata.count, 8);
  header += metadata.entries;
  std::uint64_t offset = 0;
  for (GgufTensor& t : tensors_) {
    t.bytes = element_count(t.name, t.shape) / t.type->block * t.type->bytes;
    put(header, t.name);
    put(header, t.shape.size(), 4);
    for (std::size_t axis = t.shape.size(); axis-- > 0;) put(header, t.shape[axis], 8);
    put(header, t.type->id, 4);
    put(header, offset, 8);
    offset = rounded_up(offset + t.bytes, alignment_);
  }
  header.resize(rounded_up(header.size(), alignment_), '\0');
  out_.write(header);
  if (!tensors_.empty()) left_ = tensors_[0].bytes;
  pad();
}

// Ends every tensor that is complete.
void GgufWriter::pad() {
  while (at_ < tensors_.size() && left_ == 0) {
    const std::string zeros(rounded_up(out_.position(), alignment_) - out_.position(), '\0');
    out_.write(zeros);
    left_ = ++at_ < tensors_.size() ? tensors_[at_].bytes : 0;
  }
}

void GgufWriter::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes != 0) {
    if (at_ == tensors_.size()) throw std::logic_error("GgufWriter: more elements than the shapes have");
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left_));
    out_.write(from, part);
    from += part;
    bytes -= part;
    left_ -= part;
    pad();
  }
}

void GgufWriter::commit() {
  if (at_ != tensors_.size()) throw std::logic_error("GgufWriter: elements are missing");
  out_.commit();
}

}  // namespace fp4
