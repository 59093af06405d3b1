// .npz and .safetensors: round trips, every single-byte corruption and every truncation of small archives, ZIP64
// records typed from PKWARE's APPNOTE, and the rules about names and order.
#include <catch2/catch.hpp>
#include <numeric>

#include "src/files/open_array.h"
#include "src/files/safetensors.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "src/files/zip.h"
#include "src/text/error.h"
#include "tests/support/support.h"

using Catch::Contains;
using fp4::Compression;
using fp4::Dtype;
using fp4::test::read_text;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

fp4::Bytes memory(const std::string& bytes, const std::string& name) {
  return fp4::open_memory(name, {bytes.begin(), bytes.end()});
}

std::vector<float> sample() {
  std::vector<float> values(60);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

// Reads array "w" whole; the values, or nothing when an Error came.
std::vector<float> read_or_nothing(const std::string& bytes, const std::string& name) {
  try {
    fp4::TensorReader reader(memory(bytes, name), {.entry = "w"});
    if (reader.rows() * reader.cols() != 60 || reader.dtype() != Dtype::f32) return {};
    std::vector<float> values(60);
    reader.read_rows(0, reader.rows(), values.data());
    return values;
  } catch (const fp4::Error&) {
    return {};
  }
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string small_npz(const TemporaryFolder& folder, Compression compression) {
  const std::vector<float> values = sample();
  fp4::NpzWriter writer(folder / "a.npz", compression, true);
  writer.begin("w", Dtype::f32, {6, 10});
  writer.write(values.data(), 240);
  writer.commit();
  return read_text(folder / "a.npz");
}

}  // namespace

TEST_CASE("a .npz gives back what was written, stored and deflated", "[quick]") {
  const TemporaryFolder folder;
  for (const Compression compression : {Compression::stored, Compression::deflated}) {
    std::vector<float> values(300000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 977) * 0.25f;
    const std::vector<unsigned char> codes = {1, 2, 3};
    fp4::NpzWriter writer(folder / "a.npz", compression, true);
    writer.begin("values", Dtype::f32, {300, 1000});
    for (std::size_t row = 0; row < 300; ++row) writer.write(&values[row * 1000], 4000);
    writer.begin("layer/codes", Dtype::u8, {3});
    writer.write(codes.data(), 3);
    writer.begin("nothing", Dtype::f32, {0, 4});
    CHECK_THROWS_WITH(writer.begin("values", Dtype::f32, {}), Contains("'values.npy' is taken"));
    writer.commit();
    const std::vector<fp4::TensorInfo> list = fp4::list_tensors(folder / "a.npz");
    REQUIRE(list.size() == 3);
    CHECK(list[1].name == "layer/codes");
    CHECK(list[2].shape == fp4::Shape{0, 4});
    CHECK(fp4::load_floats(folder / "a.npz:values").values == values);
    CHECK(fp4::load_raw(folder / "a.npz", {.entry = "layer/codes"}).bytes == codes);
    CHECK(fp4::load_floats(folder / "a.npz:nothing").values.empty());
    CHECK_THROWS_WITH(fp4::load_raw(folder / "a.npz"),
                      Contains("holds 3 arrays; write") && Contains("values, layer/codes"));
    CHECK_THROWS_WITH(fp4::load_raw(folder / "a.npz:value"), Contains("did you mean 'values'"));
    // Rows backwards, which starts a deflated entry again each time, and the transpose.
    fp4::TensorReader reader(folder / "a.npz:values");
    float row[1000];
    for (std::uint64_t r = 300; r-- > 290;) {
      reader.read_rows(r, 1, row);
      REQUIRE(std::equal(row, row + 1000, &values[r * 1000]));
    }
    reader.transpose();
    std::vector<float> column(300);
    reader.read_rows(999, 1, column.data());
    for (std::size_t r = 0; r < 300; ++r) REQUIRE(column[r] == values[r * 1000 + 999]);
  }
}

TEST_CASE("equal contents give equal archives", "[quick]") {
  const TemporaryFolder folder;
  CHECK(small_npz(folder, Compression::deflated) == small_npz(folder, Compression::deflated));
}

TEST_CASE("no corruption of one byte and no truncation passes for other values", "[quick]") {
  const TemporaryFolder folder;
  const std::vector<float> values = sample();
  for (const Compression compression : {Compression::stored, Compression::deflated}) {
    const std::string good = small_npz(folder, compression);
    REQUIRE(read_or_nothing(good, "x.npz") == values);
    for (std::size_t at = 0; at < good.size(); ++at)
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        const std::vector<float> got = read_or_nothing(bad, "x.npz");
        // Time stamps and attributes may change unseen; values may not.
        REQUIRE((got.empty() || got == values));
      }
    for (std::size_t size = 0; size < good.size(); ++size)
      REQUIRE(read_or_nothing(good.substr(0, size), "x.npz").empty());
  }
  // One array needs no name; damage in its elements is named as such, also when rows are taken out of order.
  std::string damaged = small_npz(folder, Compression::stored);
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  fp4::TensorReader reader(memory(damaged, "x.npz"));
  float row[10];
  CHECK_THROWS_WITH(reader.transpose(), Contains("x.npz:w.npy: damaged: CRC-32"));
  fp4::TensorReader rows(memory(damaged, "x.npz"));
  rows.read_rows(0, 5, std::vector<float>(50).data());
  CHECK_THROWS_WITH(rows.read_rows(5, 1, row), Contains("the archive says"));
}

