// See checkpoint.h. Floats are stored as their bytes, so NaN payloads and -0 survive.
#include "sim/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "sim/rules/recipe.h"
#include "sim/train/validation.h"
#include "src/files/output.h"
#include "src/files/sha256.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "src/text/json_reader.h"

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
std::vector<T> values_of(const JsonReader& reader) {
  if (!reader.json().is_binary()) reader.fail("expected bytes");
  const auto& bytes = reader.json().get_binary();
  if (bytes.size() % sizeof(T) != 0) reader.fail("its bytes are no whole number of values");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), sizeof(T) * values.size());
  return values;
}

double value_of(const JsonReader& reader) {
  const std::vector<double> values = values_of<double>(reader);
  if (values.size() != 1) reader.fail("expected one number in 8 bytes");
  return values[0];
}

Json optional(const std::optional<double>& v) { return v ? bytes_of(std::vector<double>{*v}) : Json(nullptr); }
std::optional<double> optional(const JsonReader& reader) {
  return reader.json().is_null() ? std::nullopt : std::optional<double>(value_of(reader));
}

constexpr int64_t most_steps = 1'000'000'000;  // as train.steps

CurvePoint point_of(const JsonReader& reader) {
  const std::vector<JsonReader> parts = reader.list(3);
  return {static_cast<int>(parts[0].integer(0, most_steps)), optional(parts[1]), optional(parts[2])};
}

PrecisionCounts counts_of(const JsonReader& reader) {
  PrecisionCounts counts;
  for (const auto& [words, n] : reader.entries()) counts[words] = n.integer(0, int64_t{1} << 62);
  return counts;
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
      throw Error(place + ": the checkpoint is damaged (its SHA-256 is not that of its contents)", Error::failed);
  }
  if (!bytes.empty() && magic.starts_with(bytes.substr(0, magic.size())))
    throw Error(place + ": the checkpoint is damaged (it ends too early)", Error::failed);
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
  if (!c.data.empty()) file["data"] = c.data;
  if (c.seconds > 0) file["seconds"] = c.seconds;
  if (!c.weight_rules.empty()) file["weight_rules"] = bytes_of(c.weight_rules);
  std::string body;
  Json::to_cbor(file, body);
  return header(body) + body;
}

void write_checkpoint(const std::string& path, const Checkpoint& c) { write_file(path, checkpoint_bytes(c), true); }

// Fields of the right types and in the ranges that any run can have; whether they fit each other and the run is judged
// where they are used.
static Checkpoint fields_of(const Json& file, const std::string& place) {
  JsonReader all(file, place);
  Checkpoint c = {.signature = all.at("signature").text(), .train_signature = all.at("train_signature").text()};
  const JsonReader config = all.at("config");
  for (const char* section : {"recipe", "task", "train"})
    if (!config.object().contains(section) || !config.object().at(section).is_object())
      config.fail("no " + std::string(section));
  c.config = config.json();
  const JsonReader seed = all.at("seed");
  if (!seed.json().is_number_unsigned()) seed.fail("expected a whole number");
  c.seed = seed.json().get<uint64_t>();
  c.step = static_cast<int>(all.at("step").integer(0, most_steps));
  c.next_point = static_cast<size_t>(all.at("next_point").integer(0, most_steps));
  c.weights = values_of<float>(all.at("weights"));
  c.optimizer = values_of<float>(all.at("optimizer"));
  c.held_amax = values_of<float>(all.at("held_amax"));
  c.recent = values_of<float>(all.at("recent"));
  if (const auto turned = all.find("turned")) c.turned = static_cast<int>(turned->integer(0, most_steps));
  if (const auto data = all.find("data")) c.data = data->text();
  if (const auto seconds = all.find("seconds")) c.seconds = seconds->number(0, huge);
  if (const auto rules = all.find("weight_rules")) c.weight_rules = values_of<float>(*rules);
  if (const auto teacher = all.find("teacher")) {
    c.teacher = values_of<float>(*teacher);
    c.distil = value_of(all.at("distil"));
  }
  c.curve_sum = value_of(all.at("curve_sum"));
  c.curve_count = static_cast<int>(all.at("curve_count").integer(0, most_steps));
  for (const JsonReader& point : all.at("curve").list()) c.curve.push_back(point_of(point));
  if (!file.contains("products"))
    throw Error(place + ": the checkpoint has no counts of products, as those of version 0.1.0; start the run again");
  const std::vector<JsonReader> products = all.at("products").list(c.products.size());
  for (size_t gemm = 0; gemm < c.products.size(); ++gemm) c.products[gemm] = counts_of(products[gemm]);
  return c;
}

