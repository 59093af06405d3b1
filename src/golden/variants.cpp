#include "src/golden/variants.h"

#include <fmt/format.h>

#include <algorithm>

#include "fp4/presets.h"
#include "src/golden/compare_arrays.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4::golden {
namespace {

// "floor", "0.75", "16x16": the word of a field.
std::string word_of(const Json& value) {
  if (value.is_array()) return value[0].dump() + "x" + value[1].dump();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string instead_text(const Change& change, const Json& own) {
  return "the kernel does " + golden::text_of({change}) + " instead of " + word_of(own);
}

template <class Set>
void add_variant(std::vector<NamedKernel>& out, const Kernel& base, const Changes& changes, const std::string& detail,
                 const Set& set) {
  out.push_back({changes, detail, base});
  set(out.back().kernel);
}

// Every legal change of one field of the spec.
std::vector<NamedKernel> spec_changes(const Kernel& base) {
  std::vector<NamedKernel> out;
  const QuantSpec own = canonical(base.a);
  const auto with_field = [&](const SpecField<QuantSpec>& field, const Json& value) {
    Kernel k = base;
    try {
      field.set(k.a, {value, field.name});
      field.set(k.b, {value, field.name});
    } catch (const Error&) {
      return;
    }
    if (!invalid_reason(k.a).empty() || !invalid_reason(k.b).empty() || canonical(k.a) == own) return;
    const Change change = {field.name, word_of(value)};
    out.push_back({{change}, instead_text(change, field.get(base.a)), k});
  };
  for (const auto& field : quant_fields()) {
    if (field.words == nullptr || std::string(field.name) == "ragged") continue;
    const bool keeps_shape = std::string(field.name) != "element" || format_of(base.a.element).code_bits() == 4;
    if (!keeps_shape) continue;
    for (const std::string& word : field.words()) {
      const ElementInfo* listed = std::string(field.name) == "element" ? find_row(element_table, word) : nullptr;
      if (listed != nullptr && listed->format.is_grid() && listed->format.code_bits() != 4) continue;
      with_field(field, word);
    }
  }
  const auto with = [&](std::string_view name, const Json& value) {
    for (const auto& field : quant_fields())
      if (field.name == name) with_field(field, value);
  };
  if (base.a.has_scale()) {
    for (const int size : block_sizes) {
      with("block", size);
      with("block", Json::array({size, size}));
    }
    for (const char* word : {"row", "tensor"}) with("block", word);
  }
  for (const float p : {1.0f, 0.75f}) with("prescale", json_number(p));
  for (const int bits : {4, 8, 16, 32}) with("random_bits", bits);
  for (const float t : {448.0f, 256.0f, 2048.0f, 1.0f}) with("target", json_number(t));
  for (const float floor : {0x1p-6f, 0x1p-9f, 0x1p-126f}) with("scale_floor", json_number(floor));
  return out;
}

// Words of other rotations.
void add_rotations(const Case& c, const Kernel& base, std::vector<NamedKernel>& out) {
  const Json own = to_json(c.hadamard);
  const auto with = [&](const char* field, const Json& value) {
    HadamardSpec h = c.hadamard;
    set_hadamard(h, {{field, value}}, "variant");
    if (h == c.hadamard || (!c.is_gemm && hadamard_padded(h, c.cols) != hadamard_padded(c.hadamard, c.cols))) return;
    const Change change = {std::string("hadamard.") + field, word_of(value)};
    add_variant(out, base, {change}, instead_text(change, own[field]), [&](Kernel& k) { k.hadamard = h; });
  };
  for (const auto& field : hadamard_fields())
    if (field.words != nullptr)
      for (const std::string& word : field.words()) with(field.name, word);
  for (const int size : hadamard_sizes) with("size", size);
}

// Draws of another place of the generator, or of another element.
void add_draws(const Case& c, const Kernel& base, std::vector<NamedKernel>& out) {
  const RandomPlace p = c.place;
  const std::pair<Change, RandomPlace> places[] = {{{"stream", "second_operand"}, p.second_operand()},
                                                   {{"step", "0"}, {p.seed, p.stream, 0}},
                                                   {{"step", "+1"}, {p.seed, p.stream, p.step + 1}},
                                                   {{"stream", "0"}, {p.seed, 0, p.step}},
                                                   {{"seed", "0"}, {0, p.stream, p.step}}};
  for (const auto& [change, place] : places)
    add_variant(out, base, {change}, "random bits of another place", [at = place](Kernel& k) { k.place = at; });
}

// Adders, and what happens to a product behind its sums.
void add_products(const Case& c, const Kernel& base, std::vector<NamedKernel>& out) {
  for (const AccumulatorInfo& row : accumulator_table)
    if (invalid_reason(row.row, base.a, base.b).empty())
      add_variant(out, base, {{"accumulator", row.name}}, row.doc, [&](Kernel& k) { k.accumulator = row.row; });
  for (const auto& row : product_factor_table)
    if (row.id != base.factor && takes_amaxes(base, AccumulatorKind::block))
      add_variant(out, base, {{"product_factor", row.name}}, row.doc, [&](Kernel& k) { k.factor = row.id; });
  for (const RealTypeInfo& type : real_type_table)
    for (const bool saturates : {false, true})
      if (type.id != RealType::fp32 && takes_amaxes(base, AccumulatorKind::block))
        add_variant(out, base, {{"sum", std::string(type.name) + (saturates ? "_saturated" : "")}},
                    std::string("the sum is rounded to ") + type.name + " before the tensor scales (alpha) are applied",
                    [&](Kernel& k) { k.sum = type.id, k.sum_saturates = saturates; });
  for (const SparsityInfo& row : sparsity_table)
    if (c.sparsity != Sparsity::none && row.id != c.sparsity)
      add_variant(out, base, {{"sparse", row.name}},
                  row.id == Sparsity::none
                      ? "elements that are left out are zeros in the sum, and take their places in groups"
                      : std::string("of A are kept ") + row.doc,
                  [&](Kernel& k) { k.sparsity = row.id; });
}

// Faults that one setting of the kernel says, with the cases that can have them.
template <auto Field, auto Value>
void set(Kernel& k) {
  k.*Field = Value;
}
struct Fault {
  const char *axis, *word, *detail;
  bool (*is_of)(const Case&, const Kernel&);
  void (*set)(Kernel&);
};

bool has_codes(const Case& c, const Kernel&) { return !c.is_gemm; }
bool is_product(const Case& c, const Kernel&) { return c.is_gemm; }
bool has_scale_codes(const Case& c, const Kernel& k) { return !c.is_gemm && k.a.has_scale() && !is_real(k.a.scale); }
bool has_raw_scales(const Case& c, const Kernel& k) {
  return has_scale_codes(c, k) && k.a.scale_rule == ScaleRule::amax;
}
bool has_nan_codes(const Case& c, const Kernel& k) {
  return !c.is_gemm && (k.a.element == Element::e4m3 || k.a.element == Element::e5m2);
}
bool may_swap_axes(const Case& c, const Kernel&) { return !c.is_gemm && (c.rows == c.cols || !c.with_transpose); }
bool has_factor(const Case&, const Kernel& k) { return k.a.has_tensor_scale(); }
bool stores_factor(const Case& c, const Kernel& k) {
  return !c.is_gemm && k.a.has_tensor_scale() && k.a.tensor_scale_cols(c.cols) == 0;
}
bool stores_amax(const Case& c, const Kernel& k) {  // the amax is not that of a rotated operand
  return stores_factor(c, k) && c.hadamard.size == 0;
}
bool measures_amax(const Case& c, const Kernel& k) {
  return stores_amax(c, k) && k.a.tensor_scale == TensorScale::current;
}
bool rotates(const Case& c, const Kernel&) { return c.hadamard.size > 0; }
bool turns_signs(const Case& c, const Kernel&) {
  return c.hadamard.size > 0 && c.hadamard.signs != HadamardSigns::none;
}
bool rotates_two(const Case& c, const Kernel&) { return c.hadamard.size > 0 && c.is_gemm; }
bool draws(const Case& c, const Kernel& k) { return !c.is_gemm && is_stochastic(k.a.rounding); }
bool shares_words(const Case& c, const Kernel& k) { return draws(c, k) && k.a.random_bits < 32; }

using K = Kernel;
constexpr Fault fault_table[] = {
    {"scale_storage", "values", "scales as real numbers instead of codes", has_scale_codes,
     set<&K::scales_as_values, true>},
    {"scale_step", "-1", "every scale one code low", has_scale_codes, set<&K::scale_step, -1>},
    {"scale_step", "+1", "every scale one code high", has_scale_codes, set<&K::scale_step, 1>},
    {"code_storage", "values", "elements as real numbers instead of codes", has_codes, set<&K::codes_as_values, true>},
    {"payload_scale", "unrounded", "codes are of the scales before they are rounded to their format", has_raw_scales,
     set<&K::rounds_by_raw_scale, true>},
    {"saturation", "wrap", "values beyond the largest code wrap around", has_codes, set<&K::saturation, 1>},
    {"saturation", "nan", "values beyond the largest code become the all-ones code", has_nan_codes,
     set<&K::saturation, 2>},
    {"block_axis", "0", "blocks run along axis 0", may_swap_axes, set<&K::swap_operand_axis, true>},
    {"tensor_scale_decode", "missing", "decoded without the tensor scale", has_factor,
     set<&K::decode_g, K::DecodeG::missing>},
    {"tensor_scale_decode", "twice", "tensor scale applied twice", has_factor, set<&K::decode_g, K::DecodeG::twice>},
    {"tensor_scale_stored", "reciprocal", "1/g instead of g", stores_factor, set<&K::stored_g, K::StoredG::reciprocal>},
    {"tensor_scale_stored", "encode", "target*M/amax, the factor of the encoder, instead of g", stores_amax,
     set<&K::stored_g, K::StoredG::encode>},
    {"tensor_scale_stored", "amax", "the amax of the tensor instead of g", stores_amax,
     set<&K::stored_g, K::StoredG::amax>},
    {"tensor_scale_of", "bf16", "the amax of the tensor rounded to bf16 first", measures_amax,
     set<&K::measured_g, K::MeasuredG::bf16>},
    {"tensor_scale_decode", "divided", "divided by the tensor scale", has_factor,
     set<&K::decode_g, K::DecodeG::divided>},
    {"hadamard", "none", "the Hadamard was left out", rotates, set<&K::rotation, K::Rotation::none>},
    {"hadamard", "signs_reversed", "the signs in reverse order", turns_signs, set<&K::rotation, K::Rotation::reversed>},
    {"hadamard", "signs_after", "signs after the transform instead of before it", turns_signs,
     set<&K::rotation, K::Rotation::after>},
    {"hadamard", "negated", "every sign turned", rotates, set<&K::rotation, K::Rotation::negated>},
    {"hadamard", "only_a", "the second operand was not rotated", rotates_two, set<&K::rotation, K::Rotation::only_a>},
    {"hadamard", "only_b", "the first operand was not rotated", rotates_two, set<&K::rotation, K::Rotation::only_b>},
    {"draw_order", "column_major", "element (row, k) takes draw k*rows + row", draws,
     set<&K::draws, K::DrawOrder::column_major>},
    {"draw_order", "high_first", "the first of a word's draws is its highest bits", shares_words,
     set<&K::draws, K::DrawOrder::high_first>},
    {"output", "transposed", "C^T instead of C", is_product, set<&K::output_transposed, true>},
};

std::vector<NamedKernel> faults(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out;
  for (const Fault& f : fault_table)
    if (f.is_of(c, base)) add_variant(out, base, {{f.axis, f.word}}, f.detail, f.set);
  if (has_codes(c, base))
    add_variant(out, base, {{"code_storage", "values"}, {"scale_storage", "values"}},
                "elements and scales as real numbers instead of codes",
                [](Kernel& k) { k.codes_as_values = k.scales_as_values = true; });
  if (c.hadamard.size > 0) add_rotations(c, base, out);
  if (base.a.draws_random_bits()) add_draws(c, base, out);
  // GEMM kernels write D, and dequantisers their values, in the type of the model.
  for (const RealTypeInfo& type : real_type_table)
    if (type.id != RealType::fp32)
      add_variant(out, base, {{c.is_gemm ? "output" : "dequantized", type.name}},
                  std::string(c.is_gemm ? "the product" : "decoded values") + " rounded to " + type.name,
                  [&](Kernel& k) { k.output = type.id; });
  if (c.is_gemm) add_products(c, base, out);
  return out;
}

}  // namespace

std::string replay_words(const std::string& base_words, const QuantSpec& base, const QuantSpec& changed) {
  const Json own = to_json(base), other = to_json(changed);
  std::string words = base_words;
  for (const auto& field : quant_fields())
    if (own[field.name] != other[field.name]) words += std::string(",") + field.name + "=" + word_of(other[field.name]);
  return words;
}

std::vector<NamedKernel> orders(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out;
  if (c.is_gemm) return out;
  for (const CodeLayoutInfo& layout : code_layout_table) {
    // Bytes are counted as codes anyway.
    if (layout.bits != code_bits(c) || base.codes_in || layout.id == CodeLayout::unpacked) continue;
    add_variant(out, base, {{"nibble_order", layout.name}}, std::string("codes: ") + layout.doc,
                [&](Kernel& k) { k.codes_in = layout.id; });
  }
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (!base.a.has_scale() || base.scales_in) continue;
    add_variant(out, base, {{"scale_layout", layout.name}}, std::string("scales: ") + layout.doc,
                [&](Kernel& k) { k.scales_in = layout.id; });
  }
  return out;
}

