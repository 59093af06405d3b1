// JSON of accumulators, operands and products: the part of spec_text.h above a single operand's QuantSpec.
#include "src/arith/spec_text.h"

namespace fp4 {
namespace {

const AccumulatorInfo* named(const Accumulator& a) {
  for (const AccumulatorInfo& row : accumulator_table) {
    if (row.row == a) return &row;
  }
  return nullptr;
}

int whole(const JsonReader& v, int low, int high) { return static_cast<int>(v.integer(low, high)); }

const char* word_of(Rounding rounding) { return row_of(rounding_table, rounding).name; }

Rounding adder_rounding(const JsonReader& v) {
  constexpr Rounding known[] = {Rounding::nearest_even, Rounding::toward_zero, Rounding::odd};
  return known[v.word({"nearest_even", "toward_zero", "odd"})];
}

// Refuses fields that another kind or field leaves without a meaning.
void check_together(const Accumulator& a, const JsonReader& from) {
  const bool is_floor = a.kind == AccumulatorKind::floor_aligned || a.kind == AccumulatorKind::floor_aligned_pairs;
  const bool aligned = a.kind == AccumulatorKind::aligned;
  if (a.result_bits != fp32_result_bits && (!aligned || a.rounding != Rounding::toward_zero))
    from.fail("result_bits needs kind aligned and rounding toward_zero");
  if (a.unscaled && !is_floor && !(aligned && a.inner == 1))
    from.fail("unscaled needs kind aligned with inner 1, floor_aligned or floor_aligned_pairs");
  if (a.tf32 && !(aligned && a.unscaled)) from.fail("tf32 needs kind aligned and unscaled");
  if (a.is_half && !aligned) from.fail("sum fp16 needs kind aligned");
  if (a.is_half && a.result_bits != fp32_result_bits) from.fail("sum fp16 and result_bits exclude each other");
  if (a.clamps && a.kind != AccumulatorKind::integer) from.fail("clamps needs kind integer");
  const Accumulator plain;
  const bool has_window = a.scale_bits != plain.scale_bits || a.carried_bits != plain.carried_bits ||
                          a.carried_inner != plain.carried_inner || a.cuts_outranked ||
                          a.subnormal_floor != no_subnormal_floor;
  if (has_window && a.kind != AccumulatorKind::windowed)
    from.fail("scale_bits, carried_bits, carried_inner, cuts_outranked and subnormal_floor need kind windowed");
  if (a.kind == AccumulatorKind::windowed && a.rounding != Rounding::toward_zero)
    from.fail("kind windowed needs rounding toward_zero");
  if (is_floor && a.fraction_bits > 28) from.fail("fraction_bits of floor_aligned sums: at most 28");
}

}  // namespace

Json to_json(const Accumulator& a) {
  const AccumulatorInfo* row = named(a);
  return row != nullptr ? Json(row->name) : fields_of(a);
}

Json fields_of(const Accumulator& a) {
  Json out = {{"kind", row_of(accumulator_kind_table, a.kind).name},
              {"group", a.group},
              {"inner", a.inner},
              {"fraction_bits", a.fraction_bits},
              {"group_rounding", row_of(rounding_table, a.group_rounding).name},
              {"rounding", row_of(rounding_table, a.rounding).name},
              {"snap", a.snap_log2 == no_snap ? Json(nullptr) : Json(a.snap_log2)}};
  // Absent from files that lack them.
  if (a.zero_exponent != no_zero_exponent) out["zero_exponent"] = a.zero_exponent;
  if (a.result_bits != fp32_result_bits) out["result_bits"] = a.result_bits;
  if (a.unscaled) out["unscaled"] = true;
  if (a.tf32) out["tf32"] = true;
  if (a.is_half) out["sum"] = "fp16";
  if (a.clamps) out["clamps"] = true;
  if (a.kind != AccumulatorKind::windowed) return out;
  out["scale_bits"] = a.scale_bits;
  out["carried_bits"] = a.carried_bits;
  out["carried_inner"] = a.carried_inner;
  out["cuts_outranked"] = a.cuts_outranked;
  if (a.subnormal_floor != no_subnormal_floor) out["subnormal_floor"] = a.subnormal_floor;
  return out;
}

Accumulator accumulator_from(const JsonReader& from) {
  from.note_rows(accumulator_table);
  from.note_type("accumulator");
  if (from.json().is_string()) return from.row(accumulator_table).row;
  if (!from.json().is_object())
    from.fail("expected an accumulator name or an object with `kind`, found " + shown(from.json()));
  JsonReader given = from;
  Accumulator a;
  a.kind = given.at("kind", {"how one product is added up"}).row(accumulator_kind_table).id;
  const auto set = [&given](const char* key, const About& about, auto& field, auto... range) {
    const auto v = given.find(key, about);
    if (!v) return;
    if constexpr (sizeof...(range) == 2)
      field = whole(*v, range...);
    else if constexpr (std::is_same_v<decltype(field), bool&>)
      field = v->boolean();
    else
      field = adder_rounding(*v);
  };
  set("group", {"products per group; 0: all of K", a.group}, a.group, 0, 1 << 20);
  set("inner", {"aligned: products summed exactly before alignment", a.inner}, a.inner, 1, 128);
  set("fraction_bits", {"aligned: bits kept after the point of the largest exponent", a.fraction_bits}, a.fraction_bits,
      1, 120);
  set("group_rounding", {"of a group's sum; sequential: of a product", word_of(a.group_rounding)}, a.group_rounding);
  set("rounding", {"of each addition; aligned: of its result", word_of(a.rounding)}, a.rounding);
  if (const auto v = given.find("snap", {"the final sum goes to the nearest multiple of 2^snap; absent: it stays"}))
    a.snap_log2 = whole(*v, -149, 127), v->note_form(R"({"type": "null"})");
  // From -200 on: with 120 fraction bits a sum is cut at 2^-320, within the bits of ExactSum (2^-384).
  set("zero_exponent", {"aligned: exponent of what is zero; absent: its scales' own"}, a.zero_exponent, -200, 127);
  set("result_bits", {"aligned, toward zero: bits after the point that a sum keeps; default: those of fp32, 23"},
      a.result_bits, 1, fp32_result_bits);
  set("unscaled", {"whether operands without block scales, of at most 16 bits, go through the adder as well", false},
      a.unscaled);
  set("tf32", {"aligned, unscaled: fp32 elements go through it too, their last 13 bits cleared", false}, a.tf32);
  if (const auto v = given.find("sum", {"aligned: what sums are rounded to", "fp32"}))
    a.is_half = v->word({"fp32", "fp16"}) == 1;
  set("scale_bits", {"windowed: bits kept below the largest exponent of a pair of scales", 0}, a.scale_bits, 0, 120);
  set("carried_bits", {"windowed: bits kept below the exponent of a sum that leads", 0}, a.carried_bits, 0, 120);
  set("carried_inner", {"windowed: products summed exactly where the sum so far leads", 1}, a.carried_inner, 1, 128);
  set("cuts_outranked", {"windowed: whether dots below the sum so far are cut as if it led", false}, a.cuts_outranked);
  if (const auto v = given.find("subnormal_floor", {"windowed: log2 of what a dot of lesser scales needs to stay in a "
                                                    "subnormal sum; absent: nothing"}))
    a.subnormal_floor = whole(*v, -300, 0), v->note_form(R"({"type": "null"})");
  set("clamps", {"integer: whether a group's sum beyond int32 becomes its end, not its rest modulo 2^32", false},
      a.clamps);
  given.finish();
  check_together(a, from);
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

namespace {

Json split_to(const SplitSpec& s) {
  Json out = {{"method", row_of(split_table, s.kind).name}, {"share", s.share}};
  if (*row_of(split_table, s.kind).high != 0) out["high"] = to_json(s.high);
  return out;
}

// A kind brings its defaults.
void set_split(SplitSpec& s, JsonReader given) {
  given.note_type("split");
  if (const auto kind = given.find("method", {"how the product is cut", "none"})) {
    const SplitInfo& row = kind->row(split_table);
    s = {row.id, row.share, *row.high == 0 ? QuantSpec{} : find_preset(row.high)->spec};
  }
  if (const auto share = given.find("share", {"of the channels, elements at each end, or singular values; default: "
                                              "0.1 for hot_channels, 0.01 for the others"}))
    s.share = share->number(0, 1);
  if (const auto high = given.find("high", {"both operands of the second product; default: mxfp8 for hot_channels, "
                                            "bf16 for clamp"})) {
    high->note_type("second_part");
    set_quant(s.high, *high);
  }
  given.finish();
}

std::string invalid_reason(const SplitSpec& s, const GemmSpec& g, bool is_fprop) {
  if (!s.any()) return "";
  const std::string name = std::string("split ") + row_of(split_table, s.kind).name;
  if (!(s.share > 0 && s.share < (s.kind == Split::clamp ? 0.5 : 1)))
    return name + (s.kind == Split::clamp ? " needs a share between 0 and 0.5" : " needs a share between 0 and 1");
  if (*row_of(split_table, s.kind).high != 0) {
    if (std::string reason = fp4::invalid_reason(s.high); !reason.empty()) return name + ": high: " + reason;
    if (s.high.has_tensor_scale() && s.high.tensor_scale == TensorScale::hold)
      return name + ": high: tensor_scale hold is not defined, its part is another one in each step";
    if (std::string reason = fp4::invalid_reason(g.accumulator, s.high, s.high); !reason.empty())
      return name + ": high: " + reason;
  }
  for (const OperandSpec* o : {&g.a, &g.b}) {
    if (s.kind == Split::low_rank && o->quant.has_tensor_scale() && o->quant.tensor_scale == TensorScale::hold)
      return name + ": tensor_scale hold is not defined for the factors, which are others in each step";
    if (is_fprop && !o->estimator.is_straight_through() && (s.kind != Split::clamp || o == &g.a))
      return name + " needs estimator ste and scale_gradient none for what it splits";
  }
  if ((is_fprop || s.kind == Split::low_rank) && g.hadamard.size > 0)
    return name + (is_fprop ? " needs an fprop without a Hadamard" : " needs a product without a Hadamard");
  return "";
}

}  // namespace

Json to_json(const GemmSpec& g, bool is_fprop) {
  Json out = {{"a", to_json(g.a, is_fprop)},
              {"b", to_json(g.b, is_fprop)},
              {"hadamard", to_json(g.hadamard)},
              {"accumulator", to_json(g.accumulator)}};
  if (g.split.any()) out["split"] = split_to(g.split);  // absent from files that lack it
  return out;
}

void set_operand(OperandSpec& o, const JsonReader& from) {
  JsonReader given = from;
  given.note_type("operand");
  if (const auto preset = given.find("preset", preset_about)) o.quant = preset->row(preset_table).spec;
  set_fields(o.quant, quant_fields(), given);
  set_fields(o.estimator, estimator_fields(), given);  // of fprop
  if (const auto value = given.find("source", {"what dgrad.b and wgrad.b are quantised from", "high_precision"}))
    o.source = value->row(source_table).id;
  given.finish();
}

void set_gemm(GemmSpec& g, const JsonReader& from) {
  JsonReader given = from;
  given.note_type("product");
  if (const auto both = given.find("*", {"both operands, before `a` and `b`"})) {  // before the single ones
    set_operand(g.a, *both);
    set_operand(g.b, *both);
  }
  if (const auto operand =
          given.find("a", {"first operand: activations (fprop), the upstream gradient (dgrad, wgrad)"}))
    set_operand(g.a, *operand);
  if (const auto operand = given.find("b", {"second operand: weights (fprop, dgrad), activations (wgrad)"}))
    set_operand(g.b, *operand);
  if (const auto hadamard = given.find("hadamard", {"transform of both operands along K, before quantisation"}))
    set_hadamard(g.hadamard, *hadamard);
  if (const auto accumulator = given.find("accumulator", {"how the matrix unit adds up", "fma_sequential"}))
    g.accumulator = accumulator_from(*accumulator);
  if (const auto split = given.find("split", {"a part of the product that is quantised apart"}))
    set_split(g.split, *split);
  given.finish();
}

GemmSpec canonical(GemmSpec g, bool is_fprop) {
  for (OperandSpec* o : {&g.a, &g.b}) {
    o->quant = canonical(o->quant);
    o->estimator = is_fprop ? canonical(o->estimator) : EstimatorSpec{};
    if (is_fprop) o->source = Source::high_precision;
  }
  g.a.source = Source::high_precision;  // a of dgrad and wgrad is the upstream gradient
  g.hadamard = canonical(g.hadamard);
  // One rounding a block is one a product where an operand has no blocks.
  if (is_plain_fma(g.accumulator, g.a.quant.has_scale(), g.b.quant.has_scale()) && g.accumulator.snap_log2 == no_snap)
    g.accumulator = {.kind = AccumulatorKind::fma};
  if (g.split.any() && *row_of(split_table, g.split.kind).high != 0)
    g.split.high = canonical(g.split.high);
  else
    g.split = {g.split.kind, g.split.any() ? g.split.share : 0, {}};
  return g;
}

std::string invalid_reason(const GemmSpec& g, bool is_fprop) {
  for (const OperandSpec* o : {&g.a, &g.b}) {
    if (std::string reason = invalid_reason(o->quant); !reason.empty()) return reason;
    if (!is_fprop) continue;
    const EstimatorSpec& e = o->estimator;
    const bool is_listed = format_of(o->quant.element).is_grid() || o->quant.choice.is_on;
    if (is_listed && (e.scale_gradient != ScaleGradient::none ||
                      (e.estimator != Estimator::ste && e.estimator != Estimator::clipped_ste)))
      return "elements that are lists of values take estimator ste or clipped_ste and no scale_gradient";
    if (e.scale_gradient == ScaleGradient::none) continue;
    if (!o->quant.has_scale()) return "scale_gradient needs a scale";
    if (is_quest(o->quant.scale_rule))
      return "scale_gradient is not defined for the quest rules: they do not read amax";
    if (e.scale_estimator != Estimator::ste && e.scale_estimator != Estimator::dge &&
        e.scale_estimator != Estimator::dge_raw && e.scale_estimator != Estimator::sigmoid) {
      return "scale_estimator must be ste, dge, dge_raw or sigmoid";
    }
  }
  if (std::string reason = invalid_reason(g.accumulator, g.a.quant, g.b.quant); !reason.empty()) return reason;
  return invalid_reason(g.split, g, is_fprop);
}

}  // namespace fp4