Checkpoint parse_checkpoint(std::string_view bytes, const std::string& place) {
  const std::string_view body = checked_body(bytes, place);
  const std::string damaged = place + ": the checkpoint is damaged";
  try {
    return fields_of(parse_cbor(body, damaged), damaged);
  } catch (const Error& error) {
    throw Error(error.what(), Error::failed);
  }
}

Checkpoint read_checkpoint(const std::string& path) {
  note_input(path, /*may_be_replaced=*/true);  // by the run that goes on
  return parse_checkpoint(read_file(path), path);
}

void check_program(const Checkpoint& c, const RunOptions& options, const std::string& path) {
  for (const auto& [what, there, here] : {std::tuple("signature", c.signature, options.signature),
                                          std::tuple("train signature", c.train_signature, options.train_signature)})
    if (there != here)
      throw Error(path + ": the checkpoint was made under " + what + " " + there + ", this program has " + here,
                  Error::failed);
  if (!c.data.empty() && c.data != options.data)
    throw Error(path + ": the checkpoint was made with " + c.data + ", now there is " + options.data);
}

std::optional<Parent> check_origin(const Checkpoint& c, const Continuation& run, bool is_branch,
                                   const std::string& path) {
  if (c.seed != run.seed)
    throw Error(path + ": the checkpoint belongs to seed " + std::to_string(c.seed) + ", not " +
                std::to_string(run.seed));
  if (is_branch) {
    if (c.config.at("task") != run.config.at("task"))
      throw Error(path + ": the checkpoint belongs to another task or to other data; a branch keeps both");
    if (c.step >= run.steps)
      throw Error(path + ": the checkpoint was made after step " + std::to_string(c.step) +
                  "; a branch needs more steps than that, found " + std::to_string(run.steps));
    const Json name = c.config.at("recipe").value("name", Json(""));
    return Parent{sha256_file(path).substr(0, 16), JsonReader(name, path).text(), c.step};
  }
  // With every field: an older version's recipe lacks those of later ones, a sweep's its name.
  const auto completed = [&](Json config) {
    if (config.contains("recipe")) config["recipe"] = to_json(recipe_from_json(config["recipe"], path));
    return config;
  };
  const Json there = completed(c.config), here = completed(run.config);
  if (there != here) {
    const Json change = Json::diff(there, here).at(0);
    throw Error(path + ": the checkpoint belongs to another configuration: " +
                change.at("path").get<std::string>().substr(1) + " is different");
  }
  return std::nullopt;
}

void check_parts(const Checkpoint& c, const Continuation& run, bool is_branch, const std::string& path) {
  const auto total = static_cast<size_t>(run.weights);
  const bool has_same_curve = is_branch || c.next_point == run.next_point;
  if (c.weights.size() != total || c.step < 0 || c.step > run.steps || !has_same_curve)
    throw Error(path + ": its weights or its step are not those of the configuration", Error::failed);
  if ((!c.teacher.empty() && c.teacher.size() != total) || !(c.distil >= 0 && c.distil <= 1) ||
      (!is_branch && c.turned > std::max(run.phases - 1, 0)) || c.recent.size() > LossCurve::window ||
      c.curve_count > c.step ||
      std::any_of(c.curve.begin(), c.curve.end(), [&](const CurvePoint& p) { return p.step > c.step; }))
    throw Error(path + ": its teacher, phase or losses are not those of the configuration", Error::failed);
}

}  // namespace fp4::sim
