// Reading a profile. A quantity is {value, kind, source}; a user's file may give the number alone, which is then of
// kind "given". Ranges are checked here: a bandwidth of 0 would make a kernel endless, a negative one would make it
// pay. Power figures must be ordered idle <= board <= system, or the modelled energy would subtract.
#include "sweeps/cost/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fp4/float_format.h"
#include "src/backends/sparse.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/read_field.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/model.h"

namespace fp4::cost {

namespace {

const About value_about = {"the number"}, kind_about = {"how it is known; `given` for a number without an object"},
            source_about = {"data sheet, price list, fit or measurement in words"},
            rate_about = {"FLOP/s of the format; a multiply-add counts two"};
const std::vector<std::string>& kinds = profile_kinds();

// {"value", "kind", "source"}, or the value alone, which is then of kind `given`; `read` takes the value.
template <class T, class Read>
Known<T> parse_known(JsonReader json, const About& about, const Read& read) {
  if (!json.json().is_object()) return {read(json)};
  Known<T> known{read(json.at("value", about))};
  known.kind = kinds[json.at("kind", kind_about).word(kinds)];
  known.source = json.at("source", source_about).text();
  json.finish();
  return known;
}

// {"value": 8e12, "kind": "stated", "source": "..."}, or a plain number in a user's file.
Quantity parse_quantity(JsonReader json, double low, double high = huge) {
  json.note_type("quantity");
  if (const auto number = json.if_number(low, high)) return {*number};
  if (!json.json().is_object())
    json.fail("expected a number or {\"value\", \"kind\", \"source\"}, found " + shown(json.json()));
  return parse_known<double>(json, value_about, [&](const JsonReader& value) { return value.number(low, high); });
}

constexpr double quantisers_reach = 0.52;

std::optional<Quantity> optional(JsonReader& reader, std::string_view key, double low, const About& about) {
  const auto json = reader.find(key, about);
  return json ? std::optional(parse_quantity(*json, low)) : std::nullopt;
}

void check_class(const std::string& place, const std::string& word) { accepted_index(place, word, format_classes()); }

// Entries of an object by format class.
template <class Read>
void each_class(const JsonReader& json, const About& about, const Read& read) {
  json.note_keys(format_classes());
  for (const auto& [key, value] : json.entries("FORMAT", about)) {
    check_class(json.place(), key);
    read(key, value);
  }
}

void parse_rates(JsonReader& reader, Hardware& hardware) {
  const JsonReader rates = reader.at("rates", {"dense FLOP/s of the matrix unit by format; bf16 is needed"});
  each_class(rates, rate_about,
             [&](const std::string& key, const JsonReader& rate) { hardware.rates[key] = parse_quantity(rate, tiny); });
  if (!hardware.rates.contains("bf16")) reader.fail("missing rate rates.bf16");
  for (const char* narrow : {"fp8", "fp6", "fp4"})
    if (const auto rate = hardware.rates.find(narrow); rate != hardware.rates.end() &&
                                                       rate->second.kind != "measured" &&
                                                       rate->second.value < hardware.rates.at("bf16").value)
      rates.fail(
          fmt::format("{0} is slower than bf16; without units for it: \"emulate\": {{\"{0}\": \"bf16\"}}", narrow));
  const auto emulate = reader.find("emulate", {"formats without a rate, and the format that runs in their place"});
  if (!emulate) return;
  each_class(*emulate, {"a format that has a rate"}, [&](const std::string& key, const JsonReader& value) {
    const std::string& target = format_classes()[value.word(format_classes())];
    if (!hardware.rates.contains(target)) value.fail(fmt::format("missing rate rates.{}", target));
    if (hardware.rates.contains(key)) value.fail("that class has a rate of its own");
    hardware.emulate[key] = target;
  });
}

// {"4:8": {"fp4": 18e15}, "2:4": {"fp8": 9e15}}.
void parse_sparse_rates(JsonReader& reader, Hardware& hardware) {
  const auto json = reader.find("sparse_rates", {"FLOP/s of products with one sparse operand, its zeros counted, by "
                                                 "mask and format; what is left out is multiplied as a dense product"});
  if (!json) return;
  std::vector<std::string> masks;
  for (const SparsityInfo& row : sparsity_table)
    if (row.width > 0) masks.emplace_back(row.name);
  json->note_keys(masks);
  for (const auto& [mask, of_mask] : json->entries("MASK", {"two of four elements, or pairs, of a row"})) {
    if (std::find(masks.begin(), masks.end(), mask) == masks.end()) throw unknown_word(json->place(), mask, masks);
    each_class(of_mask, rate_about,
               [&, mask = mask, of_mask = of_mask](const std::string& format, const JsonReader& rate) {
                 if (!hardware.rates.contains(format)) of_mask.fail(fmt::format("missing rate rates.{}", format));
                 hardware.sparse_rates[mask][format] = parse_quantity(rate, tiny);
               });
  }
}

// {"value": [..], "kind", "source"}, or the list alone; `check` looks at each word.
template <class Check>
UnitWords parse_unit_words(const JsonReader& json, const About& about, const Check& check) {
  return parse_known<std::vector<std::string>>(json, about, [&](const JsonReader& list) {
    std::vector<std::string> words;
    for (const JsonReader& word : list.list()) {
      check(word);
      words.push_back(word.text());
    }
    return words;
  });
}

void check_block_scales(const JsonReader& place, const std::string& text) {
  const size_t slash = text.find('/');
  const std::string block = slash == std::string::npos ? "" : text.substr(slash + 1);
  if (block.empty() || block.find_first_not_of("0123456789") != std::string::npos || block.size() > 6 ||
      std::stoi(block) == 0)
    place.fail("expected SCALE/BLOCK, such as e8m0/32, found " + place.json().dump());
  named_row(place.place(), text.substr(0, slash), scale_table);
}

// {"fp4": {"value": ["e8m0/32"], "kind", "source"}}, or the list alone.
void parse_block_scales(JsonReader& reader, Hardware& hardware) {
  const auto json =
      reader.find("block_scales",
                  {"block formats that the matrix unit multiplies; the others are priced as bf16 products of decoded "
                   "operands. A class that is left out takes all"});
  if (!json) return;
  each_class(*json, {"of operands of this format"}, [&](const std::string& key, const JsonReader& entry) {
    hardware.block_scales[key] = parse_unit_words(
        entry, {"SCALE/BLOCK, such as e8m0/32"}, [](const JsonReader& word) { check_block_scales(word, word.text()); });
  });
}

// {"fp4": ["e2m1", "nf4", "mine"]}, or an object as above. A name that is no row is that of a list of values.
void parse_elements(JsonReader& reader, const char* field, const About& about,
                    std::map<std::string, UnitWords, std::less<>>& elements) {
  const auto json = reader.find(field, about);
  if (!json) return;
  each_class(*json, {"of operands of this format"}, [&](const std::string& key, const JsonReader& entry) {
    const auto check = [&](const JsonReader& word) {
      for (const ElementInfo& row : element_table) {
        if (word.text() != row.name) continue;
        const std::string own = format_class(bits_of(row.format));
        if (own != key) word.fail(fmt::format("{} is of {}, not of {}", row.name, own, key));
      }
    };
    elements[key] = parse_unit_words(entry, {"names: e2m1, nf4, the `name` of an element's file"}, check);
  });
}

// {"fp8": 0.5, "fp4 ue4m3/16": 0.4}.
void parse_efficiency_of(JsonReader& reader, Hardware& hardware) {
  const auto json =
      reader.find("efficiency_of", {"efficiency of products of one format, or of one under some block scales, "
                                    "where it is another"});
  if (!json) return;
  for (const auto& [key, value] :
       json->entries("FORMAT", {"share of the rate; FORMAT alone or `FORMAT SCALE/BLOCK`"})) {
    const size_t space = key.find(' ');
    check_class(json->place(), key.substr(0, space));
    if (space != std::string::npos) check_block_scales(*json, key.substr(space + 1));
    hardware.efficiency_of[key] = parse_quantity(value, tiny, 1);
  }
}

// A board of known watts alone: the shares of an H200 at rest and of a DGX H100 around its boards.
void estimate_power(Hardware& hardware) {
  if (!hardware.board_w) return;
  const double board = hardware.board_w->value, system = hardware.system_w ? hardware.system_w->value : huge;
  constexpr double idle_share = 80.3 / 700, dgx_h100_w = 10200.0 / 8 - 700;
  if (!hardware.idle_w)
    hardware.idle_w = {idle_share * board, "estimate", "left out: 80.3 W idle of 700 W, as measured on an H200"};
  if (!hardware.system_w)
    hardware.system_w = {std::min(system, board + dgx_h100_w), "estimate",
                         "left out: the 575 W that a DGX H100 adds to a board (10.2 kW / 8 - 700 W)"};
}

// A figure below the slowest that exists is in TFLOP/s, TB/s or GB.
void check_units(const Hardware& hardware, const std::string& place) {
  const auto check = [&](const std::string& field, double value, double least, const char* unit) {
    if (value < least)
      throw Error(
          fmt::format("{}: {}: {:g} is no figure of an accelerator in {}, at least {:g}; is it in another unit?", place,
                      field, value, unit, least));
  };
  for (const auto& [format, rate] : hardware.rates) check("rates." + format, rate.value, 1e9, "FLOP/s");
  check("issue_per_s", hardware.issue_per_s.value, 1e8, "slots/s");
  check("memory_bandwidth", hardware.memory_bandwidth.value, 1e9, "bytes/s");
  check("memory_bytes", hardware.memory_bytes.value, 1e8, "bytes");
  if (hardware.link_bandwidth) check("link_bandwidth", hardware.link_bandwidth->value, 1e7, "bytes/s");
  if (hardware.network_bandwidth) check("network_bandwidth", hardware.network_bandwidth->value, 1e7, "bytes/s");
}

// `other` is bound by memory: GB300's fit by the bandwidths.
Quantity other_by_bandwidth(double bandwidth) {
  constexpr double fitted = 3.15e-6, of_bandwidth = 8e12;
  return {
      fitted * of_bandwidth / bandwidth, "estimate",
      "left out: GB300's fitted 3.15e-6 s a token by the memory bandwidths, as norms, activations and residual adds "
      "are bound by them"};
}

// {"value": "philox"|"hardware", kind, source}, or the word alone.
void parse_random(JsonReader json, Hardware& hardware) {
  const std::vector<std::string> words = {"philox", "hardware"};
  json.note_words(words);
  const auto known = parse_known<bool>(json, {"hardware: conversions draw their own bits"},
                                       [&](const JsonReader& value) { return value.word(words) == 1; });
  hardware.hardware_random = known.value, hardware.random_kind = known.kind, hardware.random_source = known.source;
}

}  // namespace

Json known_json(const Json& value, const std::string& kind, const std::string& source) {
  return {{"value", value}, {"kind", kind}, {"source", source}};
}

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

std::string Hardware::taken_scales(std::string_view format_class, std::string_view scale, double scale_block) const {
  const auto known = block_scales.find(format_class);
  if (known == block_scales.end()) return fmt::format("{}/{:g}", scale, scale_block);
  std::string taken;
  double longest = 0;
  for (const std::string& word : known->second.value) {
    const size_t slash = word.find('/');
    if (word.compare(0, slash, scale) != 0) continue;
    const double block = std::stod(word.substr(slash + 1));
    if (std::fmod(scale_block, block) != 0 || block <= longest) continue;
    taken = word;
    longest = block;
  }
  return taken;
}

const std::vector<std::string>& usual_elements(std::string_view format_class) {
  static const std::vector<std::string> fp4 = {"e2m1"}, fp6 = {"e2m3", "e3m2"}, fp8 = {"e4m3", "e5m2"}, none;
  return format_class == "fp4" ? fp4 : format_class == "fp6" ? fp6 : format_class == "fp8" ? fp8 : none;
}

bool Hardware::takes(std::string_view format_class, std::string_view element) const {
  const auto own = elements.find(format_class);
  const std::vector<std::string>& words = own == elements.end() ? usual_elements(format_class) : own->second.value;
  return std::find(words.begin(), words.end(), element) != words.end();
}

const Quantity& Hardware::efficiency_at(std::string_view format_class, std::string_view scales) const {
  auto found = scales.empty() ? efficiency_of.end() : efficiency_of.find(fmt::format("{} {}", format_class, scales));
  if (found == efficiency_of.end()) found = efficiency_of.find(format_class);
  return found == efficiency_of.end() ? efficiency : found->second;
}

double Hardware::rate(std::string_view format_class) const { return rates.at(executed_class(format_class)).value; }

// long: a question for each field, in the order of the reference
Hardware parse_hardware(const Json& object, const std::string& place, FieldNotes* notes) {
  JsonReader reader(object, place, notes);
  Hardware hardware;
  hardware.name = reader.at("name", {"the chip's word in tables"}).text();
  read_field(reader, "doc", "the chip in a line", hardware.doc);
  read_field(reader, "source", "where most numbers come from", hardware.source);
  parse_rates(reader, hardware);
  parse_sparse_rates(reader, hardware);
  parse_block_scales(reader, hardware);
  parse_elements(reader, "elements",
                 {"elements whose codes the matrix unit multiplies, by name, own lists of values too; the others are "
                  "decoded. A class that is left out takes e2m1; e2m3 and e3m2; e4m3 and e5m2"},
                 hardware.elements);
  parse_elements(reader, "undocumented",
                 {"elements that it multiplies though no manual says so: decoded, unless `cost --what-if` asks"},
                 hardware.undocumented);
  hardware.adders = adders_from(reader);
  hardware.efficiency = parse_quantity(reader.at("efficiency", {"share of the rate that GEMMs reach"}), tiny, 1);
  parse_efficiency_of(reader, hardware);
  hardware.issue_per_s =
      parse_quantity(reader.at("issue_per_s", {"vector instruction slots a second: lanes x clock"}), tiny);
  hardware.issue_efficiency =
      parse_quantity(reader.at("issue_efficiency", {"share of these slots that a quantiser reaches"}), tiny, 1);
  hardware.memory_bandwidth = parse_quantity(reader.at("memory_bandwidth", {"bytes/s"}), tiny);
  hardware.memory_bytes = parse_quantity(reader.at("memory_bytes", {"bytes of one accelerator"}), tiny);
  hardware.quantiser_bandwidth = {
      quantisers_reach, "estimate",
      "left out: what Transformer Engine's quantisers reach on B300 (TransformerEngine#2863)"};
  if (const auto json =
          reader.find("quantiser_bandwidth", {"share of memory_bandwidth that quantisers reach", quantisers_reach}))
    hardware.quantiser_bandwidth = parse_quantity(*json, tiny, 1);
  parse_random(
      reader.at("random_source", {"generator of stochastic rounding: philox in instructions, or the conversion's own"}),
      hardware);
  hardware.link_bandwidth =
      optional(reader, "link_bandwidth", tiny, {"bytes/s between accelerators of a node, one direction"});
  hardware.network_bandwidth =
      optional(reader, "network_bandwidth", tiny, {"bytes/s between nodes per accelerator, one direction"});
  if (const auto json =
          reader.find("node_size", {"accelerators that the links join, a whole number", hardware.node_size})) {
    const Quantity node = parse_quantity(*json, 1, 1 << 20);
    if (node.value != std::floor(node.value)) json->fail("expected a whole number of accelerators");
    hardware.node_size = static_cast<int>(node.value);
    hardware.node_source = node.source, hardware.has_node = true;
  }
  hardware.link_shared =
      optional(reader, "link_shared", 1, {"accelerators that share one link_bandwidth: a board of two, a switch", 1});
  read_field(reader, "rented_whole", "a node's accelerators are rented together: an instance", hardware.rented_whole);
  hardware.board_w = optional(reader, "board_w", tiny, {"W of the board at its limit"});
  hardware.idle_w = optional(reader, "idle_w", 0, {"W when idle, at most board_w"});
  hardware.system_w = optional(reader, "system_w", tiny, {"W of the whole system per accelerator, at least board_w"});
  if (hardware.board_w && hardware.idle_w && hardware.idle_w->value > hardware.board_w->value)
    reader.fail("idle_w is larger than board_w");
  if (hardware.board_w && hardware.system_w && hardware.board_w->value > hardware.system_w->value)
    reader.fail("board_w is larger than system_w (the whole system's share)");
  estimate_power(hardware);
  hardware.price_per_hour = optional(reader, "price_per_hour", 0, {"US dollars an hour for one accelerator"});
  if (const auto other = optional(reader, "other_s_per_token", 0,
                                  {"seconds a token of `other`; left out: GB300's by the memory bandwidths"}))
    hardware.other_s_per_token = *other;
  else
    hardware.other_s_per_token = other_by_bandwidth(hardware.memory_bandwidth.value),
    hardware.other_model = "llama3_8b";
  if (const auto other = reader.find("other_model", {"the model on which other_s_per_token was measured or fitted"})) {
    hardware.other_model = other->name_in("models");
  } else if (hardware.other_s_per_token.value > 0 && hardware.other_model.empty()) {
    reader.fail("other_s_per_token needs other_model: the model it was measured or fitted on");
  }
  if (!hardware.other_model.empty()) {
    const Model model = load_model(hardware.other_model, place + ": other_model");
    hardware.other_size = static_cast<double>(model.blocks * model.width);
  }
  reader.finish();
  return hardware;
}

Hardware load_hardware(std::string_view word, std::string_view place) {
  const NamedText file = open_named_json(word, "hardware", "hardware profile", place);
  Hardware hardware = parse_hardware(parse_json(file.text, file.place), file.place);
  check_units(hardware, file.place);
  return hardware;
}

std::vector<std::string> hardware_names() { return named_json("hardware"); }

bool has_fp4(const Hardware& hardware) { return hardware.rates.contains("fp4"); }

Hardware with_undocumented(Hardware hardware) {
  for (const auto& [format, also] : hardware.undocumented) {
    if (!hardware.elements.contains(format)) hardware.elements[format].value = usual_elements(format);
    std::vector<std::string>& words = hardware.elements[format].value;
    words.insert(words.end(), also.value.begin(), also.value.end());
  }
  return hardware;
}

std::vector<std::string> estimated_fields(const Hardware& hardware) {
  std::vector<std::string> names;
  const Json json = to_json(hardware);
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_object() && value.value("kind", "") == "estimate") names.push_back(name);
  };
  for (const auto& [key, value] : json.items()) add(key, value);
  for (const char* group : {"rates", "efficiency_of"})
    if (json.contains(group))
      for (const auto& [key, value] : json.at(group).items()) add(std::string(group) + "." + key, value);
  return names;
}

