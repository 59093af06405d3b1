// Files that lie, files that are cut off, and devices that fail: each gives an Error that names the file and the number
// at fault, and nothing half-written stays behind.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "src/text/error.h"
#include "tests/support/support.h"

namespace fs = std::filesystem;
using Catch::Contains;
using fp4::Dtype;
using fp4::test::read_text;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

fp4::Bytes memory(const std::string& bytes, const std::string& name) {
  return fp4::open_memory(name, {bytes.begin(), bytes.end()});
}

std::string npy(const std::string& dictionary, std::size_t data_bytes,
                std::string version = std::string("\x01\x00", 2)) {
  const std::string text = dictionary + "\n";
  std::string file = "\x93NUMPY" + version;
  for (int i = 0; i < (version[0] == 1 ? 2 : 4); ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return file + text + std::string(data_bytes, '\0');
}

std::string safetensors(const std::string& json, std::size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return file + json + std::string(data_bytes, '\0');
}

std::string message_of(const std::string& bytes, const std::string& name) {
  try {
    fp4::TensorReader reader(memory(bytes, name));
    std::vector<unsigned char> out(reader.rows() * reader.row_bytes());
    reader.read_raw(0, reader.rows(), out.data());
  } catch (const fp4::Error& error) {
    CHECK(error.kind == fp4::Error::bad_input);
    CHECK_THAT(error.what(), Catch::StartsWith(name));
    return error.what();
  }
  return "accepted";
}

std::size_t entries(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("every wrong .npy is refused by name and number", "[quick]") {
  const auto dictionary = [](const std::string& descr, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}";
  };
  const std::string good = dictionary("'<f4'", "(2,)");
  REQUIRE(message_of(npy(good, 8), "x.npy") == "accepted");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "0 bytes cannot hold"},
      {std::string("PK\3\4aaaaaaaa"), "not a .npy file: it starts with 50 4b 03 04"},
      {npy(good, 8, std::string("\x04\x00", 2)), "version 4.0; accepted: 1.0, 2.0, 3.0"},
      {npy(good, 7), "truncated: shape (2,) of f32 needs 8 bytes, 7 follow"},
      {npy(good, 9), "left over: shape (2,) of f32 needs 8 bytes, 9 follow"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'", 20), "claims 4294967295 bytes; at most 65535"},
      {std::string("\x93NUMPY\x01\x00\xf0\xff{'descr'", 18), "truncated: 65520 bytes wanted at offset 10"},
      {npy(dictionary("'<f4'", "(4294967296, 4294967296)"), 8),
       "(4294967296, 4294967296) has more than 2^63 - 1 elements"},
      {npy(dictionary("'<f4'", "(1099511627776, 1099511627776, 0)"), 0), "more than 2^63 - 1"},
      {npy(dictionary("'<f8'", "(4611686018427387904, 0)"), 0), "holds nothing; at most 2^24"},
      {npy(dictionary("'<f8'", "(4611686018427387904,)"), 0), "passes 2^63 - 1 bits"},
      {npy(dictionary("'<f4'", "(99999999999999999999,)"), 8), "the axis 99999999999999999999 passes 2^64"},
      {npy(dictionary("'<f4'", "(1099511627776,)"), 8), "needs 4398046511104 bytes, 8 follow"},
      {npy(dictionary("'<f4'", "(-2,)"), 8), "an axis is not a number of 0 or more"},
      {npy(dictionary("'<f4'", "(2)"), 8), "',' expected"},
      {npy(dictionary("'<f4'", "[2]"), 8), "'(' expected"},
      {npy(dictionary("'<f4'", "(" + std::string(400, '(') + ")"), 8), "an axis is not a number"},
      {npy(dictionary("'|O'", "(2,)"), 8), "type '|O' is not supported; accepted: f8, f4, f2"},
      {npy(dictionary("'<U4'", "(2,)"), 32), "type '<U4'"},
      {npy(dictionary("'<float32'", "(2,)"), 8), "type '<float32'"},
      {npy(dictionary("'F4'", "(2,)"), 8), "type 'F4'"},
      {npy(dictionary("'bfloat16'", "(2,)"), 4), "type 'bfloat16'"},
      {npy(dictionary("[('a', '<f4')]", "(2,)"), 8), "structured type"},
      {npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", 8), "neither True nor False"},
      {npy("{'descr': '<f4', 'shape': (2,)}", 8), "'fortran_order' is missing"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8), "'descr' appears twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shap': (2,)}", 8), "did you mean 'shape'"},
      {npy(good + "x", 8), "text after the dictionary"},
      {npy("{'descr': '<f4", 8), "a quoted word without end"},
      {npy(dictionary(
               "'<f4'", "(" +
                            [] {
                              std::string axes;
                              for (int i = 0; i < 65; ++i) axes += "1,";
                              return axes;
                            }() +
                            ")"),
           4),
       "65 axes; at most 64"},
  };
  for (const auto& [bytes, wanted] : cases) CHECK_THAT(message_of(bytes, "x.npy"), Contains(wanted));
  for (std::size_t size = 0; size < npy(good, 8).size(); ++size)
    CHECK(message_of(npy(good, 8).substr(0, size), "x.npy") != "accepted");
}

