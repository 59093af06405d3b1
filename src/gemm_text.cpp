// JSON of accumulators, operands and products: the part of spec_text.h above a single operand's QuantSpec.
#include "src/error.h"
#include "src/spec_text.h"

namespace fp4 {
namespace {

constexpr const char* accumulator_keys[] = {"kind",           "group",    "inner", "fraction_bits",
                                            "group_rounding", "rounding", "snap",  "zero_exponent"};

const AccumulatorInfo* named(const Accumulator& a) {
  for (const AccumulatorInfo& row : accumulator_table) {
    if (row.row == a) return &row;
  }
  return nullptr;
}

int whole(const Json& v, const std::string& place, int low, int high) {
  if (!v.is_number_integer() || v.get<int64_t>() < low || v.get<int64_t>() > high) {
    throw Error(place + ": expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                ", got " + v.dump());
  }
  return v.get<int>();
}

Rounding adder_rounding(const Json& v, const std::string& place) {
  if (v == "nearest_even") return Rounding::nearest_even;
  if (v == "toward_zero") return Rounding::toward_zero;
  throw unknown_word(place, v.is_string() ? v.get<std::string>() : v.dump(), {"nearest_even", "toward_zero"});
}

AccumulatorKind kind_from(const Json& v, const std::string& place) {
  std::vector<std::string> names;
  for (const AccumulatorKindInfo& k : accumulator_kind_table) {
    if (v == k.name) return k.id;
    names.emplace_back(k.name);
  }
  throw unknown_word(place, v.is_string() ? v.get<std::string>() : v.dump(), names);
}

}  // namespace

Json to_json(const Accumulator& a) {
  if (const AccumulatorInfo* row = named(a); row != nullptr) return row->name;
  Json out = {{"kind", row_of(accumulator_kind_table, a.kind).name},
              {"group", a.group},
              {"inner", a.inner},
              {"fraction_bits", a.fraction_bits},
              {"group_rounding", row_of(rounding_table, a.group_rounding).name},
              {"rounding", row_of(rounding_table, a.rounding).name},
              {"snap", a.snap_log2 == no_snap ? Json(nullptr) : Json(a.snap_log2)}};
  if (a.zero_exponent != no_zero_exponent) out["zero_exponent"] = a.zero_exponent;  // absent from files that lack it
  return out;
}

Accumulator accumulator_from(const Json& given, const std::string& place) {
  if (given.is_string()) {
    const std::string name = given.get<std::string>();
    if (const auto* row = find_row(accumulator_table, name); row != nullptr) return row->row;
    std::vector<std::string> names;
    for (const AccumulatorInfo& row : accumulator_table) names.emplace_back(row.name);
    throw unknown_word(place, name, names);
  }
  if (!given.is_object() || !given.contains("kind")) {
    throw Error(place + ": expected an accumulator name or an object with `kind`, got " + given.dump());
  }
  Accumulator a;
  for (const auto& [key, value] : given.items()) {
    const std::string at = place + "." + key;
    if (key == "kind") {
      a.kind = kind_from(value, at);
    } else if (key == "group") {
      a.group = whole(value, at, 0, 1 << 20);
    } else if (key == "inner") {
      a.inner = whole(value, at, 1, 128);
    } else if (key == "fraction_bits") {
      a.fraction_bits = whole(value, at, 1, 120);
    } else if (key == "group_rounding") {
      a.group_rounding = adder_rounding(value, at);
    } else if (key == "rounding") {
      a.rounding = adder_rounding(value, at);
    } else if (key == "snap") {
      a.snap_log2 = value.is_null() ? no_snap : whole(value, at, -149, 127);
    } else if (key == "zero_exponent") {  // with 120 fraction bits the cut stays within ExactSum
      a.zero_exponent = value.is_null() ? no_zero_exponent : whole(value, at, -200, 127);
    } else {
      throw unknown_word(place, key, {std::begin(accumulator_keys), std::end(accumulator_keys)});
    }
  }
  return a;
}

Json to_json(const OperandSpec& o, bool is_fprop) {
  Json out = to_json(o.quant);
  if (is_fprop) {
    for (const auto& f : estimator_fields()) out[f.name] = f.get(o.estimator);
  } else {
    out["source"] = row_of(source_table, o.source).name;
  }
  return out;
}

Json to_json(const GemmSpec& g, bool is_fprop) {
  return {{"a", to_json(g.a, is_fprop)},
          {"b", to_json(g.b, is_fprop)},
          {"hadamard", to_json(g.hadamard)},
          {"accumulator", to_json(g.accumulator)}};
}

void set_operand(OperandSpec& o, const Json& given, const std::string& place) {
  if (!given.is_object()) throw Error(place + ": expected an object, got " + given.dump());
  Json quant = Json::object();
  for (const auto& [key, value] : given.items()) {
    bool is_estimator = false;
    for (const auto& f : estimator_fields()) {
      if (key == f.name) {
        f.set(o.estimator, value, place + "." + key);
        is_estimator = true;
      }
    }
    if (key == "source") {
      const auto* row = value.is_string() ? find_row(source_table, value.get<std::string>()) : nullptr;
      if (row == nullptr) throw unknown_word(place + ".source", value.dump(), {"high_precision", "fprop_quantised"});
      o.source = row->id;
    } else if (!is_estimator) {
      quant[key] = value;
    }
  }
  set_quant(o.quant, quant, place);
}

void set_gemm(GemmSpec& g, const Json& given, const std::string& place) {
  if (!given.is_object()) throw Error(place + ": expected an object, got " + given.dump());
  if (given.contains("*")) {  // both operands, before the single ones
    set_operand(g.a, given["*"], place + ".*");
    set_operand(g.b, given["*"], place + ".*");
  }
  for (const auto& [key, value] : given.items()) {
    if (key == "a") {
      set_operand(g.a, value, place + ".a");
    } else if (key == "b") {
      set_operand(g.b, value, place + ".b");
    } else if (key == "hadamard") {
      set_hadamard(g.hadamard, value, place + ".hadamard");
    } else if (key == "accumulator") {
      g.accumulator = accumulator_from(value, place + ".accumulator");
    } else if (key != "*") {
      throw unknown_word(place, key, {"a", "b", "*", "hadamard", "accumulator"});
    }
  }
}

GemmSpec canonical(GemmSpec g, bool is_fprop) {
  for (OperandSpec* o : {&g.a, &g.b}) {
    o->quant = canonical(o->quant);
    o->estimator = is_fprop ? canonical(o->estimator) : EstimatorSpec{};
    if (is_fprop) o->source = Source::high_precision;
  }
  g.a.source = Source::high_precision;  // a of dgrad and wgrad is the upstream gradient
  g.hadamard = canonical(g.hadamard);
  if (!g.a.quant.has_scale() || !g.b.quant.has_scale()) g.accumulator = accumulator_from("fma_sequential", "");
  return g;
}

std::string invalid_reason(const GemmSpec& g, bool is_fprop) {
  for (const OperandSpec* o : {&g.a, &g.b}) {
    if (std::string reason = invalid_reason(o->quant); !reason.empty()) return reason;
    if (!is_fprop) continue;
    const EstimatorSpec& e = o->estimator;
    if (e.scale_gradient == ScaleGradient::none) continue;
    if (!o->quant.has_scale()) return "scale_gradient needs a scale";
    if (is_quest(o->quant.scale_rule))
      return "scale_gradient is not defined for the quest rules: they do not read amax";
    if (e.scale_estimator != Estimator::ste && e.scale_estimator != Estimator::dge &&
        e.scale_estimator != Estimator::dge_raw && e.scale_estimator != Estimator::sigmoid) {
      return "scale_estimator must be ste, dge, dge_raw or sigmoid";
    }
  }
  return "";
}

}  // namespace fp4
