#include "src/golden/variants.h"

#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "fp4/gemm.h"
#include "src/backends.h"
#include "src/error.h"
#include "src/golden/compare.h"
#include "src/golden/layout.h"

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

// Codes and scales one by one, in the order in which a file keeps them.
Elements in_code_layout(const Elements& e, CodeLayout layout, int64_t rows) {
  if (layout == CodeLayout::low_first || rows < 1 || static_cast<int64_t>(e.size()) % rows != 0) return e;
  const Placement at(row_of(code_layout_table, layout).placing, rows, static_cast<int64_t>(e.size()) / rows);
  Elements out(static_cast<size_t>(at.size()), 0);
  for (size_t i = 0, width = e.size() / static_cast<size_t>(rows); i < e.size(); ++i)
    out[static_cast<size_t>(at.at(static_cast<int64_t>(i / width), static_cast<int64_t>(i % width)))] = e[i];
  return out;
}

Elements in_scale_layout(const Elements& e, ScaleLayout layout, int64_t rows, int64_t cols) {
  if (layout == ScaleLayout::linear || static_cast<int64_t>(e.size()) != rows * cols) return e;
  const std::vector<uint8_t> moved = to_layout(layout, std::vector<uint8_t>(e.begin(), e.end()), rows, cols);
  return Elements(moved.begin(), moved.end());
}

// A kernel that differs: its specs and the deeds that no spec can say.
struct Kernel {
  QuantSpec a, b;
  std::optional<Accumulator> accumulator{};  // empty: the one that the array's name says
  bool float_log2 = false;                   // exponent = floor(fl32(log2 a'))
  int saturation = 0;                        // 1: codes beyond M wrap, 2: they become NaN or the top code pattern
  int scale_step = 0;                        // every scale code off by this
  enum class DecodeG { once, missing, twice, divided } decode_g = DecodeG::once;
  bool swap_operand_axis = false;  // blocks along axis 0, result stored as [rows, cols]
  bool drop_hadamard = false;
  std::optional<RandomPlace> place{};
  bool output_transposed = false;
};

class Simulator {
 public:
  Simulator(const Case& c, const CaseInputs& in, const std::string& backend, int threads)
      : c_(c), in_(in), dispatcher_(backend), threads_(threads) {}

  Kernel base() const {
    Kernel k;
    k.a = quant_spec_from_words(c_.words);
    k.b = c_.words_b.empty() ? k.a : quant_spec_from_words(c_.words_b);
    return k;
  }

  Elements elements(const Kernel& kernel, const std::string& array) const {
    if (c_.is_gemm) return array.starts_with("output_") ? output(kernel, array.substr(7)) : Elements{};
    const ArrayName name = parse_array_name(array);
    if (name.stage.empty() || name.stage == input_stage) return {};
    const Quantized& q = last_quantized(kernel, name.is_transposed);
    if (name.stage == "codes") return in_code_layout(codes(q), name.code_layout, q.rows);
    if (name.stage == "scales")
      return in_scale_layout(scales(q), name.scale_layout, q.geometry.scale_rows, q.geometry.scale_cols);
    if (name.stage == "tensor_scale") return bits(q.tensor_scale);
    return decoded(kernel, q);
  }

 private:
  // The arrays of a dump are asked for one after the other: their tensor is quantised once. `k` is known by its
  // address.
  const Quantized& last_quantized(const Kernel& k, bool transposed) const {
    Last& last = last_[transposed ? 1 : 0];
    if (last.kernel != &k) last = {&k, quantized(k, transposed)};
    return last.q;
  }

  Quantized quantized(const Kernel& k, bool transposed) const {
    QuantizeCall call = {.x = view_of(in_.a.data(), c_.rows, c_.cols),
                         .spec = k.a,
                         .hadamard = k.drop_hadamard ? HadamardSpec{} : c_.hadamard,
                         .place = k.place.value_or(c_.place),
                         .threads = threads_};
    if (transposed != k.swap_operand_axis) call.x = call.x.transposed();
    Quantized q;
    if (!k.float_log2 && k.saturation == 0 && k.scale_step == 0) {
      dispatcher_.quantize(call, q);
      return q;
    }
    reference_backend().quantize(call, q);
    recode(k, call, q);
    return q;
  }

