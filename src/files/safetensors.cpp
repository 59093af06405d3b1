// Header of .safetensors files, both ways. The JSON goes by as events (no tree is built), so memory is the header's own
// bytes plus one row per tensor, and nesting deeper than the format's three levels stops at once.
#include "src/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // MAX_HEADER_SIZE of the reference implementation
constexpr std::string_view kMetadata = "__metadata__";

// One level of the format is one state; whatever event the state does not expect is an error that names the tensor.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(std::string file, SafetensorsHeader& header) : file_(std::move(file)), header_(header) {}

  bool null() override { throw unexpected("null"); }
  bool boolean(bool value) override { throw unexpected(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { throw unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { throw unexpected(shortened(text)); }
  bool binary(binary_t&) override { throw unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ != State::numbers) throw unexpected(std::to_string(value));
    constexpr std::size_t kMaxNumbers = 64;  // axes of a shape
    if (numbers_->size() == kMaxNumbers) throw bad(fmt::format("more than {} numbers in '{}'", kMaxNumbers, field_));
    numbers_->push_back(value);
    return true;
  }
  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      header_.metadata[field_] = text;
    } else if (state_ == State::tensor && field_ == "dtype") {
      dtype_ = text;
    } else {
      throw unexpected('"' + shortened(text) + '"');
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (state_ == State::begin)
      state_ = State::names;
    else if (state_ == State::names)
      state_ = name_ == kMetadata ? State::metadata : State::tensor;
    else
      throw unexpected("{");
    fields_.clear();
    return true;
  }
  bool end_object() override {
    if (state_ == State::tensor) finish_tensor();
    state_ = state_ == State::names ? State::end : State::names;
    return true;
  }
  bool key(std::string& text) override {
    if (state_ == State::names) {
      name_ = text;
      if (!names_.insert(text).second) throw bad("the name appears twice");
      return true;
    }
    field_ = text;
    if (!fields_.insert(text).second) throw bad(fmt::format("the key '{}' appears twice", shortened(text)));
    if (state_ == State::tensor && text != "dtype" && text != "shape" && text != "data_offsets")
      throw unknown_word(file_ + ": tensor '" + shortened(name_) + "'", shortened(text),
                         {"dtype", "shape", "data_offsets"});
    return true;
  }
  bool start_array(std::size_t) override {
    if (state_ != State::tensor || field_ == "dtype") throw unexpected("[");
    numbers_ = field_ == "shape" ? &shape_ : &offsets_;
    numbers_->clear();
    state_ = State::numbers;
    return true;
  }
  bool end_array() override {
    state_ = State::tensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    throw Error(fmt::format("{}: the header is not JSON: byte {}, at '{}'", file_, position, printable(token)));
  }

 private:
  enum class State { begin, names, tensor, metadata, numbers, end };

  static std::string shortened(const std::string& text) {
    return text.size() <= 60 ? text : text.substr(0, 60) + "...";
  }
  static std::string printable(const std::string& token) {
    std::string text = token.substr(token.size() > 40 ? token.size() - 40 : 0);
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    return text;
  }
  Error bad(const std::string& what) const {
    return Error(fmt::format("{}: tensor '{}': {}", file_, shortened(name_), what));
  }
  Error unexpected(const std::string& what) const {
    switch (state_) {
      case State::begin:
        return Error(fmt::format("{}: the header starts with {}, not with a JSON object", file_, what));
      case State::names: return bad(fmt::format("{} where {{\"dtype\", \"shape\", \"data_offsets\"}} belongs", what));
      case State::tensor: return bad(fmt::format("'{}' is {}; dtype is text, the others are [numbers]", field_, what));
      case State::metadata: return bad(fmt::format("'{}' is {}; metadata is text", shortened(field_), what));
      case State::numbers: return bad(fmt::format("'{}' holds {}; integers of 0 or more are accepted", field_, what));
      case State::end: break;
    }
    return Error(fmt::format("{}: {} after the end of the header", file_, what));
  }
  void finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) throw bad(fmt::format("the key '{}' is missing", field));
    if (offsets_.size() != 2) throw bad(fmt::format("data_offsets has {} numbers, not 2", offsets_.size()));
    const DtypeInfo* type = nullptr;
    for (const DtypeInfo& row : dtype_table())
      if (dtype_ == row.safetensors) type = &row;
    if (type == nullptr) {
      std::vector<std::string> accepted;
      for (const DtypeInfo& row : dtype_table()) accepted.emplace_back(row.safetensors);
      throw unknown_word(file_ + ": tensor '" + shortened(name_) + "': dtype", shortened(dtype_), accepted);
    }
    const std::uint64_t bytes = byte_count(file_ + ": tensor '" + shortened(name_) + "'", type->id, shape_);
    if (offsets_[0] > offsets_[1] || offsets_[1] - offsets_[0] != bytes)
      throw bad(fmt::format("data_offsets [{}, {}] do not span the {} bytes of shape {} of {}", offsets_[0],
                            offsets_[1], bytes, shape_text(shape_), type->safetensors));
    header_.entries.push_back({.tensor = {name_, type->id, shape_}, .begin = offsets_[0]});
  }

  std::string file_;
  SafetensorsHeader& header_;
  State state_ = State::begin;
  std::string name_, field_, dtype_;
  std::set<std::string> names_, fields_;
  Shape shape_, offsets_;
  Shape* numbers_ = nullptr;
};