TEST_CASE("every wrong .safetensors is refused by name and number", "[quick]") {
  const auto one = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::string good = one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]");
  REQUIRE(message_of(safetensors(good, 8), "x.safetensors") == "accepted");
  const auto two = [](int begin) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
           "\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(begin + 4) + "]}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"abc", "3 bytes cannot hold"},
      {std::string(8, '\xff') + good, "claims 18446744073709551615 bytes; at most 100000000"},
      {std::string("\xff\0\0\0\0\0\0\0", 8) + good, "truncated: the header claims 255 bytes"},
      {safetensors("[1]", 0), "does not start with '{'"},
      {safetensors("{\"w\":", 0), "the header is not JSON"},
      {safetensors(good + "x", 8), "the header is not JSON"},
      {safetensors(good + std::string(3, '\0'), 8), "byte 54 of the safetensors header is zero; spaces fill it up"},
      {safetensors(good + std::string("\0{}", 3), 8), "byte 54 of the safetensors header is zero"},
      {safetensors("{\"w\":" + std::string(100000, '[') + "}", 0), "tensor 'w': [ where"},
      {safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8), "'shape' holds [;"},
      {safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":{\"a\":1}}}", 8), "'shape' is {"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), 8), "'shape' holds -2"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]"), 8), "'shape' holds 2.0"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[1e400],\"data_offsets\":[0,8]"), 8), "1e400"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]"), 8),
       "99999999999999999999"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]"), 8),
       "more than 2^63 - 1"},
      {safetensors(one("\"dtype\":\"F3\",\"shape\":[2],\"data_offsets\":[0,8]"), 8), "did you mean 'F32'"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 8), "[0, 4] do not span the 8 bytes"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), 8), "[8, 0] do not span"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]"), 8), "data_offsets has 1 numbers"},
      {safetensors(one("\"dtype\":\"F32\",\"shape\":[2]"), 8), "'data_offsets' is missing"},
      {safetensors(one("\"dtype\":\"F32\",\"dtype\":\"F32\""), 8), "'dtype' appears twice"},
      {safetensors("{\"w\":1}", 8), "tensor 'w': 1 where"},
      {safetensors(one("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"), 1), "3 elements of 4 bits"},
      {safetensors(one("\"dtype\":\"F4\",\"shape\":[2,1],\"data_offsets\":[0,1]"), 1), "do not fill whole bytes"},
      {safetensors("{\"w\":{},\"w\":{}}", 8), "is missing"},
      {safetensors("{\"__metadata__\":{\"a\":1}}", 0), "metadata is text"},
      {safetensors(good, 7), "truncated: tensor 'w' ends at offset 8, 7 bytes follow"},
      {safetensors(good, 9), "left over: the tensors end at offset 8, 9 bytes follow"},
      {safetensors(two(5), 9), "tensor 'b' starts at offset 5, the one in front ends at 4: a hole"},
      {safetensors(two(2), 8), "an overlap"},
      {safetensors("{}", 0), "holds no array"},
      {safetensors(two(4), 8), "holds 2 arrays; write x.safetensors:NAME for one of: a, b"},
  };
  for (const auto& [bytes, wanted] : cases) CHECK_THAT(message_of(bytes, "x.safetensors"), Contains(wanted));
  const std::string twice = good.substr(0, good.size() - 1) + "," + good.substr(1);
  CHECK_THAT(message_of(safetensors(twice, 8), "x.safetensors"), Contains("the name appears twice"));
  for (std::size_t size = 0; size < safetensors(good, 8).size(); ++size)
    CHECK(message_of(safetensors(good, 8).substr(0, size), "x.safetensors") != "accepted");
}

TEST_CASE("raw files need a type and a shape of their size", "[quick]") {
  const std::string bytes("\x00\x3c\x00\xc0", 4);
  fp4::TensorReader reader(memory(bytes, "x.bin"), {.raw_dtype = Dtype::f16, .raw_shape = {2}});
  float values[2];
  reader.read_rows(0, 1, values);
  CHECK(values[0] == 1.0f);
  CHECK(values[1] == -2.0f);
  CHECK_THROWS_WITH(fp4::TensorReader(memory(bytes, "x.bin"), {.raw_dtype = Dtype::f32, .raw_shape = {2}}),
                    Contains("needs 8 bytes, the file has 4"));
  CHECK_THROWS_WITH(fp4::TensorReader(memory(bytes, "x.bin")), Contains("--dtype and --shape"));
  CHECK(fp4::parse_dtype("--dtype", "float16") == Dtype::f16);
  CHECK(fp4::parse_dtype("--dtype", "F8_E4M3") == Dtype::f8_e4m3);
  CHECK(fp4::parse_dtype("--dtype", "<f4") == Dtype::f32);
  CHECK(fp4::parse_dtype("--dtype", "|u1") == Dtype::u8);
  CHECK_THROWS_WITH(fp4::parse_dtype("--dtype", "f4"), Contains("write float32 or f4_e2m1"));
  CHECK_THROWS_WITH(fp4::parse_dtype("--dtype", "bf61"), Contains("did you mean 'bf16'"));
  CHECK(fp4::parse_shape("--shape", "3x4") == fp4::Shape{3, 4});
  CHECK(fp4::parse_shape("--shape", "(3, 4)") == fp4::Shape{3, 4});
  CHECK(fp4::parse_shape("--shape", "[7,]") == fp4::Shape{7});
  for (const char* wrong : {"3x", "3y4", "axb", "-1", "(3", "18446744073709551616", "4294967296x4294967296"})
    CHECK_THROWS_AS(fp4::parse_shape("--shape", wrong), fp4::Error);
}