std::vector<NamedKernel> changes(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out = orders(c, base);
  if (!c.is_gemm && !base.other_operand)
    add_variant(out, base, {{"operand", "transposed"}}, "the transposed operand's arrays",
                [](Kernel& k) { k.other_operand = true; });
  // An adder of the case that does not take the changed operands would refuse them, and so would a sparse product.
  const auto adds = [&](const Kernel& k) {
    const auto has_short_blocks = [](const QuantSpec& s) {
      return s.has_outer_scale() || (s.has_scale() && s.block.size > 0 && s.block.size < 16);
    };
    if (c.sparsity != Sparsity::none && (has_short_blocks(k.a) || has_short_blocks(k.b))) return false;
    return std::all_of(c.accumulators.begin(), c.accumulators.end(), [&](const std::string& name) {
      return invalid_reason(k.accumulator ? *k.accumulator : accumulator_from(name, c.name), k.a, k.b).empty();
    });
  };
  for (NamedKernel& n : spec_changes(base)) {
    if (c.is_gemm && !adds(n.kernel)) continue;
    out.push_back(n);
    if (c.is_gemm || !changes_axis(n.changes, "block")) continue;
    n.kernel.repeats_scales = true;
    out.push_back({n.changes + Changes{{"scale_storage", "repeated"}},
                   n.detail + "; each scale once for every block of the case's size that it covers", n.kernel});
  }
  for (NamedKernel& n : faults(c, base)) out.push_back(std::move(n));
  return out;
}

