// See attention_rules.h.
#include "sim/rules/attention_rules.h"

#include "src/arith/spec_text.h"

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
  if (const auto keys = given.find("keys", {"along what K's blocks lie", row_of(cache_axis_table, rules.keys).name}))
    rules.keys = keys->row(cache_axis_table).id;
  if (const auto values =
          given.find("values", {"along what V's blocks lie", row_of(cache_axis_table, rules.values).name}))
    rules.values = values->row(cache_axis_table).id;
  if (const auto tile = given.find(
          "tile", {"what of the softmax a quantised P V rounds", row_of(softmax_tile_table, rules.tile).name}))
    rules.tile = tile->row(softmax_tile_table).id;
  if (const auto recompute =
          given.find("recompute", {"P of the backward pass", row_of(recompute_table, rules.recompute).name}))
    rules.recompute = recompute->row(recompute_table).id;
  if (const auto delta = given.find("delta", {"what the softmax's backward takes from every dP of a row",
                                              row_of(softmax_delta_table, rules.delta).name}))
    rules.delta = delta->row(softmax_delta_table).id;
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