TEST_CASE("archives that lie are refused by number", "[quick]") {
  const TemporaryFolder folder;
  const std::string good = small_npz(folder, Compression::deflated);
  const std::size_t central = good.find("PK\x01\x02"), end = good.find("PK\x05\x06");
  const auto with = [&](std::size_t at, std::uint64_t value, int bytes) {
    std::string bad = good;
    return bad.replace(at, static_cast<std::size_t>(bytes), little_endian(value, bytes));
  };
  const auto message = [](const std::string& bytes) {
    try {
      fp4::TensorReader reader(memory(bytes, "x.npz"));
      std::vector<unsigned char> out(reader.rows() * reader.row_bytes());
      reader.read_raw(0, reader.rows(), out.data());
    } catch (const fp4::Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(message(with(central + 8, 1, 2)), Contains("is encrypted"));
  CHECK_THAT(message(with(central + 10, 12, 2)), Contains("method 12; accepted: 0 (stored), 8 (deflated)"));
  CHECK_THAT(message(with(central + 24, 0xfffffff0, 4)),
             Contains("claims 4294967280 bytes") && Contains("at most 1032"));
  CHECK_THAT(message(with(central + 24, 400, 4)), Contains("needs 240 bytes, 272 follow"));
  // The same lie about an entry that is no .npy shows in the stream.
  fp4::ZipEntry entry = fp4::read_zip_directory(memory(good, "x.npz")).at(0);
  fp4::open_zip_entry(memory(good, "x.npz"), entry)->verify();
  for (const auto& [bytes, wanted] :
       {std::pair{400u, "it ends after 368 bytes of 400"}, {367u, "more than the 367 bytes"}}) {
    entry.bytes = bytes;
    CHECK_THROWS_WITH(fp4::open_zip_entry(memory(good, "x.npz"), entry)->verify(), Contains(wanted));
  }
  CHECK_THAT(message(with(central + 20, 0x7fffffff, 4)), Contains("claims 2147483647 bytes, the file has"));
  CHECK_THAT(message(with(central + 42, 7, 4)), Contains("no entry 'w.npy' at offset 7"));
  CHECK_THAT(message(with(central + 28, 60000, 2)), Contains("passes the directory's end"));
  CHECK_THAT(message(with(end + 4, 3, 2)), Contains("split over several files"));
  CHECK_THAT(message(with(end + 10, 2, 2)), Contains("says 2 entries and holds 1"));
  CHECK_THAT(message(with(end + 12, 0x7fffffff, 4)), Contains("a directory of 2147483647 bytes; at most 67108864"));
  CHECK_THAT(message(with(end + 16, 0x7fffffff, 4)), Contains("at offset 2147483647, the file has"));
  CHECK_THAT(message("no archive at all, but long enough to hold one"), Contains("not a .npz (ZIP) archive"));
  CHECK(message(good + "x") != "accepted");
}

TEST_CASE("64-bit records are followed and written where they are needed", "[quick]") {
  const TemporaryFolder folder;
  for (const Compression how : {Compression::stored, Compression::deflated}) {
    const std::string stored = small_npz(folder, how);
    const std::size_t central = stored.find("PK\x01\x02"), end = stored.find("PK\x05\x06");
    // The same archive with every 32-bit size and offset moved to the ZIP64 fields (APPNOTE 4.5.3, 4.3.14, 4.3.15).
    const auto byte = [&](std::size_t at) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(stored[at]));
    };
    const std::uint64_t compressed = byte(central + 20) | byte(central + 21) << 8;
    const std::uint64_t bytes = byte(central + 24) | byte(central + 25) << 8;
    std::string directory = stored.substr(central, end - central);
    directory.replace(20, 8, std::string(8, '\xff'))
        .replace(42, 4, std::string(4, '\xff'))
        .replace(30, 2, little_endian(28, 2));
    directory += little_endian(1, 2) + little_endian(24, 2) + little_endian(bytes, 8) + little_endian(compressed, 8) +
                 little_endian(0, 8);
    const std::string record64 = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
                                 little_endian(0, 8) + little_endian(1, 8) + little_endian(1, 8) +
                                 little_endian(directory.size(), 8) + little_endian(central, 8);
    const std::string locator =
        "PK\x06\x07" + little_endian(0, 4) + little_endian(central + directory.size(), 8) + little_endian(1, 4);
    const std::string record = "PK\x05\x06" + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
    const std::string wide = stored.substr(0, central) + directory + record64 + locator + record;
    CHECK(read_or_nothing(wide, "x.npz") == sample());
    // A promised 64-bit field that is not there.
    std::string lacking = wide;
    lacking.replace(central + directory.size() - 26, 2, little_endian(8, 2));
    CHECK_THROWS_WITH(fp4::npz_names(memory(lacking, "x.npz")), Contains("a ZIP64 field is missing"));
  }

  // 65,536 entries do not fit the 16-bit count.
  fp4::NpzWriter writer(folder / "many.npz", Compression::stored);
  for (int i = 0; i < 65536; ++i) writer.begin("a" + std::to_string(i), Dtype::u8, {0});
  writer.commit();
  const std::vector<std::string> names = fp4::npz_names(fp4::open_file(folder / "many.npz"));
  REQUIRE(names.size() == 65536);
  CHECK(names.back() == "a65535");
}

