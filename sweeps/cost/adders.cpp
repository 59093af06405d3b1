#include "sweeps/cost/adders.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "fp4/accumulator.h"
#include "fp4/spec.h"
#include "src/text/error.h"
#include "sweeps/cost/hardware.h"

namespace fp4::cost {

namespace {

// The class of rates of an element that matrix units multiply; null for others, such as lists of values.
const char* unit_class(const QuantSpec& s) {
  if (s.choice.is_on) return nullptr;
  constexpr std::pair<Element, const char*> classes[] = {
      {Element::e2m1, "fp4"}, {Element::e2m3, "fp6"},  {Element::e3m2, "fp6"},  {Element::e4m3, "fp8"},
      {Element::e5m2, "fp8"}, {Element::bf16, "bf16"}, {Element::fp16, "bf16"}, {Element::fp32, "fp32"}};
  const auto* const found =
      std::find_if(std::begin(classes), std::end(classes), [&](const auto& entry) { return entry.first == s.element; });
  return found == std::end(classes) ? nullptr : found->second;
}

}  // namespace

const std::vector<std::string>& profile_kinds() {
  static const std::vector<std::string> kinds = {"stated", "fitted", "measured", "estimate", "given"};
  return kinds;
}

const std::vector<std::string>& adder_classes() {
  static const std::vector<std::string> classes = {"nvfp4", "mxfp4", "fp8", "16bit", "tf32"};
  return classes;
}

Adders adders_from(JsonReader& profile) {
  Adders adders;
  const auto json =
      profile.find("adders", {"how the matrix unit rounds sums, by its operands; `fp4sim gemm --hardware` takes it"});
  if (!json) return adders;
  const std::vector<std::string>& classes = adder_classes();
  std::vector<std::string> rows;
  for (const auto& row : accumulator_table) rows.emplace_back(row.name);
  json->note_keys(classes);
  for (const auto& [key, entry] : json->entries("OPERANDS", {"of such operands"})) {
    JsonReader value = entry;
    if (std::find(classes.begin(), classes.end(), key) == classes.end())
      throw unknown_word(json->place(), key, classes);
    Adder& adder = adders[key];
    value.note_words(rows);
    const bool alone = !value.json().is_object();
    const JsonReader word = alone ? value : value.at("value", {"a row of `fp4sim list accumulators`"});
    adder.row = rows[word.word(rows)];
    if (alone) continue;
    adder.kind = profile_kinds()[value.at("kind", {"how it is known"}).word(profile_kinds())];
    adder.source = value.at("source", {"measurement, text or model in words"}).text();
    value.finish();
  }
  return adders;
}

Adders load_adders(std::string_view chip, std::string_view place) {
  const NamedText file = open_named_json(chip, "hardware", "hardware profile", place);
  const Json json = parse_json(file.text, file.place);
  JsonReader reader(json, file.place);
  return adders_from(reader);
}

std::string adder_of(std::string_view chip, const QuantSpec& a, const QuantSpec& b, std::string_view place) {
  const Hardware hardware = load_hardware(chip, place);
  const auto none = [&](const std::string& what) {
    return Error(
        fmt::format("hardware profile {}: its matrix unit {}; name an adder by --accumulator", hardware.name, what));
  };
  int widest = 0, scaled_fp4 = 0;
  for (const QuantSpec* s : {&a, &b}) {
    const char* unit = unit_class(*s);
    if (unit == nullptr) throw none("takes no such elements");
    widest = std::max(widest, format_of(s->element).code_bits());
    if (!s->has_scale()) continue;
    const char* scale = row_of(scale_table, s->scale).name;
    if (!hardware.block_scales.contains(unit) || !hardware.multiplies(unit, scale, s->block.size))
      throw none(fmt::format("multiplies no {} operands with {} scales of {} elements", unit, scale, s->block.size));
    if (s->element == Element::e2m1) ++scaled_fp4;
  }
  const bool is_fp4 = scaled_fp4 == 2;
  if (is_fp4 && a.scale != b.scale) throw none("multiplies FP4 operands whose scales have one format");
  const std::string key = is_fp4         ? a.scale == Scale::e8m0 ? "mxfp4" : "nvfp4"
                          : widest <= 8  ? "fp8"
                          : widest <= 16 ? "16bit"
                                         : "tf32";
  const Adders adders = load_adders(chip, place);
  const auto found = adders.find(key);
  if (found == adders.end()) throw none(fmt::format("has no known adder of {0} operands (adders.{0})", key));
  return found->second.row;
}

}  // namespace fp4::cost
