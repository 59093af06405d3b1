#include "src/golden/variants.h"

#include <fmt/format.h>

#include <algorithm>

#include "fp4/presets.h"
#include "src/golden/compare_arrays.h"
#include "src/text/error.h"

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

// What a dump may call tensor scale, and what its amax may be taken of.
template <class Add>
void add_tensor_scales(const Case& c, const Kernel& base, const Add& add) {
  add({{"tensor_scale_stored", "reciprocal"}}, "1/g instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::reciprocal; });
  if (c.hadamard.size > 0) return;  // the amax is that of the rotated operand
  add({{"tensor_scale_stored", "encode"}}, "target*M/amax, the factor of the encoder, instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::encode; });
  add({{"tensor_scale_stored", "amax"}}, "the amax of the tensor instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::amax; });
  if (base.a.tensor_scale != TensorScale::current) return;
  add({{"tensor_scale_of", "bf16"}}, "the amax of the tensor rounded to bf16 first",
      [](Kernel& k) { k.measured_g = Kernel::MeasuredG::bf16; });
}

// GEMM kernels write D, and dequantisers their values, in the type of the model.
void add_output_types(const Case& c, const Kernel& base, std::vector<NamedKernel>& out) {
  for (const RealTypeInfo& type : real_type_table) {
    if (type.id == RealType::fp32) continue;
    Kernel k = base;
    k.output = type.id;
    out.push_back({{{c.is_gemm ? "output" : "dequantized", type.name}},
                   std::string(c.is_gemm ? "the product" : "decoded values") + " rounded to " + type.name,
                   k});
  }
}

// What goes wrong with a rotation, and words of other ones.
std::vector<NamedKernel> rotations(const Case& c, const Kernel& base) {
  using Rotation = Kernel::Rotation;
  struct Fault {
    Rotation id;
    const char* name;
    const char* detail;
    bool needs_signs, is_of_products;
  };
  constexpr Fault known[] = {
      {Rotation::none, "none", "the Hadamard was left out", false, false},
      {Rotation::reversed, "signs_reversed", "the signs in reverse order", true, false},
      {Rotation::after, "signs_after", "signs after the transform instead of before it", true, false},
      {Rotation::negated, "negated", "every sign turned", false, false},
      {Rotation::only_a, "only_a", "the second operand was not rotated", false, true},
      {Rotation::only_b, "only_b", "the first operand was not rotated", false, true},
  };
  std::vector<NamedKernel> out;
  for (const Fault& fault : known) {
    if ((fault.needs_signs && c.hadamard.signs == HadamardSigns::none) || (fault.is_of_products && !c.is_gemm))
      continue;
    Kernel k = base;
    k.rotation = fault.id;
    out.push_back({{{"hadamard", fault.name}}, fault.detail, k});
  }
  const Json own = to_json(c.hadamard);
  const auto with = [&](const char* field, const Json& value) {
    Kernel k = base;
    k.hadamard = c.hadamard;
    set_hadamard(*k.hadamard, {{field, value}}, "variant");
    if (*k.hadamard == c.hadamard ||
        (!c.is_gemm && hadamard_padded(*k.hadamard, c.cols) != hadamard_padded(c.hadamard, c.cols)))
      return;
    const Change change = {std::string("hadamard.") + field, word_of(value)};
    out.push_back({{change}, instead_text(change, own[field]), k});
  };
  for (const auto& field : hadamard_fields())
    if (field.words != nullptr)
      for (const std::string& word : field.words()) with(field.name, word);
  for (const int size : hadamard_sizes) with("size", size);
  return out;
}

std::vector<NamedKernel> faults(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out;
  const auto add = [&](const Changes& changes, const std::string& detail, auto&& change) {
    Kernel k = base;
    change(k);
    out.push_back({changes, detail, k});
  };
  if (!c.is_gemm) {
    if (base.a.has_scale() && !is_real(base.a.scale)) {
      add({{"scale_storage", "values"}}, "scales as real numbers instead of codes",
          [](Kernel& k) { k.scales_as_values = true; });
      add({{"scale_step", "-1"}}, "every scale one code low", [](Kernel& k) { k.scale_step = -1; });
      add({{"scale_step", "+1"}}, "every scale one code high", [](Kernel& k) { k.scale_step = 1; });
    }
    add({{"code_storage", "values"}}, "elements as real numbers instead of codes",
        [](Kernel& k) { k.codes_as_values = true; });
    add({{"code_storage", "values"}, {"scale_storage", "values"}},
        "elements and scales as real numbers instead of codes",
        [](Kernel& k) { k.codes_as_values = k.scales_as_values = true; });
    if (base.a.has_scale() && !is_real(base.a.scale) && base.a.scale_rule == ScaleRule::amax)
      add({{"payload_scale", "unrounded"}}, "codes are of the scales before they are rounded to their format",
          [](Kernel& k) { k.rounds_by_raw_scale = true; });
    add({{"saturation", "wrap"}}, "values beyond the largest code wrap around", [](Kernel& k) { k.saturation = 1; });
    if (base.a.element == Element::e4m3 || base.a.element == Element::e5m2) {
      add({{"saturation", "nan"}}, "values beyond the largest code become the all-ones code",
          [](Kernel& k) { k.saturation = 2; });
    }
    if (c.rows == c.cols || !c.with_transpose) {
      add({{"block_axis", "0"}}, "blocks run along axis 0", [](Kernel& k) { k.swap_operand_axis = true; });
    }
  }
  if (base.a.has_tensor_scale()) {
    add({{"tensor_scale_decode", "missing"}}, "decoded without the tensor scale",
        [](Kernel& k) { k.decode_g = Kernel::DecodeG::missing; });
    add({{"tensor_scale_decode", "twice"}}, "tensor scale applied twice",
        [](Kernel& k) { k.decode_g = Kernel::DecodeG::twice; });
    if (!c.is_gemm && base.a.tensor_scale_cols(c.cols) == 0) add_tensor_scales(c, base, add);
    add({{"tensor_scale_decode", "divided"}}, "divided by the tensor scale",
        [](Kernel& k) { k.decode_g = Kernel::DecodeG::divided; });
  }
  if (c.hadamard.size > 0)
    for (NamedKernel& n : rotations(c, base)) out.push_back(std::move(n));
  if (base.a.draws_random_bits()) {
    const auto at = [&](const Change& change, RandomPlace p) {
      add({change}, "random bits of another place", [&](Kernel& k) { k.place = p; });
    };
    at({"stream", "second_operand"}, c.place.second_operand());
    at({"step", "0"}, {c.place.seed, c.place.stream, 0});
    at({"step", "+1"}, {c.place.seed, c.place.stream, c.place.step + 1});
    at({"stream", "0"}, {c.place.seed, 0, c.place.step});
    at({"seed", "0"}, {0, c.place.stream, c.place.step});
    if (is_stochastic(base.a.rounding) && !c.is_gemm) {
      add({{"draw_order", "column_major"}}, "element (row, k) takes draw k*rows + row",
          [](Kernel& k) { k.draws = Kernel::DrawOrder::column_major; });
      if (base.a.random_bits < 32)
        add({{"draw_order", "high_first"}}, "the first of a word's draws is its highest bits",
            [](Kernel& k) { k.draws = Kernel::DrawOrder::high_first; });
    }
  }
  add_output_types(c, base, out);
  if (c.is_gemm) {
    for (const AccumulatorInfo& row : accumulator_table) {
      if (!invalid_reason(row.row, base.a, base.b).empty()) continue;
      Kernel k = base;
      k.accumulator = row.row;
      out.push_back({{{"accumulator", row.name}}, row.doc, k});
    }
    for (const auto& row : product_factor_table)
      if (row.id != base.factor && takes_amaxes(base, AccumulatorKind::block))
        add({{"product_factor", row.name}}, row.doc, [&](Kernel& k) { k.factor = row.id; });
    for (const RealTypeInfo& type : real_type_table)
      for (const bool saturates : {false, true})
        if (type.id != RealType::fp32 && takes_amaxes(base, AccumulatorKind::block))
          add({{"sum", std::string(type.name) + (saturates ? "_saturated" : "")}},
              std::string("the sum is rounded to ") + type.name + " before the tensor scales (alpha) are applied",
              [&](Kernel& k) { k.sum = type.id, k.sum_saturates = saturates; });
    add({{"output", "transposed"}}, "C^T instead of C", [](Kernel& t) { t.output_transposed = true; });
    for (const SparsityInfo& row : sparsity_table)
      if (c.sparsity != Sparsity::none && row.id != c.sparsity)
        add({{"sparse", row.name}},
            row.id == Sparsity::none
                ? "elements that are left out are zeros in the sum, and take their places in groups"
                : std::string("of A are kept ") + row.doc,
            [&](Kernel& k) { k.sparsity = row.id; });
  }
  return out;
}

}  // namespace

CaseInputs load_inputs(const Bundle& bundle, const Case& c) {
  CaseInputs in;
  in.a = stored_floats(bundle, c, c.is_gemm ? "a" : "input");
  if (c.is_gemm) in.b = stored_floats(bundle, c, "b");
  const auto expect = [&](const std::vector<float>& v, int64_t rows) {
    if (static_cast<int64_t>(v.size()) != rows * c.cols)
      throw Error("golden " + c.name + ": inputs do not match the manifest");
  };
  expect(in.a, c.rows);
  if (c.is_gemm) expect(in.b, c.rows_b);
  return in;
}

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
    Kernel k = base;
    k.codes_in = layout.id;
    out.push_back({{{"nibble_order", layout.name}}, std::string("codes: ") + layout.doc, k});
  }
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (!base.a.has_scale() || base.scales_in) continue;
    Kernel k = base;
    k.scales_in = layout.id;
    out.push_back({{{"scale_layout", layout.name}}, std::string("scales: ") + layout.doc, k});
  }
  return out;
}

