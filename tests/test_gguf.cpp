// GGUF as strict as ggml's own reader (ggml/src/gguf.cpp of llama.cpp): what it refuses is refused by name and number.
#include <catch2/catch.hpp>

#include "src/files/gguf.h"
#include "src/text/error.h"

using Catch::Contains;

namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string text(const std::string& t) { return number(t.size(), 8) + t; }
std::string entry(const std::string& key, unsigned type, const std::string& value) {
  return text(key) + number(type, 4) + value;
}
struct Tensor {
  std::string name = "a.weight";
  std::vector<std::uint64_t> axes = {32, 2};  // from the fastest on
  std::uint64_t offset = 0, type = 0;
};

// Two rows of 32 float32 a tensor, 256 bytes each, padded to 32; `cut` bytes lack at the end.
std::string file(const std::vector<std::string>& entries, const std::vector<Tensor>& tensors, std::size_t bytes,
                 std::size_t cut = 0) {
  std::string out = "GGUF" + number(3, 4) + number(tensors.size(), 8) + number(entries.size(), 8);
  for (const std::string& e : entries) out += e;
  for (const Tensor& t : tensors) {
    out += text(t.name) + number(t.axes.size(), 4);
    for (const std::uint64_t n : t.axes) out += number(n, 8);
    out += number(t.type, 4) + number(t.offset, 8);
  }
  out.resize((out.size() + 31) / 32 * 32 + bytes);
  return out.substr(0, out.size() - cut);
}

std::string message_of(const std::string& bytes) {
  try {
    const fp4::Bytes source = fp4::open_memory("x.gguf", {bytes.begin(), bytes.end()});
    fp4::metadata_of(source);
    fp4::list_gguf(source);
  } catch (const fp4::Error& error) {
    CHECK(error.kind == fp4::Error::bad_input);
    CHECK_THAT(error.what(), Catch::StartsWith("x.gguf"));
    return error.what();
  }
  return "accepted";
}

const std::string name = entry("general.name", 8, text("m"));
std::string alignment(unsigned type, int bytes) { return entry("general.alignment", type, number(64, bytes)); }

}  // namespace

TEST_CASE("what ggml reads of a GGUF is read", "[quick]") {
  CHECK(message_of(file({}, {}, 0)) == "accepted");
  CHECK(message_of(file({name}, {Tensor{}}, 256)) == "accepted");
  CHECK(message_of(file({name}, {Tensor{}}, 300)) == "accepted");  // bytes behind the last tensor
  CHECK(message_of(file({name}, {Tensor{.axes = {3}}, Tensor{.name = "b", .offset = 32}}, 288)) == "accepted");
  CHECK(message_of(file({name}, {Tensor{.name = std::string(63, 'n')}}, 256)) == "accepted");
  CHECK(message_of(file({name}, {Tensor{.axes = {2, 4, 8, 1}}}, 256)) == "accepted");
  // Tensors that hold nothing take no place.
  CHECK(message_of(file({name}, {Tensor{.axes = {32, 0}}, Tensor{.name = "b"}}, 256)) == "accepted");
  // general.alignment of 64: the header above ends at a multiple of 32 that is one of 64, too.
  std::string aligned = file({name, alignment(4, 4)}, {Tensor{}}, 0);
  aligned.resize((aligned.size() + 63) / 64 * 64 + 256);
  CHECK(message_of(aligned) == "accepted");
}

TEST_CASE("what ggml refuses of a GGUF is refused by name", "[quick]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {file({alignment(5, 4)}, {Tensor{}}, 256), "general.alignment is of type 5; ggml takes 4, u32, alone"},
      {file({alignment(2, 2)}, {Tensor{}}, 256), "general.alignment is of type 2"},
      {file({alignment(10, 8)}, {Tensor{}}, 256), "general.alignment is of type 10"},
      {file({entry("general.alignment", 8, text("32"))}, {Tensor{}}, 256), "general.alignment is of type 8"},
      {file({entry("general.file_type", 5, std::string(4, '\0'))}, {Tensor{}}, 256), "general.file_type is of type 5"},
      {file({entry("general.alignment", 4, number(48, 4))}, {Tensor{}}, 256), "general.alignment is 48, no power"},
      {file({entry("general.alignment", 4, number(0, 4))}, {Tensor{}}, 256), "general.alignment is 0, no power"},
      {file({name, name}, {Tensor{}}, 256), "the key 'general.name' appears twice"},
      {file({alignment(4, 4), alignment(4, 4)}, {Tensor{}}, 256), "the key 'general.alignment' appears twice"},
      {file({entry("", 4, number(1, 4))}, {Tensor{}}, 256), "entry 0 has an empty key"},
      {file({entry("k", 13, number(1, 4))}, {Tensor{}}, 256), "metadata of type 13"},
      {file({entry("k", 9, number(9, 4) + number(1, 8) + number(4, 4) + number(1, 8) + number(7, 4))}, {}, 64),
       "a list of lists"},
      {file({name}, {Tensor{.name = std::string(64, 'n')}}, 256),
       "of tensor 0 has 64 bytes; ggml reads names of up to 63"},
      {file({name}, {Tensor{.name = std::string("a\0b", 3)}}, 256), "without a zero byte"},  // ggml takes it for "a"
      {file({name}, {Tensor{}, Tensor{.offset = 256}}, 512), "the tensor 'a.weight' appears twice"},
      {file({name}, {Tensor{.axes = {2, 2, 2, 2, 2}}}, 256), "tensor 'a.weight' has 5 axes; ggml reads up to 4"},
      {file({name}, {Tensor{.type = 4}}, 256), "tensor 'a.weight' has type 4"},
      {file({name}, {Tensor{.axes = {33, 2}, .type = 39}}, 256), "rows of 33 elements are no multiple of MXFP4's"},
      {file({name}, {Tensor{}, Tensor{.name = "b", .offset = 320}}, 576),
       "tensor 'b' lies at 320, the one before it ends at 256: a hole"},
      {file({name}, {Tensor{}, Tensor{.name = "b", .offset = 128}}, 512),
       "tensor 'b' lies at 128, the one before it ends at 256: they overlap"},
      {file({name}, {Tensor{.offset = 32}}, 512), "tensor 'a.weight' lies at 32"},
      {file({name}, {Tensor{}}, 256, 1), "truncated: tensor 'a.weight' needs bytes"},
      // ggml reads the data with its last padding.
      {file({name}, {Tensor{.axes = {3}}}, 32, 1), "with its padding"},
      {file({name}, {Tensor{.axes = {3}}}, 12), "with its padding"},
      {file({name}, {Tensor{.axes = {std::uint64_t{1} << 40}}}, 256),
       "truncated: tensor 'a.weight' has 1099511627776 elements"},
  };
  for (const auto& [bytes, wanted] : cases) CHECK_THAT(message_of(bytes), Contains(wanted));
  const std::string good = file({name}, {Tensor{}}, 256);
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(message_of(good.substr(0, size)) != "accepted");
}
