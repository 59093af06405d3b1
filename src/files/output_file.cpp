// Buffered writing into a staged file, and what to say when the device is full.
#include "src/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;

}  // namespace

OutputFile::OutputFile(std::string path, bool force) : path_(std::move(path)), staged_(path_, force) {
  descriptor_ = ::open(staged_.temporary().c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw Error(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write_out(std::uint64_t offset, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes != 0) {
    const ssize_t put = ::pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw Error(fmt::format("{}: writing failed at offset {}: {}", path_, offset, std::strerror(errno)),
                  Error::failed);
    from += put;
    offset += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::size_t>(put);
  }
}

void OutputFile::flush() {
  write_out(position_ - buffer_.size(), buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (descriptor_ < 0) throw std::logic_error("OutputFile: written after commit");
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes >= kBufferBytes) {
    write_out(position_, data, bytes);  // large blocks are not copied
  } else if (bytes != 0) {
    const auto* from = static_cast<const unsigned char*>(data);
    buffer_.insert(buffer_.end(), from, from + bytes);
  }
  position_ += bytes;
}

void OutputFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  if (offset > position_ || bytes > position_ - offset) throw std::logic_error("OutputFile: write_at past the end");
  flush();
  write_out(offset, data, bytes);
}

void OutputFile::commit() {
  if (descriptor_ < 0) throw std::logic_error("OutputFile: committed twice");
  flush();
  // Network file systems report a full disk here.
  if (::close(std::exchange(descriptor_, -1)) != 0)
    throw Error(fmt::format("{}: writing failed: {}", path_, std::strerror(errno)), Error::failed);
  staged_.commit();
}

}  // namespace fp4
