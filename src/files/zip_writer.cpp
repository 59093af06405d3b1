// Writing ZIP (APPNOTE 4.3.7, 4.3.12-4.3.16). The local header is written with the sizes known so far and patched when
// the entry ends; 64-bit fields appear only where 32 bits do not suffice, as every reader expects.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <stdexcept>

#include "src/files/zip.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::uint64_t kNarrow = 0xffffffff;  // this value itself means "see the ZIP64 field"
constexpr std::size_t kOutput = 64 * 1024;

// Little-endian fields, in the order of the APPNOTE's tables.
class Record {
 public:
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& narrow(std::uint64_t value) { return u32(std::min(value, kNarrow)); }
  Record& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string bytes_;
};

// Deflate may grow incompressible data by 5 bytes per 16 KiB block; 1/1000 covers it.
bool is_wide(const ZipEntry& entry) { return entry.bytes + entry.bytes / 1000 + kOutput >= kNarrow; }

// The fields from "version needed" to "extra field length", which both headers share.
Record& common(Record& record, const ZipEntry& entry, bool wide, std::size_t extra_bytes) {
  // Version 2.0, or 4.5 with ZIP64; flag 11: the name is UTF-8; method; time 00:00, date 1980-01-01 (month and day 1).
  record.u16(wide ? 45 : 20).u16(1u << 11).u16(entry.method).u16(0).u16(1u << 5 | 1u).u32(entry.crc);
  if (wide)
    record.u32(kNarrow).u32(kNarrow);
  else
    record.u32(entry.compressed_bytes).u32(entry.bytes);
  return record.u16(entry.name.size()).u16(extra_bytes);
}

std::string local_header(const ZipEntry& entry) {
  const bool wide = is_wide(entry);
  Record record;
  common(record.u32(0x04034b50), entry, wide, wide ? 20 : 0).text(entry.name);
  if (wide) record.u16(1).u16(16).u64(entry.bytes).u64(entry.compressed_bytes);
  return record.bytes();
}

std::string central_header(const ZipEntry& entry) {
  const bool wide = is_wide(entry), far = entry.header_offset >= kNarrow;
  Record extra;
  if (wide) extra.u64(entry.bytes).u64(entry.compressed_bytes);
  if (far) extra.u64(entry.header_offset);
  const std::size_t extra_bytes = extra.bytes().size();
  Record record;
  record.u32(0x02014b50).u16(3u << 8 | 45u);  // made by version 4.5 on Unix
  common(record, entry, wide || far, extra_bytes == 0 ? 0 : extra_bytes + 4);
  record.u16(0).u16(0).u16(0).u32(0100644u << 16).narrow(entry.header_offset).text(entry.name);
  if (extra_bytes != 0) record.u16(1).u16(extra_bytes).text(extra.bytes());
  return record.bytes();
}

}  // namespace

struct ZipWriter::Deflater {
  z_stream stream{};
  std::vector<unsigned char> output = std::vector<unsigned char>(kOutput);
  Deflater() {
    // numpy's savez_compressed: level 6, raw stream (-15), default memory and strategy.
    if (::deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw Error("zip: zlib cannot start", Error::failed);
  }
  ~Deflater() { ::deflateEnd(&stream); }
};

ZipWriter::ZipWriter(OutputFile& out) : out_(out) {}
ZipWriter::~ZipWriter() = default;

void ZipWriter::begin(const std::string& name, bool deflate, std::uint64_t bytes) {
  if (name.empty() || name.size() > 0xffff)
    throw Error(fmt::format("{}: an entry name of {} bytes", out_.path(), name.size()));
  if (!names_.insert(name).second) throw Error(fmt::format("{}: the name '{}' is taken", out_.path(), name));
  entries_.push_back({.name = name,
                      .method = static_cast<std::uint16_t>(deflate ? 8 : 0),
                      .bytes = bytes,
                      .header_offset = out_.position()});
  out_.write(local_header(entries_.back()));
  deflater_ = deflate ? std::make_unique<Deflater>() : nullptr;
  written_ = 0;
}

void ZipWriter::compress(const void* data, std::size_t bytes, bool last) {
  z_stream& stream = deflater_->stream;
  const auto* from = static_cast<const unsigned char*>(data);
  int status = Z_OK;
  do {
    // avail_in is 32 bits wide.
    const uInt piece = static_cast<uInt>(std::min<std::size_t>(bytes, 1u << 30));
    stream.next_in = const_cast<unsigned char*>(from);  // zlib's interface predates const
    stream.avail_in = piece;
    const bool finishing = last && piece == bytes;
    do {
      stream.next_out = deflater_->output.data();
      stream.avail_out = static_cast<uInt>(kOutput);
      status = ::deflate(&stream, finishing ? Z_FINISH : Z_NO_FLUSH);
      const std::size_t made = kOutput - stream.avail_out;
      out_.write(deflater_->output.data(), made);
      entries_.back().compressed_bytes += made;
    } while (stream.avail_out == 0 && status != Z_STREAM_END);
    from += piece;
    bytes -= piece;
  } while (bytes != 0);
}

void ZipWriter::write(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  ZipEntry& entry = entries_.back();
  entry.crc = static_cast<std::uint32_t>(crc32_z(entry.crc, static_cast<const unsigned char*>(data), bytes));
  written_ += bytes;
  if (deflater_ != nullptr) {
    compress(data, bytes, false);
  } else {
    out_.write(data, bytes);
    entry.compressed_bytes += bytes;
  }
}

void ZipWriter::end() {
  ZipEntry& entry = entries_.back();
  if (written_ != entry.bytes) throw std::logic_error("ZipWriter: an entry of another size than announced");
  if (deflater_ != nullptr) compress(nullptr, 0, true);
  deflater_.reset();
  const std::string header = local_header(entry);
  out_.write_at(entry.header_offset, header.data(), header.size());
}

void ZipWriter::finish() {
  const std::uint64_t offset = out_.position();
  for (const ZipEntry& entry : entries_) out_.write(central_header(entry));
  const std::uint64_t bytes = out_.position() - offset, count = entries_.size();
  Record record;
  if (count >= 0xffff || offset >= kNarrow || bytes >= kNarrow) {
    const std::uint64_t record64 = out_.position();
    record.u32(0x06064b50).u64(44).u16(3u << 8 | 45u).u16(45).u32(0).u32(0);
    record.u64(count).u64(count).u64(bytes).u64(offset);
    record.u32(0x07064b50).u32(0).u64(record64).u32(1);
  }
  const std::uint64_t count16 = std::min<std::uint64_t>(count, 0xffff);
  record.u32(0x06054b50).u16(0).u16(0).u16(count16).u16(count16).narrow(bytes).narrow(offset).u16(0);
  out_.write(record.bytes());
}

}  // namespace fp4
