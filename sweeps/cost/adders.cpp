#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "fp4/accumulator.h"
#include "fp4/spec.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

// Whether matrix units multiply elements of the format: no lists of values, no choice of two.
static bool is_multiplied(const QuantSpec& s) {
  constexpr Element known[] = {Element::e2m1, Element::e2m3, Element::e3m2, Element::e4m3,
                               Element::e5m2, Element::bf16, Element::fp16, Element::fp32};
  return !s.choice.is_on && std::find(std::begin(known), std::end(known), s.element) != std::end(known);
}

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
  const std::vector<std::string> rows = names_of(accumulator_table);
  json->note_keys(classes);
  for (const auto& [key, entry] : json->entries("OPERANDS", {"of such operands"})) {
    JsonReader value = entry;
    accepted_index(json->place(), key, classes);
    Known<std::string>& adder = adders[key];
    value.note_words(rows);
    const bool alone = !value.json().is_object();
    const JsonReader word = alone ? value : value.at("value", {"a row of `fp4sim list accumulators`"});
    adder.value = rows[word.word(rows)];
    if (alone) continue;
    adder.kind = profile_kinds()[value.at("kind", {"how it is known"}).word(profile_kinds())];
    adder.source = value.at("source", {"measurement, text or model in words"}).text();
    value.finish();
  }
  return adders;
}

std::string adder_of(const Hardware& hardware, const QuantSpec& a, const QuantSpec& b) {
  const auto none = [&](const std::string& what) {
    return Error(
        fmt::format("hardware profile {}: its matrix unit {}; name an adder by --accumulator", hardware.name, what));
  };
  int widest = 0, scaled_fp4 = 0;
  for (const QuantSpec* s : {&a, &b}) {
    if (!is_multiplied(*s)) throw none("takes no such elements");
    const int bits = format_of(s->element).code_bits();
    const std::string unit = format_class(bits);
    widest = std::max(widest, bits);
    if (bits <= 8 && !hardware.takes(unit, info_of(s->element).name))
      throw none(fmt::format("multiplies no {} codes of {}", unit, info_of(s->element).name));
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
  const auto found = hardware.adders.find(key);
  if (found == hardware.adders.end()) throw none(fmt::format("has no known adder of {0} operands (adders.{0})", key));
  return found->second.value;
}

}  // namespace fp4::cost
