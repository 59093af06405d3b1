#include "src/golden/variants.h"

#include <memory>

#include "src/error.h"
#include "src/golden/compare.h"
#include "src/golden/simulator.h"

namespace fp4::golden {
namespace {

std::vector<float> floats_of(const Array& a) {
  std::vector<float> out;
  for (const uint32_t w : elements_of(a, false)) out.push_back(float_of(w));
  return out;
}

bool is_transposed(const std::string& array) { return parse_array_name(array).is_transposed; }

// The same array of the other operand: "scales_128x4" <-> "scales_128x4_transposed".
std::string other_operand(const std::string& array) {
  const std::string suffix = "_transposed";
  return is_transposed(array) ? array.substr(0, array.size() - suffix.size()) : array + suffix;
}

struct NamedKernel {
  std::string cause, detail;
  Kernel kernel;
};

// Every legal change of one field of the spec.
std::vector<NamedKernel> spec_changes(const Kernel& base) {
  std::vector<NamedKernel> out;
  const auto with = [&](const std::string& field, const Json& value) {
    Kernel k = base;
    try {
      set_quant(k.a, {{field, value}}, "variant");
      set_quant(k.b, {{field, value}}, "variant");
    } catch (const Error&) {
      return;
    }
    if (!invalid_reason(k.a).empty() || !invalid_reason(k.b).empty() || canonical(k.a) == canonical(base.a)) return;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const Json was = to_json(base.a)[field];
    out.push_back({field + "=" + text,
                   "the kernel does " + field + "=" + text + " instead of " +
                       (was.is_string() ? was.get<std::string>() : was.dump()),
                   k});
  };
  for (const auto& field : quant_fields()) {
    if (field.words == nullptr || std::string(field.name) == "ragged") continue;
    const bool keeps_shape = std::string(field.name) != "element" || format_of(base.a.element).code_bits() == 4;
    if (!keeps_shape) continue;
    for (const std::string& word : field.words()) with(field.name, word);
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
  add("tensor_scale_stored=reciprocal", "1/g instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::reciprocal; });
  if (c.hadamard.size > 0) return;  // the amax is that of the rotated operand
  add("tensor_scale_stored=encode", "target*M/amax, the factor of the encoder, instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::encode; });
  add("tensor_scale_stored=amax", "the amax of the tensor instead of g",
      [](Kernel& k) { k.stored_g = Kernel::StoredG::amax; });
  if (base.a.tensor_scale != TensorScale::current) return;
  add("tensor_scale_of=bf16", "the amax of the tensor rounded to bf16 first",
      [](Kernel& k) { k.measured_g = Kernel::MeasuredG::bf16; });
}

// GEMM kernels write D in the type of the model.
void add_output_types(const Kernel& base, const std::string& suffix, std::vector<NamedKernel>& out) {
  for (const RealTypeInfo& type : real_type_table) {
    if (type.id == RealType::fp32) continue;
    Kernel k = base;
    k.output = type.id;
    out.push_back({std::string("output=") + type.name + suffix, std::string("the product rounded to ") + type.name, k});
  }
}

std::vector<NamedKernel> deeds(const Case& c, const Kernel& base) {
  std::vector<NamedKernel> out;
  const auto add = [&](const char* cause, const char* detail, auto&& change) {
    Kernel k = base;
    change(k);
    out.push_back({cause, detail, k});
  };
  if (!c.is_gemm) {
    if (base.a.has_scale() && !is_real(base.a.scale)) {
      if (is_power_of_two_rule(base.a.scale_rule)) {
        add("exponent=float_log2", "floor(log2f(amax)): one too high for maxima 1-4 ulp below a power of two",
            [](Kernel& k) { k.float_log2 = true; });
      }
      add("scale_storage=values", "scales as real numbers instead of codes",
          [](Kernel& k) { k.scales_as_values = true; });
      add("scale_step=-1", "every scale one code low", [](Kernel& k) { k.scale_step = -1; });
      add("scale_step=+1", "every scale one code high", [](Kernel& k) { k.scale_step = 1; });
    }
    add("code_storage=values", "elements as real numbers instead of codes",
        [](Kernel& k) { k.codes_as_values = true; });
    add("code_storage=values and scale_storage=values", "elements and scales as real numbers instead of codes",
        [](Kernel& k) { k.codes_as_values = k.scales_as_values = true; });
    add("saturation=wrap", "values beyond the largest code wrap around", [](Kernel& k) { k.saturation = 1; });
    if (base.a.element == Element::e4m3 || base.a.element == Element::e5m2) {
      add("saturation=nan", "values beyond the largest code become the all-ones code",
          [](Kernel& k) { k.saturation = 2; });
    }
    if (c.rows == c.cols || !c.with_transpose) {
      add("block_axis=0", "blocks run along axis 0", [](Kernel& k) { k.swap_operand_axis = true; });
    }
  }
  if (base.a.has_tensor_scale()) {
    add("tensor_scale_decode=missing", "decoded without the tensor scale",
        [](Kernel& k) { k.decode_g = Kernel::DecodeG::missing; });
    add("tensor_scale_decode=twice", "tensor scale applied twice",
        [](Kernel& k) { k.decode_g = Kernel::DecodeG::twice; });
    if (!c.is_gemm && base.a.tensor_scale_cols(c.cols) == 0) add_tensor_scales(c, base, add);
    if (!c.is_gemm) {
      add("tensor_scale_decode=divided", "divided by the tensor scale",
          [](Kernel& k) { k.decode_g = Kernel::DecodeG::divided; });
    }
  }
  if (c.hadamard.size > 0) add("hadamard=none", "the Hadamard was left out", [](Kernel& k) { k.drop_hadamard = true; });
  if (base.a.draws_random_bits()) {
    const auto at = [&](const char* cause, RandomPlace p) {
      add(cause, "random bits of another place", [&](Kernel& k) { k.place = p; });
    };
    at("stream=second_operand", c.place.second_operand());
    at("step=0", {c.place.seed, c.place.stream, 0});
    at("step=+1", {c.place.seed, c.place.stream, c.place.step + 1});
    at("stream=0", {c.place.seed, 0, c.place.step});
    at("seed=0", {0, c.place.stream, c.place.step});
    if (is_stochastic(base.a.rounding) && !c.is_gemm) {
      add("draw_order=column_major", "element (row, k) takes draw k*rows + row",
          [](Kernel& k) { k.draws = Kernel::DrawOrder::column_major; });
      if (base.a.random_bits < 32)
        add("draw_order=high_first", "the first of a word's draws is its highest bits",
            [](Kernel& k) { k.draws = Kernel::DrawOrder::high_first; });
    }
  }
  if (c.is_gemm) {
    for (const AccumulatorInfo& row : accumulator_table) {
      Kernel k = base;
      k.accumulator = row.row;
      out.push_back({std::string("accumulator=") + row.name, row.doc, k});
    }
    add_output_types(base, "", out);
    add("output=transposed", "C^T instead of C", [](Kernel& t) { t.output_transposed = true; });
  }
  return out;
}

Variant variant_of(const std::shared_ptr<const Simulator>& s, const NamedKernel& n) {
  // Shared by all copies of the function, so that its address says which kernel it is.
  return {n.cause, n.detail, [s, k = std::make_shared<const Kernel>(n.kernel)](const std::string& array) {
            return s->elements(*k, array);
          }};
}

// Layout variants act on golden elements of an unchanged (or otherwise changed) kernel.
// `also_plain`: the order that an array's name does not say may be the plain one, too.
std::vector<Variant> with_layouts(const Case& c, const Variant& inner, const BlockGeometry& g, const BlockGeometry& gt,
                                  bool also_plain) {
  std::vector<Variant> out;
  const std::string suffix = inner.cause.empty() ? "" : " and " + inner.cause;
  // A kernel with a nibble order or layout has it in every array of that stage, whatever the array is called.
  const auto canonical = [inner](const ArrayName& name) { return inner.compute(name.part); };
  if (has_fp4_codes(c)) {
    for (const CodeLayoutInfo& layout : code_layout_table) {
      if (layout.id == CodeLayout::unpacked) continue;  // bytes are counted as codes anyway
      if (layout.id == CodeLayout::low_first && !also_plain) continue;
      out.push_back({std::string("nibble_order=") + layout.name + suffix, std::string("codes: ") + layout.doc,
                     [inner, canonical, id = layout.id, rows = c.rows, cols = c.cols](const std::string& array) {
                       const ArrayName name = parse_array_name(array);
                       if (name.stage != "codes") return inner.compute(array);
                       return in_code_layout(canonical(name), id, name.is_transposed ? cols : rows);
                     }});
    }
  }
  const auto relaid = [&](const std::string& cause, const std::string& detail, auto&& order) {
    out.push_back({cause + suffix, detail, [inner, canonical, order, g, gt](const std::string& array) {
                     const ArrayName name = parse_array_name(array);
                     if (name.stage != "scales") return inner.compute(array);
                     const BlockGeometry& shape = name.is_transposed ? gt : g;
                     const Elements e = canonical(name);
                     if (static_cast<int64_t>(e.size()) != shape.scale_rows * shape.scale_cols) return e;
                     return order(e, shape.scale_rows, shape.scale_cols);
                   }});
  };
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (layout.id == ScaleLayout::linear && !also_plain) continue;
    relaid(
        std::string("scale_layout=") + layout.name, std::string("scales: ") + layout.doc,
        [id = layout.id](const Elements& e, int64_t rows, int64_t cols) { return in_scale_layout(e, id, rows, cols); });
  }
  out.push_back({"operand=transposed" + suffix, "the transposed operand's arrays",
                 [inner](const std::string& array) { return inner.compute(other_operand(array)); }});
  return out;
}

}  // namespace

CaseInputs load_inputs(const Bundle& bundle, const Case& c) {
  CaseInputs in;
  in.a = floats_of(load_array(bundle, c, c.is_gemm ? "a" : "input"));
  if (c.is_gemm) in.b = floats_of(load_array(bundle, c, "b"));
  const auto expect = [&](const std::vector<float>& v, int64_t rows) {
    if (static_cast<int64_t>(v.size()) != rows * c.cols)
      throw Error("golden " + c.name + ": inputs do not match the manifest");
  };
  expect(in.a, c.rows);
  if (c.is_gemm) expect(in.b, c.rows_b);
  return in;
}

std::vector<Variant> single_variants(const Case& c, const CaseInputs& in, const std::string& backend, int threads) {
  const auto s = std::make_shared<const Simulator>(c, in, backend, threads);
  const Kernel base = s->base();
  std::vector<Variant> out;
  const int64_t k = hadamard_padded(c.hadamard, c.cols);
  const BlockGeometry g = geometry_of(base.a, c.rows, k);
  const BlockGeometry gt = geometry_of(base.a, c.cols, hadamard_padded(c.hadamard, c.rows));
  if (!c.is_gemm) {
    Variant same = variant_of(s, {"", "", base});
    for (Variant& v : with_layouts(c, same, g, gt, true)) out.push_back(std::move(v));
  }
  for (const NamedKernel& n : spec_changes(base)) out.push_back(variant_of(s, n));
  for (const NamedKernel& n : deeds(c, base)) out.push_back(variant_of(s, n));
  return out;
}

std::vector<Variant> pair_variants(const Case& c, const CaseInputs& in, const std::string& backend, int threads) {
  const auto s = std::make_shared<const Simulator>(c, in, backend, threads);
  const Kernel base = s->base();
  const BlockGeometry g = geometry_of(base.a, c.rows, hadamard_padded(c.hadamard, c.cols));
  const BlockGeometry gt = geometry_of(base.a, c.cols, hadamard_padded(c.hadamard, c.rows));
  std::vector<Variant> out;
  if (c.is_gemm) {
    std::vector<NamedKernel> both;
    for (const AccumulatorInfo& row : accumulator_table) {
      Kernel k = base;
      k.accumulator = row.row;
      add_output_types(k, std::string(" and accumulator=") + row.name, both);
    }
    for (const NamedKernel& n : both) out.push_back(variant_of(s, n));
  } else {
    // Nibbles and scales of two layouts at once.
    for (const Variant& codes : with_layouts(c, variant_of(s, {"", "", base}), g, gt, false))
      if (codes.cause.starts_with("nibble_order="))
        for (Variant& v : with_layouts(c, codes, g, gt, false))
          if (v.cause.starts_with("scale_layout=")) out.push_back(std::move(v));
  }
  const std::vector<NamedKernel> first = spec_changes(base);
  for (const NamedKernel& n : first) {
    if (!c.is_gemm) {
      for (Variant& v : with_layouts(c, variant_of(s, n), g, gt, false)) out.push_back(std::move(v));
    }
    const std::string axis = n.cause.substr(0, n.cause.find('='));
    if (axis != "scale_rule" && axis != "arithmetic") continue;
    for (const NamedKernel& second : spec_changes(n.kernel)) {
      if (second.cause.starts_with(axis)) continue;
      out.push_back(variant_of(s, {n.cause + " and " + second.cause, n.detail + "; " + second.detail, second.kernel}));
    }
  }
  return out;
}

}  // namespace fp4::golden
