#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "src/text/json_reader.h"

namespace fp4 {

namespace {

constexpr size_t deepest_item = 64;  // as JSON texts (json_reader.h)

// Walks from item to item by their heads (RFC 8949, section 3).
class Walk {
 public:
  Walk(std::string_view bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  void run() {
    item();
    while (!open_.empty()) {
      if (open_.back() == 0) {
        open_.pop_back();
      } else {
        --open_.back();
        item();
      }
    }
    if (at_ != bytes_.size()) fail("bytes follow its end");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(fmt::format("{}: not CBOR that is read here: {} (byte {})", place_, what, at_));
  }

  uint64_t number(size_t bytes) {
    if (bytes > bytes_.size() - at_) fail("it ends too early");
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(bytes_[at_++]);
    return value;
  }

  // One head, and the bytes of a number or text behind it. Members of an array or map are items of their own.
  void item() {
    const uint64_t head = number(1), kind = head >> 5, low = head & 31;
    if (low > 27) fail(low == 31 ? "a length that is not given" : "a head that no item has");
    const uint64_t value = low < 24 ? low : number(size_t{1} << (low - 24));
    switch (kind) {
      case 2:  // bytes
      case 3:  // text
        if (value > bytes_.size() - at_) fail("it ends too early");
        at_ += value;
        break;
      case 4:                                                        // array
      case 5:                                                        // map
        if (value > bytes_.size() - at_) fail("it ends too early");  // each member takes a byte
        if (open_.size() == deepest_item) fail("nested deeper than 64 levels");
        open_.push_back(kind == 5 ? 2 * value : value);
        break;
      case 6: fail("a tag");
      default: break;  // integers, floats, true, false, null: the head is all
    }
  }

  std::string_view bytes_;
  const std::string& place_;
  size_t at_ = 0;
  std::vector<uint64_t> open_;  // members that are missing, by level
};

}  // namespace

Json parse_cbor(std::string_view bytes, const std::string& place) {
  Walk(bytes, place).run();
  try {
    return Json::from_cbor(bytes);
  } catch (const Json::exception& problem) {
    throw Error(place + ": not CBOR that is read here: " + problem.what());
  }
}

}  // namespace fp4
