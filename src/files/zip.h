// ZIP archives as .npz files use them (PKWARE APPNOTE.TXT 6.3.10): entries stored (method 0) or deflated (8), with
// ZIP64 sizes; no encryption, no spanning. Sections in comments of zip*.cpp are the APPNOTE's.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/files/output_file.h"
#include "src/text/byte_source.h"

namespace fp4 {

struct ZipEntry {
  std::string name{};
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t compressed_bytes = 0;
  std::uint64_t bytes = 0;          // after inflating
  std::uint64_t header_offset = 0;  // of its local header
};

// The central directory, in its order. Error when it is missing, truncated, over 64 MiB, or inconsistent with the file;
// when a name appears twice; when an entry is encrypted, uses another method, or claims to inflate more than deflate
// can.
std::vector<ZipEntry> read_zip_directory(const Bytes& archive);

// The inflated bytes of an entry. Its CRC-32 is checked as the last byte goes by (bytes taken in order) or by verify();
// a mismatch is an Error. A deflated entry is inflated as a stream with 64 KiB of input buffered: going backwards in it
// starts again from its beginning.
Bytes open_zip_entry(Bytes archive, const ZipEntry& entry);

// The two ways in which ZIP keeps an entry, as byte sources that check its CRC-32 (crc_source.cpp): `stored` as it is.
// The CRC runs along while bytes are taken in order and is compared at the last one; bytes taken out of order are not
// counted, which is what verify() is for.
Bytes open_checked(Bytes stored, std::uint32_t crc);

// And a raw deflate stream (RFC 1951) that gives exactly `bytes` bytes; Error when it gives fewer, more, or is damaged.
Bytes open_inflated(Bytes deflated, std::uint64_t bytes, std::uint32_t crc);

// Writes an archive entry by entry. Time stamps are 1980-01-01 00:00, so that equal contents give equal bytes.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile& out);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // Starts an entry of exactly `bytes` bytes. Error when the name is taken or longer than 65,535 bytes.
  void begin(const std::string& name, bool deflate, std::uint64_t bytes);
  void write(const void* data, std::size_t bytes);
  void end();     // std::logic_error when fewer or more bytes came than begin() said
  void finish();  // the central directory; the OutputFile is then ready to commit

 private:
  struct Deflater;
  void compress(const void* data, std::size_t bytes, bool last);

  OutputFile& out_;
  std::vector<ZipEntry> entries_{};
  std::set<std::string> names_{};
  std::uint64_t written_ = 0;
  std::unique_ptr<Deflater> deflater_{};
};

}  // namespace fp4
