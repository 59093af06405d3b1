#include "src/arith/element_grids.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>

#include "fp4/codec.h"
#include "src/arith/spec_text.h"

namespace fp4 {
namespace {

struct CustomElement {
  std::string name, doc;
  ElementGrid grid;
  std::vector<float> values;  // as given
  ElementInfo info = {};
};

struct CustomElements {
  std::mutex mutex;
  std::deque<CustomElement> all;  // they stay where they are
  std::vector<const ElementCalls*> calls;
};

CustomElements& custom() {
  static CustomElements elements;
  return elements;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool is_same(const CustomElement& a, const CustomElement& b) {
  return a.name == b.name && a.grid.is_signed == b.grid.is_signed && a.grid.base == b.grid.base &&
         a.grid.micro[0] == b.grid.micro[0] && a.grid.micro[1] == b.grid.micro[1] && a.grid.calls == b.grid.calls &&
         same_bits(a.values, b.values);
}

Element keep_element(CustomElement next, const std::string& place) {
  CustomElements& elements = custom();
  const std::lock_guard lock(elements.mutex);
  for (size_t i = 0; i < elements.all.size(); ++i) {
    if (is_same(elements.all[i], next)) return static_cast<Element>(named_elements + static_cast<int>(i));
  }
  const size_t index = elements.all.size();
  if (index == static_cast<size_t>(most_custom_elements))
    throw Error(place + ": more than " + std::to_string(most_custom_elements) + " elements in one process");
  CustomElement& kept = elements.all.emplace_back(std::move(next));
  const auto id = static_cast<Element>(named_elements + static_cast<int>(index));
  kept.info = {id, kept.name.c_str(), kept.doc.c_str(), "given", grid_format(kept.grid)};
  custom_elements[index].store(&kept.info, std::memory_order_release);
  return id;
}

void check_name(const std::string& name, const std::string& place) {
  const bool is_word = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!is_word) throw Error(place + ": " + shown(name) + " is no name; accepted: up to 64 small letters, digits and _");
  if (find_row(element_table, name) != nullptr)
    throw Error(place + ": '" + name + "' is the name of another element; take another name");
}

// FNV-1a of the bits.
std::string name_of_bits(const std::vector<float>& values, bool is_signed) {
  uint32_t hash = is_signed ? 2166136261u : 2166136263u;
  for (const float v : values) {
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (bits_of(v) >> (8 * byte) & 0xFFu)) * 16777619u;
  }
  return fmt::format("grid_{:08x}", hash);
}

std::vector<float> values_of(const ElementGrid& grid) {
  const size_t count = size_t{1} << (grid.code_bits - (grid.is_signed ? 1 : 0));
  return {grid.value, grid.value + count};
}

float value_from(const JsonReader& v) {
  v.note_form(R"({"type": "string", "pattern": "^-?(0x)?[0-9a-fA-F.]+([eEpP][-+]?[0-9]+)?$"})");
  v.note_form(R"({"type": "null"})");
  if (v.json().is_null()) return float_of(canonical_nan_bits);
  if (!v.json().is_string()) return static_cast<float>(v.number());
  const std::string text = v.text();
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  float value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                              hex ? std::chars_format::hex : std::chars_format::general);
  const bool is_number = !digits.empty() && digits[0] != '-' && std::isfinite(value);
  if (!is_number || end != digits.data() + digits.size() || problem != std::errc())
    v.fail(shown(text) + " is no number; accepted: 0.75, -1e-3, 0x1.8p-2, null for a code that is never written");
  return negative ? -value : value;
}

const ElementCalls* calls_from(const JsonReader& v) {
  const auto id = static_cast<size_t>(v.integer(0, 1 << 20));
  CustomElements& elements = custom();
  const std::lock_guard lock(elements.mutex);
  if (id >= elements.calls.size()) v.fail("these callables live in another process");
  return elements.calls[id];
}

