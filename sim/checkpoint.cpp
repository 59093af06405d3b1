// See checkpoint.h. Floats are stored as their bytes, so NaN payloads and -0 survive.
#include "sim/checkpoint.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "src/error.h"
#include "src/output.h"
#include "src/sha256.h"

namespace fp4::sim {

namespace {

constexpr std::string_view magic = "fp4sim checkpoint 2 ";

template <class T>
Json bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(sizeof(T) * values.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <class T>
std::vector<T> values_of(const Json& j) {
  const auto& bytes = j.get_binary();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), sizeof(T) * values.size());
  return values;
}

Json optional(const std::optional<double>& v) { return v ? bytes_of(std::vector<double>{*v}) : Json(nullptr); }
std::optional<double> optional(const Json& j) {
  return j.is_null() ? std::nullopt : std::optional<double>(values_of<double>(j).at(0));
}

// "fp4sim checkpoint 2 HASH\n" in front of the body.
std::string header(std::string_view body) { return std::string(magic) + sha256_hex(body) + "\n"; }
constexpr size_t header_bytes = magic.size() + 64 + 1;

// What follows the header. A header with a flipped bit still stands before the body of its hash, or is right but for
// it.
std::string_view checked_body(std::string_view bytes, const std::string& place) {
  if (bytes.size() >= header_bytes) {
    const std::string_view body = bytes.substr(header_bytes);
    const std::string expected = header(body);
    if (bytes.starts_with(expected)) return body;
    if (bytes.starts_with(magic) ||
        bytes.substr(magic.size(), 64) == std::string_view(expected).substr(magic.size(), 64))
      throw Error(place + ": the checkpoint is damaged (its SHA-256 is not that of its contents)", 1);
  }
  if (!bytes.empty() && magic.starts_with(bytes.substr(0, magic.size())))
    throw Error(place + ": the checkpoint is damaged (it ends too early)", 1);
  // Version 1: a CBOR map of 12 members, sorted by name.
  if (bytes.starts_with("\xAC\x6A"
                        "checkpoint"))
    throw Error(place + ": a checkpoint of version 1, which has no hash and names no signature; start the run again");
  throw Error(place + ": not a checkpoint");
}

}  // namespace

std::string checkpoint_bytes(const Checkpoint& c) {
  Json curve = Json::array();
  for (const CurvePoint& p : c.curve) curve.push_back({p.step, optional(p.train_loss), optional(p.validation_loss)});
  Json file = {{"signature", c.signature},
               {"train_signature", c.train_signature},
               {"config", c.config},
               {"seed", c.seed},
               {"step", c.step},
               {"next_point", c.next_point},
               {"weights", bytes_of(c.weights)},
               {"optimizer", bytes_of(c.optimizer)},
               {"held_amax", bytes_of(c.held_amax)},
               {"recent", bytes_of(c.recent)},
               {"curve_sum", bytes_of(std::vector<double>{c.curve_sum})},
               {"curve_count", c.curve_count},
               {"curve", curve},
               {"products", c.products}};
  if (!c.teacher.empty()) file["teacher"] = bytes_of(c.teacher), file["distil"] = bytes_of(std::vector{c.distil});
  if (c.turned > 0) file["turned"] = c.turned;
  if (c.seconds > 0) file["seconds"] = c.seconds;
  if (!c.weight_rules.empty()) file["weight_rules"] = bytes_of(c.weight_rules);
  std::string body;
  Json::to_cbor(file, body);
  return header(body) + body;
}

void write_checkpoint(const std::string& path, const Checkpoint& c) { write_file(path, checkpoint_bytes(c), true); }

Checkpoint parse_checkpoint(std::string_view bytes, const std::string& place) {
  const std::string_view body = checked_body(bytes, place);
  try {
    const Json file = Json::from_cbor(body, true, true, Json::cbor_tag_handler_t::ignore);
    Checkpoint c;
    c.signature = file.at("signature");
    c.train_signature = file.at("train_signature");
    c.config = file.at("config");
    c.seed = file.at("seed");
    c.step = file.at("step");
    c.next_point = file.at("next_point");
    c.weights = values_of<float>(file.at("weights"));
    c.optimizer = values_of<float>(file.at("optimizer"));
    c.held_amax = values_of<float>(file.at("held_amax"));
    c.recent = values_of<float>(file.at("recent"));
    c.turned = file.value("turned", 0);
    c.seconds = file.value("seconds", 0.0);
    if (file.contains("weight_rules")) c.weight_rules = values_of<float>(file.at("weight_rules"));
    if (file.contains("teacher")) {
      c.teacher = values_of<float>(file.at("teacher"));
      c.distil = values_of<double>(file.at("distil")).at(0);
    }
    c.curve_sum = values_of<double>(file.at("curve_sum")).at(0);
    c.curve_count = file.at("curve_count");
    for (const Json& p : file.at("curve"))
      c.curve.push_back({p.at(0).get<int>(), optional(p.at(1)), optional(p.at(2))});
    if (!file.contains("products"))
      throw Error(place + ": the checkpoint has no counts of products, as those of version 0.1.0; start the run again",
                  1);
    c.products = file.at("products").get<std::array<PrecisionCounts, 3>>();
    return c;
  } catch (const Json::exception& e) {
    throw Error(place + ": the checkpoint is damaged (" + e.what() + ")", 1);
  } catch (const std::out_of_range&) {
    throw Error(place + ": the checkpoint is damaged (a loss is missing)", 1);
  }
}

Checkpoint read_checkpoint(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  // A folder opens and cannot be read; an empty file gives nothing, which is no failure of reading.
  if (!in || (in.peek() != std::ifstream::traits_type::eof() && !(bytes << in.rdbuf())) || in.bad())
    throw Error(path + ": cannot be read");
  return parse_checkpoint(std::move(bytes).str(), path);
}

}  // namespace fp4::sim