std::vector<NamedKernel> changes(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out = orders(c, base);
  if (!c.is_gemm && !base.other_operand) {
    Kernel k = base;
    k.other_operand = true;
    out.push_back({{{"operand", "transposed"}}, "the transposed operand's arrays", k});
  }
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
      Kernel k = base;
      k.misread[is_b ? 1 : 0] = &m;
      const char* const of = !c.is_gemm ? "" : is_b ? ", of the second operand" : ", of the first operand";
      out.push_back({{{std::string(!c.is_gemm ? "" : is_b ? "b." : "a.") + m.axis, m.word}}, m.detail + of, k});
    }
  const auto left_out = [&](int64_t first, int64_t last, const std::string& part) {
    Kernel k = base;
    k.left_out = {first, last};
    out.push_back(
        {{{"k", "missing"}}, fmt::format("k {} to {} of {} ({}) is not summed", first, last - 1, c.cols, part), k});
  };
  for (int64_t parts = 2; c.is_gemm && parts <= 16 && c.cols % parts == 0 && c.cols / parts >= 8; parts *= 2)
    for (int64_t i = 0; i < parts; ++i)
      left_out(i * (c.cols / parts), (i + 1) * (c.cols / parts), fmt::format("part {} of {}", i + 1, parts));
  for (int64_t tile = 8; c.is_gemm && tile <= 256 && tile < c.cols; tile *= 2) {
    const int64_t tail = c.cols % tile > 0 ? c.cols % tile : tile;
    left_out(c.cols - tail, c.cols, "the tail");
  }
  for (const auto& [of, suffix] : {std::pair{Kernel::Operands::a, "_a"}, {Kernel::Operands::b, "_b"}})
    for (const auto& [how, word] : {std::pair{Kernel::DecodeG::missing, "missing"},
                                    {Kernel::DecodeG::twice, "twice"},
                                    {Kernel::DecodeG::divided, "divided"}}) {
      if (!c.is_gemm || !base.a.has_tensor_scale()) continue;
      Kernel k = base;
      k.decode_g = how, k.decode_g_of = of;
      out.push_back({{{"tensor_scale_decode", std::string(word) + suffix}},
                     "the tensor scale of one operand (alpha is the product of both)",
                     k});
    }
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
    instead += (instead.empty() ? "" : ", ") + word_of(own[field.name]);
  }
  return {changes, "as " + preset.changes.front().word + " does, instead of " + instead, kernel};
}

}  // namespace fp4::golden