std::vector<std::string> missing_links(const Hardware& hardware, int devices) {
  std::vector<std::string> names;
  if (devices <= 1) return names;
  if ((hardware.node_size > 1 || !hardware.has_node) && !hardware.link_bandwidth) names.emplace_back("link_bandwidth");
  if ((devices > hardware.node_size || !hardware.has_node) && !hardware.network_bandwidth)
    names.emplace_back("network_bandwidth");
  if (!hardware.has_node) names.emplace_back("node_size");
  return names;
}

Json to_json(const Hardware& hardware) {
  Json out = FP4_NAMED(hardware.name, hardware.doc, hardware.source, hardware.emulate);
  out["rates"] = Json::object();
  for (const auto& [key, rate] : hardware.rates) out["rates"][key] = known_json(rate);
  for (const auto& [mask, rates] : hardware.sparse_rates)
    for (const auto& [format, rate] : rates) out["sparse_rates"][mask][format] = known_json(rate);
  const auto add_words = [&out](const char* field, const std::map<std::string, UnitWords, std::less<>>& classes) {
    for (const auto& [key, list] : classes) out[field][key] = known_json(list);
  };
  add_words("block_scales", hardware.block_scales);
  add_words("elements", hardware.elements);
  add_words("undocumented", hardware.undocumented);
  for (const auto& [key, share] : hardware.efficiency_of) out["efficiency_of"][key] = known_json(share);
  for (const auto& [operands, adder] : hardware.adders) out["adders"][operands] = known_json(adder);
  out["random_source"] =
      known_json(hardware.hardware_random ? "hardware" : "philox", hardware.random_kind, hardware.random_source);
  if (hardware.has_node) out["node_size"] = known_json(hardware.node_size, "given", hardware.node_source);
  if (hardware.rented_whole) out["rented_whole"] = true;
  const std::pair<const char*, std::optional<Quantity>> figures[] = {
      {"efficiency", hardware.efficiency},
      {"issue_per_s", hardware.issue_per_s},
      {"issue_efficiency", hardware.issue_efficiency},
      {"memory_bandwidth", hardware.memory_bandwidth},
      {"memory_bytes", hardware.memory_bytes},
      {"quantiser_bandwidth", hardware.quantiser_bandwidth},
      {"link_bandwidth", hardware.link_bandwidth},
      {"link_shared", hardware.link_shared},
      {"network_bandwidth", hardware.network_bandwidth},
      {"board_w", hardware.board_w},
      {"idle_w", hardware.idle_w},
      {"system_w", hardware.system_w},
      {"price_per_hour", hardware.price_per_hour},
      {"other_s_per_token", hardware.other_s_per_token}};
  for (const auto& [key, quantity] : figures)
    if (quantity) out[key] = known_json(*quantity);
  if (!hardware.other_model.empty()) out["other_model"] = hardware.other_model;
  return out;
}

}  // namespace fp4::cost