std::vector<NamedKernel> zero_signs(const Kernel& base) {
  std::vector<NamedKernel> out;
  for (NamedKernel& n : spec_changes(base))
    if (changes_axis(n.changes, "negative_zero")) out.push_back(std::move(n));
  return out;
}

std::vector<NamedKernel> accidents(const Case& c, const Kernel& base, const std::vector<Misread>& of_a,
                                   const std::vector<Misread>& of_b) {
  std::vector<NamedKernel> out;
  for (const bool is_b : {false, true})
    for (const Misread& m : is_b ? of_b : of_a) {
      const char* const of = !c.is_gemm ? "" : is_b ? ", of the second operand" : ", of the first operand";
      add_variant(out, base,
                  {{std::string(!c.is_gemm ? ""
                                : is_b     ? "b."
                                           : "a.") +
                        m.axis,
                    m.word}},
                  m.detail + of, [&](Kernel& k) { k.misread[is_b ? 1 : 0] = &m; });
    }
  if (!c.is_gemm) return out;
  const auto left_out = [&](int64_t first, int64_t last, const std::string& part) {
    add_variant(out, base, {{"k", "missing"}},
                fmt::format("k {} to {} of {} ({}) is not summed", first, last - 1, c.cols, part), [&](Kernel& k) {
                  k.left_out = {first, last};
                });
  };
  for (int64_t parts = 2; parts <= 16 && c.cols % parts == 0 && c.cols / parts >= 8; parts *= 2)
    for (int64_t i = 0; i < parts; ++i)
      left_out(i * (c.cols / parts), (i + 1) * (c.cols / parts), fmt::format("part {} of {}", i + 1, parts));
  for (int64_t tile = 8; tile <= 256 && tile < c.cols; tile *= 2) {
    const int64_t tail = c.cols % tile > 0 ? c.cols % tile : tile;
    left_out(c.cols - tail, c.cols, "the tail");
  }
  for (const auto& [of, suffix] : {std::pair{Kernel::Operands::a, "_a"}, {Kernel::Operands::b, "_b"}})
    for (const auto& [how, word] : {std::pair{Kernel::DecodeG::missing, "missing"},
                                    {Kernel::DecodeG::twice, "twice"},
                                    {Kernel::DecodeG::divided, "divided"}})
      if (base.a.has_tensor_scale())
        add_variant(out, base, {{"tensor_scale_decode", std::string(word) + suffix}},
                    "the tensor scale of one operand (alpha is the product of both)",
                    [decode = how, which = of](Kernel& k) { k.decode_g = decode, k.decode_g_of = which; });
  return out;
}

