// See checkpoint.h. Floats are stored as their bytes, so NaN payloads and -0 survive.
#include "sim/checkpoint.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "src/error.h"
#include "src/output.h"

namespace fp4::sim {

namespace {

constexpr int version = 1;

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

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& c) {
  Json curve = Json::array();
  for (const CurvePoint& p : c.curve) curve.push_back({p.step, optional(p.train_loss), optional(p.validation_loss)});
  const Json file = {{"checkpoint", version},
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
                     {"curve", curve}};
  const std::vector<uint8_t> bytes = Json::to_cbor(file);
  write_file(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), true);
}

Checkpoint read_checkpoint(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot be read");
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  try {
    const Json file = Json::from_cbor(bytes, true, true, Json::cbor_tag_handler_t::ignore);
    if (file.at("checkpoint") != version) throw Error(path + ": a checkpoint of another version");
    Checkpoint c;
    c.config = file.at("config");
    c.seed = file.at("seed");
    c.step = file.at("step");
    c.next_point = file.at("next_point");
    c.weights = values_of<float>(file.at("weights"));
    c.optimizer = values_of<float>(file.at("optimizer"));
    c.held_amax = values_of<float>(file.at("held_amax"));
    c.recent = values_of<float>(file.at("recent"));
    c.curve_sum = values_of<double>(file.at("curve_sum")).at(0);
    c.curve_count = file.at("curve_count");
    for (const Json& p : file.at("curve"))
      c.curve.push_back({p.at(0).get<int>(), optional(p.at(1)), optional(p.at(2))});
    return c;
  } catch (const Json::exception& e) {
    throw Error(path + ": not a checkpoint (" + e.what() + ")");
  }
}

}  // namespace fp4::sim