Element micro_element_from(JsonReader& given, const std::string& name) {
  const Element base = element_from(given.at("base", {"the element that micro-exponents multiply"}));
  MicroLevel micro[most_micro_levels] = {};
  const JsonReader levels = given.at("micro", {"exponents below the block scale, the widest parts first"});
  const std::vector<JsonReader> list = levels.list(1);
  if (list.size() > static_cast<size_t>(most_micro_levels))
    levels.fail("at most " + std::to_string(most_micro_levels) + " levels");
  for (size_t i = 0; i < list.size(); ++i) {
    JsonReader level = list[i];
    micro[i].per = static_cast<int>(level.at("per", {"elements that share an exponent"}).integer(2, 64));
    micro[i].bits = static_cast<int>(level.at("bits", {"bits of the exponent"}).integer(1, 3));
    level.finish();
    if (i > 0 && (micro[i].per >= micro[i - 1].per || micro[i - 1].per % micro[i].per != 0))
      list[i].fail("each level's `per` divides that of the level before");
  }
  return add_micro_element(name, base, micro, given.place());
}

}  // namespace

Element add_element(std::string name, const std::vector<float>& values, bool is_signed, const std::string& place,
                    const ElementCalls* calls) {
  const auto count = static_cast<int>(std::min<size_t>(values.size(), 10000));
  if (const char* problem = grid_problem(values.data(), count, is_signed)) throw Error(place + ": " + problem);
  CustomElement next;
  next.grid = make_grid(values.data(), count, is_signed);
  next.grid.calls = calls;
  next.values = values;
  if (const ElementInfo* row = find_row(element_table, name)) {
    const bool same = row->format.is_grid() && !row->format.has_micro() && calls == nullptr &&
                      row->format.is_signed == is_signed &&
                      same_bits(values_of(*row->format.grid), values_of(next.grid));
    if (same) return row->id;
  }
  next.name = name.empty() ? name_of_bits(values, is_signed) : std::move(name);
  check_name(next.name, place);
  next.doc = fmt::format("{} values{}", values.size(), is_signed ? " and a sign" : "");
  return keep_element(std::move(next), place);
}

int register_calls(const ElementCalls& calls) {
  CustomElements& elements = custom();
  const std::lock_guard lock(elements.mutex);
  elements.calls.push_back(&calls);
  return static_cast<int>(elements.calls.size()) - 1;
}

Element add_micro_element(std::string name, Element base, const MicroLevel (&micro)[most_micro_levels],
                          const std::string& place) {
  const FloatFormat& format = format_of(base);
  if (format.has_micro()) throw Error(place + ": the base of micro-exponents has some of its own");
  if (format.code_bits() > 8 || format.has_nan() || format.has_infinity)
    throw Error(place + ": the base of micro-exponents has at most 8 bits, no infinity and no NaN");
  for (const ElementInfo& row : element_table) {
    if (name == row.name && row.format.has_micro() && row.format.grid->base == static_cast<int>(base) &&
        row.format.grid->micro[0] == micro[0] && row.format.grid->micro[1] == micro[1])
      return row.id;
  }
  // Before the grid is made, which has room for so many.
  int exponents = 1;
  for (const MicroLevel& level : micro) exponents += (1 << level.bits) - 1;
  if (1 << (format.code_bits() + grid_detail::bits_to_count(exponents)) > ElementGrid::most_codes)
    throw Error(place + ": codes of more than 9 bits, micro-exponents included");
  std::vector<float> values;
  for (uint32_t code = 0; code < 1u << format.code_bits(); ++code) values.push_back(decode(format, code));
  CustomElement next;
  next.grid = make_micro_grid(static_cast<int>(base), format.code_bits(), values.data(), micro);
  if (next.grid.steps[next.grid.largest_code] >= 1 << ElementGrid::most_steps_log2)
    throw Error(place + ": the largest value must be less than 2^30 times the smallest step");
  if (next.grid.value[next.grid.largest_code] >= power_of_two(ElementGrid::highest_log2))
    throw Error(place + ": the largest value must be below 2^40");
  if (name.empty()) {
    name = info_of(base).name;
    for (const MicroLevel& level : micro)
      if (level.per > 0) name += fmt::format("_{}per{}", level.bits, level.per);
  }
  check_name(name, place);
  next.name = std::move(name);
  next.doc = fmt::format("{} under micro-exponents", info_of(base).name);
  return keep_element(std::move(next), place);
}