// Every byte behind the header belongs to exactly one tensor (the reference's rule), so nothing can hide in a file.
void check_cover(const Bytes& bytes, std::uint64_t data, std::vector<SafetensorsEntry>& entries) {
  const auto size = [](const SafetensorsEntry& e) { return byte_count("", e.tensor.dtype, e.tensor.shape); };
  std::stable_sort(entries.begin(), entries.end(), [&](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : size(a) < size(b);  // empty ones in front of what starts there
  });
  const std::uint64_t present = bytes->size() - data;
  std::uint64_t covered = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.begin != covered)
      throw Error(fmt::format("{}: tensor '{}' starts at offset {}, the one in front ends at {}: {}", bytes->name(),
                              entry.tensor.name, entry.begin, covered,
                              entry.begin < covered ? "an overlap" : "a hole"));
    covered += size(entry);
    if (covered > present)
      throw Error(fmt::format("{}: truncated: tensor '{}' ends at offset {}, {} bytes follow the header", bytes->name(),
                              entry.tensor.name, covered, present));
    entry.begin += data;
  }
  if (covered != present)
    throw Error(fmt::format("{}: bytes left over: the tensors end at offset {}, {} bytes follow the header",
                            bytes->name(), covered, present));
}

}  // namespace

SafetensorsHeader parse_safetensors(const Bytes& bytes) {
  if (bytes->size() < 8)
    throw Error(fmt::format("{}: {} bytes cannot hold a safetensors header", bytes->name(), bytes->size()));
  std::uint64_t length = 0;
  bytes->read(0, &length, 8);
  if (length > kMaxSafetensorsHeader)
    throw Error(
        fmt::format("{}: not a safetensors file, or damaged: the header claims {} bytes; at most {} are accepted",
                    bytes->name(), length, kMaxSafetensorsHeader));
  if (length > bytes->size() - 8)
    throw Error(
        fmt::format("{}: truncated: the header claims {} bytes, {} follow", bytes->name(), length, bytes->size() - 8));
  std::string text(static_cast<std::size_t>(length), '\0');
  bytes->read(8, text.data(), text.size());
  if (!text.starts_with('{'))
    throw Error(fmt::format("{}: the safetensors header does not start with '{{'", bytes->name()));
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos)  // where the library's parser would end
    throw Error(fmt::format("{}: byte {} of the safetensors header is zero; spaces fill it up", bytes->name(), zero));

  SafetensorsHeader header;
  HeaderEvents events(bytes->name(), header);
  nlohmann::json::sax_parse(text, &events);
  check_cover(bytes, 8 + length, header.entries);
  return header;
}

std::string safetensors_header(const std::vector<TensorInfo>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  // Tensor by tensor, as the elements follow: the same input gives the same bytes, in time that grows with their
  // number.
  std::set<std::string_view> names = {kMetadata};
  std::string text = "{";
  const auto add = [&](std::string_view name, const std::string& value) {
    text += (text.size() > 1 ? "," : "") + nlohmann::ordered_json(name).dump() + ":" + value;
  };
  std::uint64_t offset = 0;
  try {
    if (!metadata.empty()) add(kMetadata, nlohmann::ordered_json(metadata).dump());
    for (const TensorInfo& tensor : tensors) {
      if (!names.insert(tensor.name).second)
        throw Error(fmt::format("safetensors: the name '{}' is taken", tensor.name));
      const std::uint64_t end = offset + byte_count("safetensors: " + tensor.name, tensor.dtype, tensor.shape);
      add(tensor.name, fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                   info(tensor.dtype).safetensors, fmt::join(tensor.shape, ","), offset, end));
      offset = end;
    }
  } catch (const nlohmann::json::exception&) {
    throw Error("safetensors: a name or a metadata text is not UTF-8");
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string prefix;
  for (int shift = 0; shift < 64; shift += 8) prefix += static_cast<char>(text.size() >> shift & 0xff);
  return prefix + text;
}

}  // namespace fp4