std::vector<NamedKernel> presets_like(const Kernel& base) {
  std::vector<NamedKernel> out;
  for (const Preset& p : preset_table) {
    Kernel k = base;
    k.a = p.spec;
    if (k.a.element != base.a.element || k.a.scale != base.a.scale || k.a.block != base.a.block) continue;
    if (is_stochastic(base.a.rounding)) {  // the preset's conversion would draw the same bits
      k.a.rounding = base.a.rounding;
      k.a.random_bits = base.a.random_bits;
    }
    k.b = k.a;
    if (!invalid_reason(k.a).empty() || canonical(k.a) == canonical(base.a)) continue;
    out.push_back({{{"preset", p.name}}, p.doc, k});
  }
  return out;
}

NamedKernel in_words(const NamedKernel& preset, const Kernel& base,
                     const std::function<bool(const Kernel&)>& explains) {
  const Json own = to_json(base.a);
  Json words = to_json(preset.kernel.a);
  Kernel kernel = preset.kernel;
  Changes changes;
  std::string instead;
  for (const auto& field : quant_fields()) {
    if (words[field.name] == own[field.name]) continue;
    const Json kept = words[field.name];
    words[field.name] = own[field.name];
    Kernel without = kernel;
    try {
      set_quant(without.a, {{field.name, own[field.name]}}, "verify");
      without.b = without.a;
      if (invalid_reason(without.a).empty() && explains(without)) {
        kernel = without;
        continue;
      }
    } catch (const Error&) {
    }
    words[field.name] = kept;
    changes.push_back({field.name, word_of(kept)});
    add_word(instead, word_of(own[field.name]));
  }
  return {changes, "as " + preset.changes.front().word + " does, instead of " + instead, kernel};
}

}  // namespace fp4::golden
