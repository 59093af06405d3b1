// Reading ZIP: the directory at the end of the file, then one entry as a byte source. All numbers come from the central
// directory (a streamed archive has zeros in its local headers) and are checked against the file before use.
#include "src/files/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::uint64_t kMaxDirectory = 64u << 20;  // about 500,000 entries
constexpr std::uint64_t kMaxRatio = 1032;           // deflate: 258 bytes from 2 bits at best (zlib technical notes)

template <class Word>
Word load(const unsigned char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

Error bad(const Bytes& archive, const std::string& what) {
  return Error(archive->name() + ": damaged archive: " + what);
}

struct Directory {
  std::uint64_t entries = 0, bytes = 0, offset = 0;
};

// 4.3.16 end of central directory record; 4.3.15 and 4.3.14 are its 64-bit companions.
Directory find_directory(const Bytes& archive) {
  constexpr std::size_t kRecord = 22, kMaxComment = 65535, kLocator = 20, kRecord64 = 56;
  const std::uint64_t size = archive->size();
  const std::size_t tail_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(size, kRecord + kMaxComment));
  if (size < kRecord) throw Error(fmt::format("{}: {} bytes cannot hold an archive", archive->name(), size));
  std::vector<unsigned char> tail(tail_bytes);
  archive->read(size - tail_bytes, tail.data(), tail_bytes);
  // The record is the one whose comment ends where the file ends.
  std::size_t at = tail_bytes - kRecord;
  while (load<std::uint32_t>(&tail[at]) != 0x06054b50 ||
         at + kRecord + load<std::uint16_t>(&tail[at + 20]) != tail_bytes)
    if (at-- == 0)
      throw Error(
          fmt::format("{}: not a .npz (ZIP) archive, or truncated: it has no directory at its end", archive->name()));
  const unsigned char* record = &tail[at];
  const std::uint64_t record_offset = size - tail_bytes + at;
  Directory directory{load<std::uint16_t>(record + 10), load<std::uint32_t>(record + 12),
                      load<std::uint32_t>(record + 16)};
  std::uint32_t disk = load<std::uint16_t>(record + 4);
  const bool wide = directory.entries == 0xffff || directory.bytes == 0xffffffff || directory.offset == 0xffffffff;
  unsigned char locator[kLocator] = {};
  if (wide && record_offset >= kLocator) archive->read(record_offset - kLocator, locator, kLocator);
  // Without a locator the values stand as they are: 65,535 entries are possible.
  if (load<std::uint32_t>(locator) == 0x07064b50) {
    unsigned char record64[kRecord64];
    const std::uint64_t offset64 = load<std::uint64_t>(locator + 8);
    archive->read(offset64, record64, kRecord64);
    if (load<std::uint32_t>(record64) != 0x06064b50)
      throw bad(archive, fmt::format("no ZIP64 record at offset {}", offset64));
    disk = load<std::uint32_t>(record64 + 16);
    directory = {load<std::uint64_t>(record64 + 32), load<std::uint64_t>(record64 + 40),
                 load<std::uint64_t>(record64 + 48)};
  }
  if (disk != 0 && disk != 0xffff)
    throw Error(fmt::format("{}: archives split over several files are not supported", archive->name()));
  if (directory.bytes > kMaxDirectory)
    throw bad(archive, fmt::format("a directory of {} bytes; at most {} are accepted", directory.bytes, kMaxDirectory));
  if (directory.offset > record_offset || directory.bytes > record_offset - directory.offset)
    throw bad(archive, fmt::format("a directory of {} bytes at offset {}, the file has {}", directory.bytes,
                                   directory.offset, size));
  return directory;
}

// 4.5.3: the 64-bit values of those fields that say 0xffffffff, in this order.
void apply_zip64(const Bytes& archive, const unsigned char* extra, std::size_t extra_bytes, ZipEntry& entry) {
  std::uint64_t* const fields[] = {&entry.bytes, &entry.compressed_bytes, &entry.header_offset};
  std::size_t at = 0;
  while (extra_bytes - at >= 4) {
    const unsigned id = load<std::uint16_t>(extra + at), length = load<std::uint16_t>(extra + at + 2);
    at += 4;
    if (length > extra_bytes - at)
      throw bad(archive, fmt::format("entry '{}': an extra field passes its end", entry.name));
    if (id == 1) {
      std::size_t used = 0;
      for (std::uint64_t* field : fields) {
        if (*field != 0xffffffff) continue;
        if (used + 8 > length) throw bad(archive, fmt::format("entry '{}': a ZIP64 field is missing", entry.name));
        *field = load<std::uint64_t>(extra + at + used);
        used += 8;
      }
      return;
    }
    at += length;
  }
}