  // Scales by a float log2 or off by a step, codes without saturation: block by block with the core's own functions.
  void recode(const Kernel& k, const QuantizeCall& call, Quantized& q) const {
    if (q.scales.empty() && k.a.has_scale()) return;
    const Quantizer resolved = resolve(k.a);
    const FloatFormat& f = resolved.element;
    std::fill(q.codes.begin(), q.codes.end(), uint8_t{0});
    std::vector<char> done(q.scales.size(), 0);
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t c = 0; c < q.cols; ++c) {
        const TensorFactor t = {q.tensor_factor_at(r, c), 1.0f};
        uint32_t scale_code = 0;
        if (k.a.has_scale()) {
          const auto index = static_cast<size_t>(q.scale_index(r, c));
          if (done[index] == 0) {
            q.scales[index] = static_cast<uint8_t>(changed_scale(k, call, q, r, c, t));
            done[index] = 1;
          }
          scale_code = q.scales[index];
          if (resolved.scale.is_nan_code(scale_code)) continue;
        }
        const float x = call.x.at(r, c);
        const auto position = static_cast<uint64_t>(r * q.cols + c);
        const uint32_t draw = is_stochastic(k.a.rounding) ? random_draw(call.place, position, k.a.random_bits) : 0;
        uint32_t code = element_code(resolved, x, scale_code, t, draw);
        if (k.saturation != 0 && is_finite(x) && x != 0.0f) {
          const Magnitude u = payload(k.a.arithmetic, x, scale_value(resolved, scale_code), t, k.a.prescale);
          const uint64_t grid = round_to_grid(f, u, is_negative(x), {k.a.rounding, k.a.random_bits, draw});
          if (grid > f.largest_code) {
            const uint32_t over =
                k.saturation == 1 ? static_cast<uint32_t>(grid) & f.magnitude_mask() : f.magnitude_mask();
            code = over | (code & f.sign_code());
          }
        }
        q.set_code(r, c, code);
      }
    }
  }

  uint32_t changed_scale(const Kernel& k, const QuantizeCall& call, const Quantized& q, int64_t r, int64_t c,
                         TensorFactor t) const {
    const Quantizer resolved = resolve(k.a);
    const BlockGeometry& g = q.geometry;
    const int64_t r0 = r / g.block_rows * g.block_rows;
    const int64_t c0 = c / g.block_cols * g.block_cols;
    const BlockView block = {call.x.data + r0 * call.x.row_stride + c0 * call.x.col_stride,
                             call.x.row_stride,
                             call.x.col_stride,
                             smaller(g.block_rows, q.rows - r0),
                             smaller(g.block_cols, q.cols - c0),
                             g.block_rows * g.block_cols};
    uint32_t code = block_scale_code(resolved, block, t, 0);
    const BlockMaximum m = block_maximum(block);
    if (m.amax == 0.0f || resolved.scale.is_nan_code(code)) return code;
    if (k.float_log2) {
      const float l = static_cast<float>(std::log2(static_cast<double>(m.amax) / static_cast<double>(t.g)));
      code = power_code(resolved.scale, static_cast<int>(std::floor(l)) - resolved.element.max_exponent());
    }
    const int64_t stepped = static_cast<int64_t>(code) + k.scale_step;
    return static_cast<uint32_t>(smaller<int64_t>(larger<int64_t>(stepped, 0), resolved.scale.largest_code));
  }

  Elements codes(const Quantized& q) const {
    Elements out;
    const int64_t width = q.is_packed() ? 2 * q.code_row_bytes() : q.geometry.padded_cols;
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t k = 0; k < width; ++k) out.push_back(q.code(r, k));
    }
    return out;
  }
  static Elements bits(const std::vector<float>& v) {
    Elements out;
    for (const float x : v) out.push_back(bits_of(x));
    return out;
  }
  Elements scales(const Quantized& q) const {
    return q.real_scales.empty() ? Elements(q.scales.begin(), q.scales.end()) : bits(q.real_scales);
  }
  Elements decoded(const Kernel& k, Quantized q) const {
    for (float& g : q.tensor_scale) {
      if (k.decode_g == Kernel::DecodeG::missing) g = 1.0f;
      if (k.decode_g == Kernel::DecodeG::twice) g = g * g;
      if (k.decode_g == Kernel::DecodeG::divided) g = 1.0f / g;
    }
    std::vector<float> y(static_cast<size_t>(q.rows * q.cols));
    dispatcher_.dequantize(q, y.data(), threads_);
    if (!k.swap_operand_axis) return bits(y);
    Elements out(y.size());
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t c = 0; c < q.cols; ++c) {
        out[static_cast<size_t>(c * q.rows + r)] = bits_of(y[static_cast<size_t>(r * q.cols + c)]);
      }
    }
    return out;
  }

  Elements output(const Kernel& k, const std::string& accumulator) const {
    std::vector<float> c(static_cast<size_t>(c_.rows * c_.rows_b));
    const HadamardSpec h = k.drop_hadamard ? HadamardSpec{} : c_.hadamard;
    const RandomPlace place = k.place.value_or(c_.place);
    Quantized a, b;
    dispatcher_.quantize({.x = view_of(in_.a.data(), c_.rows, c_.cols), .spec = k.a, .hadamard = h, .place = place}, a);
    dispatcher_.quantize(
        {.x = view_of(in_.b.data(), c_.rows_b, c_.cols), .spec = k.b, .hadamard = h, .place = place.second_operand()},
        b);
    const GemmOptions options = {k.accumulator ? *k.accumulator : accumulator_from(accumulator, c_.name),
                                 h.product_divisor(), threads_};
    if (k.decode_g != Kernel::DecodeG::once) {
      for (Quantized* q : {&a, &b}) {
        for (float& g : q->tensor_scale) g = k.decode_g == Kernel::DecodeG::twice ? g * g : 1.0f;
      }
    }
    dispatcher_.gemm(a, b, options, c.data(), c_.rows_b);
    Elements out(c.size());
    for (int64_t i = 0; i < c_.rows; ++i) {
      for (int64_t j = 0; j < c_.rows_b; ++j) {
        const int64_t at = k.output_transposed ? j * c_.rows + i : i * c_.rows_b + j;
        out[static_cast<size_t>(at)] = bits_of(c[static_cast<size_t>(i * c_.rows_b + j)]);
      }
    }
    return out;
  }

  struct Last {
    const Kernel* kernel = nullptr;
    Quantized q;
  };
  const Case& c_;
  const CaseInputs& in_;
  Dispatcher dispatcher_;
  int threads_;
  mutable std::array<Last, 2> last_;
};

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
      add("scale_step=-1", "every scale one code low", [](Kernel& k) { k.scale_step = -1; });
      add("scale_step=+1", "every scale one code high", [](Kernel& k) { k.scale_step = 1; });
    }
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
  }
  if (c.is_gemm) {
    for (const AccumulatorInfo& row : accumulator_table) {
      Kernel k = base;
      k.accumulator = row.row;
      out.push_back({std::string("accumulator=") + row.name, row.doc, k});
    }
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
