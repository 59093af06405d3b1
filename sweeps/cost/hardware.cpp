// Reading a profile. A quantity is {value, kind, source}; a user's file may give the number alone, which is then of
// kind "given". Ranges are checked here: a bandwidth of 0 would make a kernel endless, a negative one would make it
// pay. Power figures must be ordered idle <= board <= system, or the modelled energy would subtract.
#include "sweeps/cost/hardware.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/error.h"
#include "sweeps/cost/model.h"

namespace fp4::cost {

namespace {

// {"value": 8e12, "kind": "stated", "source": "..."}, or a plain number in a user's file.
Quantity parse_quantity(const Json& json, const std::string& what, double low, double high) {
  if (json.is_number()) return {checked_number(json, what, low, high), "given", ""};
  JsonReader reader(json, what);
  Quantity quantity{reader.number("value", low, high), reader.text("kind"), reader.text("source")};
  const std::vector<std::string> kinds = {"stated", "fitted", "measured", "estimate", "given"};
  if (std::find(kinds.begin(), kinds.end(), quantity.kind) == kinds.end())
    throw unknown_word(what + ": kind", quantity.kind, kinds);
  reader.finish();
  return quantity;
}

Quantity required(JsonReader& reader, std::string_view key, double low, double high = huge) {
  return parse_quantity(reader.at(key), fmt::format("{}: {}", reader.place(), key), low, high);
}

std::optional<Quantity> optional(JsonReader& reader, std::string_view key, double low) {
  const Json* json = reader.find(key);
  if (json == nullptr) return std::nullopt;
  return parse_quantity(*json, fmt::format("{}: {}", reader.place(), key), low, huge);
}

void check_class(const std::string& place, const std::string& word) {
  const std::vector<std::string>& classes = format_classes();
  if (std::find(classes.begin(), classes.end(), word) == classes.end()) throw unknown_word(place, word, classes);
}

void parse_rates(JsonReader& reader, Hardware& hardware) {
  const std::string place = reader.place();
  const Json& rates = reader.at("rates");
  if (!rates.is_object()) reader.fail("rates: expected an object {format class: FLOP/s}");
  for (const auto& [key, value] : rates.items()) {
    check_class(place + ": rates", key);
    hardware.rates[key] = parse_quantity(value, fmt::format("{}: rates.{}", place, key), tiny, huge);
  }
  if (!hardware.rates.contains("bf16")) reader.fail("missing rate rates.bf16");
  const Json* emulate = reader.find("emulate");
  if (emulate == nullptr) return;
  if (!emulate->is_object()) reader.fail("emulate: expected an object {format class: format class}");
  for (const auto& [key, value] : emulate->items()) {
    check_class(place + ": emulate", key);
    if (!value.is_string()) reader.fail(fmt::format("emulate.{}: expected a format class", key));
    const std::string target = value.get<std::string>();
    check_class(fmt::format("{}: emulate.{}", place, key), target);
    if (!hardware.rates.contains(target)) reader.fail(fmt::format("emulate.{}: missing rate rates.{}", key, target));
    if (hardware.rates.contains(key)) reader.fail(fmt::format("emulate.{}: that class has a rate of its own", key));
    hardware.emulate[key] = target;
  }
}

// {"value": "philox"|"hardware", kind, source}, or the word alone.
void parse_random(JsonReader& reader, Hardware& hardware) {
  const Json& json = reader.at("random_source");
  std::string word;
  if (json.is_string()) {
    word = json.get<std::string>();
    hardware.random_kind = "given";
  } else {
    JsonReader inner(json, reader.place() + ": random_source");
    word = inner.text("value");
    hardware.random_kind = inner.text("kind");
    hardware.random_source = inner.text("source");
    inner.finish();
  }
  if (word != "philox" && word != "hardware")
    throw unknown_word(reader.place() + ": random_source", word, {"philox", "hardware"});
  hardware.hardware_random = word == "hardware";
}

Json quantity_json(const Quantity& quantity) {
  return {{"value", quantity.value}, {"kind", quantity.kind}, {"source", quantity.source}};
}

}  // namespace

const std::vector<std::string>& format_classes() {
  static const std::vector<std::string> classes = {"fp32", "bf16", "fp8", "fp6", "fp4", "int8", "int4"};
  return classes;
}

std::string Hardware::executed_class(std::string_view format_class) const {
  if (rates.contains(format_class)) return std::string(format_class);
  const auto found = emulate.find(format_class);
  if (found != emulate.end()) return found->second;
  check_class("format class", std::string(format_class));
  throw Error(
      fmt::format("hardware profile {0}: missing rate rates.{1}; state it, or name what emulates it: "
                  "\"emulate\": {{\"{1}\": \"bf16\"}}",
                  name, format_class));
}

double Hardware::rate(std::string_view format_class) const { return rates.at(executed_class(format_class)).value; }

Hardware parse_hardware(const Json& object, const std::string& place) {
  JsonReader reader(object, place);
  Hardware hardware;
  hardware.name = reader.text("name");
  hardware.doc = reader.text("doc");
  if (reader.find("source") != nullptr) hardware.source = reader.text("source");
  parse_rates(reader, hardware);
  hardware.efficiency = required(reader, "efficiency", tiny, 1);
  hardware.issue_per_s = required(reader, "issue_per_s", tiny);
  hardware.issue_efficiency = required(reader, "issue_efficiency", tiny, 1);
  hardware.memory_bandwidth = required(reader, "memory_bandwidth", tiny);
  hardware.memory_bytes = required(reader, "memory_bytes", tiny);
  parse_random(reader, hardware);
  hardware.link_bandwidth = optional(reader, "link_bandwidth", tiny);
  hardware.network_bandwidth = optional(reader, "network_bandwidth", tiny);
  if (const auto node = optional(reader, "node_size", 1)) {
    hardware.node_size = static_cast<int>(node->value);
    hardware.node_source = node->source;
  }
  hardware.board_w = optional(reader, "board_w", tiny);
  hardware.idle_w = optional(reader, "idle_w", 0);
  hardware.system_w = optional(reader, "system_w", tiny);
  if (hardware.board_w && hardware.idle_w && hardware.idle_w->value > hardware.board_w->value)
    reader.fail("idle_w is larger than board_w");
  if (hardware.board_w && hardware.system_w && hardware.board_w->value > hardware.system_w->value)
    reader.fail("board_w is larger than system_w (the whole system's share)");
  hardware.price_per_hour = optional(reader, "price_per_hour", 0);
  if (const auto other = optional(reader, "other_s_per_token", 0)) hardware.other_s_per_token = *other;
  if (reader.find("other_model") != nullptr) {
    hardware.other_model = reader.text("other_model");
    const Model model = load_model(hardware.other_model);
    hardware.other_size = static_cast<double>(model.blocks * model.width);
  } else if (hardware.other_s_per_token.value > 0) {
    reader.fail("other_s_per_token needs other_model: the model it was measured or fitted on");
  }
  reader.finish();
  return hardware;
}

Hardware load_hardware(std::string_view word) {
  return parse_hardware(load_json(word, "hardware", "hardware profile"), fmt::format("hardware profile {}", word));
}

std::vector<std::string> hardware_names() { return builtin_names("hardware"); }

bool has_fp4(const Hardware& hardware) { return hardware.rates.contains("fp4"); }

Json to_json(const Hardware& hardware) {
  Json out = {
      {"name", hardware.name}, {"doc", hardware.doc}, {"source", hardware.source}, {"emulate", hardware.emulate}};
  out["rates"] = Json::object();
  for (const auto& [key, rate] : hardware.rates) out["rates"][key] = quantity_json(rate);
  out["efficiency"] = quantity_json(hardware.efficiency);
  out["issue_per_s"] = quantity_json(hardware.issue_per_s);
  out["issue_efficiency"] = quantity_json(hardware.issue_efficiency);
  out["memory_bandwidth"] = quantity_json(hardware.memory_bandwidth);
  out["memory_bytes"] = quantity_json(hardware.memory_bytes);
  out["random_source"] = {{"value", hardware.hardware_random ? "hardware" : "philox"},
                          {"kind", hardware.random_kind},
                          {"source", hardware.random_source}};
  out["node_size"] = {{"value", hardware.node_size}, {"kind", "given"}, {"source", hardware.node_source}};
  const auto add = [&out](const char* key, const std::optional<Quantity>& quantity) {
    if (quantity) out[key] = quantity_json(*quantity);
  };
  add("link_bandwidth", hardware.link_bandwidth);
  add("network_bandwidth", hardware.network_bandwidth);
  add("board_w", hardware.board_w);
  add("idle_w", hardware.idle_w);
  add("system_w", hardware.system_w);
  add("price_per_hour", hardware.price_per_hour);
  if (hardware.other_model.empty()) return out;
  out["other_s_per_token"] = quantity_json(hardware.other_s_per_token);
  out["other_model"] = hardware.other_model;
  return out;
}

}  // namespace fp4::cost