TEST_CASE("what is no file is said to be none, without waiting", "[quick]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(fp4::TensorReader(folder / "absent.npy"), Contains("absent.npy: cannot open: No such file"));
  CHECK_THROWS_WITH(fp4::TensorReader(folder.path().string()), Contains("is a directory"));
  REQUIRE(::mkfifo((folder / "pipe.npy").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(fp4::TensorReader(folder / "pipe.npy"), Contains("not a regular file"));
  write_text(folder / "a.txt", "some text that is no tensor");
  CHECK_THROWS_WITH(fp4::TensorReader(folder / "a.txt"), Contains("unknown format; accepted: .npy"));
}

TEST_CASE("a file that shrinks while it is read is an error, not a signal", "[quick]") {
  const TemporaryFolder folder;
  const std::vector<float> values(1 << 16, 1.0f);
  fp4::save_tensor(folder / "a.npy", Dtype::f32, {256, 256}, values.data());
  fp4::TensorReader reader(folder / "a.npy");
  REQUIRE(::truncate((folder / "a.npy").c_str(), 1000) == 0);
  std::vector<float> out(1 << 16);
  try {
    reader.read_rows(0, 256, out.data());
    FAIL("read a truncated file");
  } catch (const fp4::Error& error) {
    CHECK(error.kind == fp4::Error::failed);
    CHECK_THAT(error.what(), Contains("shrank to 1000 bytes"));
  }
}

TEST_CASE("writers leave nothing behind unless they commit", "[quick]") {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2};
  { fp4::TensorWriter dropped(folder / "a.npy", Dtype::f32, {2}); }
  { fp4::NpzWriter dropped(folder / "a.npz", fp4::Compression::deflated); }
  { fp4::SafetensorsWriter dropped(folder / "a.safetensors", {{"w", Dtype::f32, {2}}}); }
  CHECK(entries(folder) == 0);
  {
    fp4::TensorWriter writer(folder / "a.npy", Dtype::f32, {2});
    writer.write(values);
    CHECK_FALSE(fs::exists(folder / "a.npy"));
    CHECK_THROWS_AS(writer.write(values), std::logic_error);
    writer.commit();
  }
  CHECK(entries(folder) == 1);
  CHECK(fp4::load_floats(folder / "a.npy").values == values);
  CHECK_THROWS_WITH(fp4::TensorWriter(folder / "a.npy", Dtype::f32, {2}), Contains("--force"));
  fp4::save_tensor(folder / "a.npy", Dtype::u8, {2}, "\x07\x08", true);
  CHECK(fp4::load_raw(folder / "a.npy").bytes == std::vector<unsigned char>{7, 8});
  fp4::TensorWriter short_of(folder / "b.npy", Dtype::f32, {2});
  CHECK_THROWS_AS(short_of.commit(), std::logic_error);
  CHECK_THROWS_AS(fp4::TensorWriter(folder / "absent/b.npy", Dtype::f32, {2}), fp4::Error);
  CHECK_THROWS_WITH(fp4::load_floats(folder / "a.npy", {}, 4), Contains("2 elements would take more than the 4 bytes"));
  for (const char* name : {"c.npz", "c.safetensors", "c.gguf"})
    CHECK_THROWS_WITH(fp4::TensorWriter(folder / name, Dtype::f32, {2}), Contains(name) && Contains("accepted: .npy"));
}

TEST_CASE("a full device fails the work with its reason", "[quick]") {
  // A limit on the size of files stands in for a full disk: the same call fails at the same place.
  const TemporaryFolder folder;
  const auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const std::vector<float> values(1 << 18, 1.0f);
  int code = 0;
  std::string message;
  {
    fp4::TensorWriter writer(folder / "a.npy", Dtype::f32, {1 << 18});
    const rlimit limit{500000, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      writer.write(values);
    } catch (const fp4::Error& error) {
      code = error.kind;
      message = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
  }
  std::signal(SIGXFSZ, previous_handler);
  CHECK(code == 1);
  CHECK_THAT(message, Contains("a.npy: writing failed at offset 500000: File too large"));
  CHECK(entries(folder) == 0);
}