TEST_CASE("an entry of more than 4 GiB passes through both ways", "[exhaustive]") {
  // 4.5 GiB of zeros deflate to 4 MB, so the 64-bit sizes are used without a large disk.
  const TemporaryFolder folder;
  constexpr std::uint64_t kRows = 4608, kCols = 1 << 20;
  std::vector<unsigned char> row(kCols);
  fp4::NpzWriter writer(folder / "large.npz", Compression::deflated);
  writer.begin("w", Dtype::u8, {kRows, kCols});
  for (std::uint64_t r = 0; r < kRows; ++r) {
    row[5] = r + 1 == kRows ? 9 : 0;
    writer.write(row.data(), row.size());
  }
  writer.commit();
  fp4::TensorReader reader(folder / "large.npz");
  CHECK(reader.rows() == kRows);
  for (std::uint64_t r = 0; r < kRows; ++r) reader.read_raw(r, 1, row.data());
  CHECK(row[5] == 9);
}

TEST_CASE("a .safetensors gives back what was written", "[quick]") {
  const TemporaryFolder folder;
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> halves = {0x3f80, 0xc000};
  {
    fp4::SafetensorsWriter writer(folder / "m.safetensors",
                                  {{"w", Dtype::f32, {2, 3}},
                                   {"b", Dtype::bf16, {2}},
                                   {"scales", Dtype::f8_e8m0, {3}},
                                   {"codes", Dtype::f4_e2m1, {2, 4}},
                                   {"none", Dtype::i64, {0}}},
                                  {{"format", "pt"}});
    writer.write(weights.data(), 24);
    writer.write(halves.data(), 4);
    writer.write("\x7f\x80\xff", 3);
    writer.write("\x21\x43\x65\x87", 4);
    writer.commit();
  }
  const std::string bytes = read_text(folder / "m.safetensors");
  CHECK((8 + static_cast<unsigned char>(bytes[0])) % 8 == 0);
  CHECK_THAT(bytes, Contains("\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"));
  const fp4::SafetensorsHeader header = fp4::parse_safetensors(fp4::open_file(folder / "m.safetensors"));
  CHECK(header.metadata.at("format") == "pt");
  REQUIRE(header.entries.size() == 5);
  CHECK(fp4::load_floats(folder / "m.safetensors:w").values == weights);
  CHECK(fp4::load_floats(folder / "m.safetensors:b").values == std::vector<float>{1, -2});
  CHECK(fp4::load_raw(folder / "m.safetensors:scales").bytes == std::vector<unsigned char>{0x7f, 0x80, 0xff});
  CHECK(fp4::load_raw(folder / "m.safetensors:none").bytes.empty());
  CHECK_THROWS_WITH(fp4::load_floats(folder / "m.safetensors:scales"), Contains("holds F8_E8M0 codes, not values"));
  fp4::TensorReader codes(folder / "m.safetensors:codes");
  CHECK(codes.row_bytes() == 2);
  unsigned char packed[2];
  codes.read_raw(1, 1, packed);
  CHECK(packed[0] == 0x65);
  CHECK_THROWS_WITH(codes.transpose(), Contains("packed f4_e2m1 elements"));
  CHECK_THROWS_WITH(fp4::load_raw(folder / "m.safetensors:weight"), Contains("unknown word 'weight'"));
  CHECK_THROWS_WITH(fp4::safetensors_header({{"a", Dtype::u8, {}}, {"a", Dtype::u8, {}}}, {}),
                    Contains("'a' is taken"));
  CHECK_THROWS_WITH(fp4::safetensors_header({{"\xff", Dtype::u8, {}}}, {}), Contains("not UTF-8"));
}