Json element_json(Element element) {
  const ElementInfo& info = info_of(element);
  if (is_named(element)) return info.name;
  const ElementGrid& grid = *info.format.grid;
  if (grid.has_micro()) {
    Json levels = Json::array();
    for (const MicroLevel& level : grid.micro)
      if (level.per > 0) levels.push_back({{"per", level.per}, {"bits", level.bits}});
    return {{"name", info.name}, {"base", element_json(static_cast<Element>(grid.base))}, {"micro", levels}};
  }
  Json values = Json::array();
  const std::lock_guard lock(custom().mutex);
  for (const float v : custom().all[static_cast<size_t>(static_cast<int>(element) - named_elements)].values)
    values.push_back(is_nan(v) ? Json() : json_number(v));
  Json out = {{"name", info.name}, {"signed", grid.is_signed}, {"values", values}};
  if (grid.calls != nullptr)
    out["calls"] = std::find(custom().calls.begin(), custom().calls.end(), grid.calls) - custom().calls.begin();
  return out;
}

Element element_from_word(const std::string& word, const std::string& place) {
  const Json value = word;
  return element_from({value, place});
}

Element element_from(const JsonReader& from) {
  from.note_rows(element_table);
  from.note_form(R"({"type": "string", "pattern": "[.]json$"})");
  from.note_form(R"({"type": "object", "properties": {"name": {"type": "string"}, "signed": {"type": "boolean"},
      "values": {"type": "array", "minItems": 2, "maxItems": 256, "items": {"type": ["number", "string", "null"]}},
      "base": {"type": ["string", "object"]}, "micro": {"type": "array", "minItems": 1, "maxItems": 2}}})");
  if (from.json().is_string()) {
    const auto word = from.json().get<std::string>();
    if (word.starts_with('{')) {
      const Json value = parse_json(word, from.place());
      return element_from({value, from.place()});
    }
    if (!word.ends_with(".json")) return from.row(element_table).id;
    const NamedText file = read_text_file(word, from.place());
    const Json document = parse_json(file.text, file.place);
    if (!document.is_object()) throw Error(file.place + ": expected an object with `values` or `micro`");
    return element_from({document, file.place});
  }
  if (!from.json().is_object())
    from.fail("expected an element's name, a .json file or an object with `values`, found " + shown(from.json()));
  JsonReader given = from;
  std::string name;
  if (const auto v = given.find("name", {"what tables call it; absent: one made of the values"})) {
    name = v->text();
    if (name.empty()) v->fail("a name is not empty");
  }
  const bool has_micro = given.json().contains("micro") || given.json().contains("base");
  if (!has_micro && !given.json().contains("values") && given.notes() == nullptr)
    if (const ElementInfo* row = find_row(element_table, name)) return given.finish(), row->id;
  Element element = Element::e2m1;
  if (has_micro) element = micro_element_from(given, name);
  if (!has_micro || given.notes() != nullptr) {
    bool is_signed = false;
    if (const auto v =
            given.find("signed", {"whether values are magnitudes, with a sign bit above their codes", false}))
      is_signed = v->boolean();
    std::vector<float> values;
    const JsonReader list = given.at(
        "values", {"numbers by code, rounded to fp32: decimals, or texts such as \"0x1.8p-2\"; null: never written"});
    for (const JsonReader& v : list.list(2)) values.push_back(value_from(v));
    const ElementCalls* calls = nullptr;
    if (given.json().contains("calls")) calls = calls_from(given.at("calls"));
    if (!has_micro) element = add_element(name, values, is_signed, given.place(), calls);
  }
  given.finish();
  return element;
}

}  // namespace fp4
