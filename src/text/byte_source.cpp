// Files, memory and parts of them as byte sources.
#include "src/text/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/text/error.h"
#include "src/text/input_file.h"

namespace fp4 {

void ByteSource::read(std::uint64_t offset, void* out, std::size_t bytes) {
  // Written so that it cannot wrap: offset + bytes may pass 2^64 when a header lies.
  if (offset > size_ || bytes > size_ - offset)
    throw Error(
        fmt::format("{}: truncated: {} bytes wanted at offset {}, the file has {} bytes", name_, bytes, offset, size_));
  if (bytes != 0) read_checked(offset, out, bytes);
}

namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, int descriptor, std::uint64_t size)
      : ByteSource(path, size), descriptor_(descriptor) {}
  ~FileSource() override { ::close(descriptor_); }
  bool reads_anywhere() const override { return true; }

 private:
  void read_checked(std::uint64_t offset, void* out, std::size_t bytes) override {
    auto* to = static_cast<unsigned char*>(out);
    while (bytes != 0) {
      const ssize_t got = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw Error(fmt::format("{}: cannot read at offset {}: {}", name(), offset, std::strerror(errno)),
                    Error::failed);
      if (got == 0)
        throw Error(fmt::format("{}: the file shrank to {} bytes while it was read", name(), offset), Error::failed);
      to += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }
  int descriptor_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<unsigned char> bytes)
      : ByteSource(std::move(name), bytes.size()), bytes_(std::move(bytes)) {}
  bool reads_anywhere() const override { return true; }

 private:
  void read_checked(std::uint64_t offset, void* out, std::size_t bytes) override {
    std::memcpy(out, bytes_.data() + offset, bytes);
  }
  std::vector<unsigned char> bytes_;
};

class PartSource final : public ByteSource {
 public:
  PartSource(Bytes whole, std::string name, std::uint64_t offset, std::uint64_t size)
      : ByteSource(std::move(name), size), whole_(std::move(whole)), offset_(offset) {}
  bool reads_anywhere() const override { return whole_->reads_anywhere(); }

 private:
  void read_checked(std::uint64_t offset, void* out, std::size_t bytes) override {
    whole_->read(offset_ + offset, out, bytes);
  }
  Bytes whole_;
  std::uint64_t offset_;
};

}  // namespace

Bytes open_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever; it changes nothing for regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw Error(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error(
        fmt::format("{}: {}", path, S_ISDIR(status.st_mode) ? "is a directory, not a file" : "is not a regular file"));
  }
  note_input(path);
  return std::make_shared<FileSource>(path, descriptor, static_cast<std::uint64_t>(status.st_size));
}

std::string read_file(const std::string& path, std::uint64_t most) {
  const Bytes file = open_file(path);
  if (file->size() > most) throw Error(fmt::format("{}: cannot be read: it is larger than {} MB", path, most >> 20));
  std::string content(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, content.data(), content.size());
  return content;
}

Bytes open_memory(std::string name, std::vector<unsigned char> bytes) {
  return std::make_shared<MemorySource>(std::move(name), std::move(bytes));
}

Bytes open_part(Bytes whole, std::string name, std::uint64_t offset, std::uint64_t size) {
  if (offset > whole->size() || size > whole->size() - offset)
    throw Error(fmt::format("{}: truncated: {} bytes from offset {} on, {} has {} bytes", name, size, offset,
                            whole->name(), whole->size()));
  return std::make_shared<PartSource>(std::move(whole), std::move(name), offset, size);
}

}  // namespace fp4