void check_entry(const Bytes& archive, const ZipEntry& entry, unsigned flags) {
  if ((flags & 1) != 0) throw Error(fmt::format("{}: entry '{}' is encrypted", archive->name(), entry.name));
  if (entry.method != 0 && entry.method != 8)
    throw Error(fmt::format("{}: entry '{}' uses compression method {}; accepted: 0 (stored), 8 (deflated)",
                            archive->name(), entry.name, entry.method));
  if (entry.method == 0 && entry.bytes != entry.compressed_bytes)
    throw bad(archive, fmt::format("entry '{}' is stored, yet {} bytes are said to be {}", entry.name,
                                   entry.compressed_bytes, entry.bytes));
  if (entry.compressed_bytes > archive->size())
    throw bad(archive, fmt::format("entry '{}' claims {} bytes, the file has {}", entry.name, entry.compressed_bytes,
                                   archive->size()));
  if (entry.bytes / kMaxRatio > entry.compressed_bytes)
    throw bad(archive, fmt::format("entry '{}' claims {} bytes from {}; deflate gives at most {} for one", entry.name,
                                   entry.bytes, entry.compressed_bytes, kMaxRatio));
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const Bytes& archive) {
  const Directory directory = find_directory(archive);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(directory.bytes));
  archive->read(directory.offset, bytes.data(), bytes.size());
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::size_t at = 0;
  constexpr std::size_t kRecord = 46;  // 4.3.12 central file header
  while (at < bytes.size()) {
    const unsigned char* record = &bytes[at];
    if (bytes.size() - at < kRecord || load<std::uint32_t>(record) != 0x02014b50)
      throw bad(archive, fmt::format("directory entry {} is not one", entries.size()));
    const std::size_t name = load<std::uint16_t>(record + 28), extra = load<std::uint16_t>(record + 30),
                      comment = load<std::uint16_t>(record + 32);
    if (name + extra + comment > bytes.size() - at - kRecord)
      throw bad(archive, fmt::format("directory entry {} passes the directory's end", entries.size()));
    ZipEntry entry{.name = std::string(reinterpret_cast<const char*>(record + kRecord), name),
                   .method = load<std::uint16_t>(record + 10),
                   .crc = load<std::uint32_t>(record + 16),
                   .compressed_bytes = load<std::uint32_t>(record + 20),
                   .bytes = load<std::uint32_t>(record + 24),
                   .header_offset = load<std::uint32_t>(record + 42)};
    apply_zip64(archive, record + kRecord + name, extra, entry);
    check_entry(archive, entry, load<std::uint16_t>(record + 8));
    if (!names.insert(entry.name).second) throw bad(archive, fmt::format("the name '{}' appears twice", entry.name));
    entries.push_back(std::move(entry));
    at += kRecord + name + extra + comment;
  }
  if (entries.size() != directory.entries)
    throw bad(archive, fmt::format("the directory says {} entries and holds {}", directory.entries, entries.size()));
  return entries;
}

Bytes open_zip_entry(Bytes archive, const ZipEntry& entry) {
  constexpr std::size_t kRecord = 30;  // 4.3.7 local file header
  const std::string name = archive->name() + ":" + entry.name;
  unsigned char record[kRecord];
  archive->read(entry.header_offset, record, kRecord);
  if (load<std::uint32_t>(record) != 0x04034b50)
    throw bad(archive, fmt::format("no entry '{}' at offset {}", entry.name, entry.header_offset));
  const std::size_t name_bytes = load<std::uint16_t>(record + 26), extra_bytes = load<std::uint16_t>(record + 28);
  std::string local_name(name_bytes, '\0');
  archive->read(entry.header_offset + kRecord, local_name.data(), name_bytes);
  if (local_name != entry.name)
    throw bad(archive, fmt::format("the entry at offset {} is not '{}'", entry.header_offset, entry.name));
  const std::uint64_t data = entry.header_offset + kRecord + name_bytes + extra_bytes;
  Bytes part = open_part(std::move(archive), name, data, entry.compressed_bytes);
  return entry.method == 0 ? open_checked(std::move(part), entry.crc)
                           : open_inflated(std::move(part), entry.bytes, entry.crc);
}

}  // namespace fp4
