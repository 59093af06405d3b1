// Inflating and checking entries of archives with zlib.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "src/files/zip.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::size_t kBlock = 64 * 1024;

Error mismatch(const std::string& name, std::uint32_t wanted, std::uint32_t got) {
  return Error(fmt::format("{}: damaged: CRC-32 {:08x}, the archive says {:08x}", name, got, wanted));
}

class CheckedSource final : public ByteSource {
 public:
  CheckedSource(Bytes stored, std::uint32_t crc)
      : ByteSource(stored->name(), stored->size()), stored_(std::move(stored)), wanted_(crc) {
    if (size() == 0 && wanted_ != 0) throw mismatch(name(), wanted_, 0);
  }

  void verify() override {
    std::vector<unsigned char> block(kBlock);
    while (counted_ < size()) {
      const std::uint64_t bytes = std::min<std::uint64_t>(kBlock, size() - counted_);
      read_checked(counted_, block.data(), static_cast<std::size_t>(bytes));
    }
  }

 private:
  void read_checked(std::uint64_t offset, void* out, std::size_t bytes) override {
    stored_->read(offset, out, bytes);
    // Counts the part of this read that continues what was counted before.
    if (offset > counted_ || offset + bytes <= counted_) return;
    const std::size_t skip = static_cast<std::size_t>(counted_ - offset);
    crc_ = crc32_z(crc_, static_cast<const unsigned char*>(out) + skip, bytes - skip);
    counted_ = offset + bytes;
    if (counted_ == size() && crc_ != wanted_) throw mismatch(name(), wanted_, static_cast<std::uint32_t>(crc_));
  }

  Bytes stored_;
  std::uint32_t wanted_;
  uLong crc_ = 0;
  std::uint64_t counted_ = 0;
};

// zlib's state as an owner, so that it is freed also when a constructor further out throws.
struct Inflater {
  z_stream stream{};
  Inflater() {
    // -15: a raw stream, without zlib's header.
    if (::inflateInit2(&stream, -15) != Z_OK) throw Error("zlib cannot start: out of memory", Error::failed);
  }
  ~Inflater() { ::inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

class InflatedSource final : public ByteSource {
 public:
  InflatedSource(Bytes deflated, std::uint64_t bytes, std::uint32_t crc)
      : ByteSource(deflated->name(), bytes), deflated_(std::move(deflated)), wanted_(crc), input_(kBlock) {
    if (size() == 0) check_end();
  }

  void verify() override {
    if (done_) return;
    std::vector<unsigned char> block(kBlock);
    while (at_ < size()) take(block.data(), std::min<std::uint64_t>(kBlock, size() - at_));
  }

 private:
  void read_checked(std::uint64_t offset, void* out, std::size_t bytes) override {
    if (offset < at_) restart();
    std::vector<unsigned char> skipped(offset > at_ ? kBlock : 0);
    while (at_ < offset) take(skipped.data(), std::min<std::uint64_t>(kBlock, offset - at_));
    take(static_cast<unsigned char*>(out), bytes);
  }

  void restart() {
    if (::inflateReset(&stream_) != Z_OK) throw Error(fmt::format("{}: zlib cannot restart", name()), Error::failed);
    stream_.avail_in = 0;
    at_ = fed_ = 0;
    crc_ = 0;
  }

  // The next `bytes` bytes of the stream.
  void take(unsigned char* out, std::uint64_t bytes) {
    while (bytes != 0) {
      const uInt room = static_cast<uInt>(std::min<std::uint64_t>(bytes, 1u << 30));
      const int status = inflate_into(out, room);
      const uInt got = room - stream_.avail_out;
      if (got == 0 && (status == Z_STREAM_END || out_of_input()))
        throw damaged(fmt::format("it ends after {} bytes of {}", at_, size()));
      crc_ = crc32_z(crc_, out, got);
      out += got;
      bytes -= got;
      at_ += got;
    }
    if (at_ == size()) check_end();
  }

  // The stream must end here, having used all its input. A call without input still works off zlib's bit buffer, so
  // running out of input without an end means that there is none.
  void check_end() {
    if (done_) return;
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      unsigned char extra = 0;
      status = inflate_into(&extra, 1);
      if (stream_.avail_out == 0) throw damaged(fmt::format("it inflates to more than the {} bytes it claims", size()));
      if (status != Z_STREAM_END && out_of_input()) throw damaged("it has no end");
    }
    if (!out_of_input()) throw damaged("bytes are left over behind its end");
    if (crc_ != wanted_) throw mismatch(name(), wanted_, static_cast<std::uint32_t>(crc_));
    done_ = true;
  }

  bool out_of_input() const { return stream_.avail_in == 0 && fed_ == deflated_->size(); }

  int inflate_into(unsigned char* out, uInt room) {
    if (stream_.avail_in == 0) {
      const std::uint64_t bytes = std::min<std::uint64_t>(kBlock, deflated_->size() - fed_);
      deflated_->read(fed_, input_.data(), static_cast<std::size_t>(bytes));
      fed_ += bytes;
      stream_.next_in = input_.data();
      stream_.avail_in = static_cast<uInt>(bytes);
    }
    stream_.next_out = out;
    stream_.avail_out = room;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    // Z_BUF_ERROR: nothing could be done with what was there; more input may come.
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw damaged(stream_.msg != nullptr ? stream_.msg : "bad data");
    return status;
  }

  Error damaged(const std::string& what) const {
    return Error(fmt::format("{}: damaged deflate stream: {}", name(), what));
  }

  Bytes deflated_;
  std::uint32_t wanted_;
  std::vector<unsigned char> input_;
  Inflater inflater_{};
  z_stream& stream_ = inflater_.stream;
  std::uint64_t at_ = 0, fed_ = 0;  // bytes given out and taken in
  uLong crc_ = 0;
  bool done_ = false;  // the whole stream has been checked once
};

}  // namespace

Bytes open_checked(Bytes stored, std::uint32_t crc) { return std::make_shared<CheckedSource>(std::move(stored), crc); }

Bytes open_inflated(Bytes deflated, std::uint64_t bytes, std::uint32_t crc) {
  return std::make_shared<InflatedSource>(std::move(deflated), bytes, crc);
}

}  // namespace fp4
