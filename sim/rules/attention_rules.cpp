#include "sim/rules/attention_rules.h"

#include "src/arith/spec_text.h"
#include "src/text/read_field.h"

namespace fp4::sim {

AttentionRules::AttentionRules() {
  kv.element = Element::fp32;
  kv.scale = Scale::none;
}

bool AttentionRules::stores() const { return kv.has_scale() || kv.element != Element::fp32; }

AttentionRules attention_rules_from(const JsonReader& from, AttentionRules rules) {
  JsonReader given = from;
  if (const auto kv = given.find("kv", {"spec in which a cache stores K and V; fp32: as they are"}))
    set_quant(rules.kv, *kv);
  read_row(given, "keys", "along what K's blocks lie", cache_axis_table, rules.keys);
  read_row(given, "values", "along what V's blocks lie", cache_axis_table, rules.values);
  read_row(given, "tile", "what of the softmax a quantised P V rounds", softmax_tile_table, rules.tile);
  read_row(given, "recompute", "P of the backward pass", recompute_table, rules.recompute);
  read_row(given, "delta", "what the softmax's backward takes from every dP of a row", softmax_delta_table,
           rules.delta);
  given.finish();
  return rules;
}

Json attention_rules_to(const AttentionRules& rules) {
  return {{"kv", to_json(canonical(rules.kv))},
          {"keys", row_of(cache_axis_table, rules.keys).name},
          {"values", row_of(cache_axis_table, rules.values).name},
          {"tile", row_of(softmax_tile_table, rules.tile).name},
          {"recompute", row_of(recompute_table, rules.recompute).name},
          {"delta", row_of(softmax_delta_table, rules.delta).name}};
}

}  // namespace fp4::sim
