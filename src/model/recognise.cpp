// A candidate is a tensor whose name ends as codes do and that has scales beside it. Of the candidates that rows give,
// the first that fits is taken; a weight that only nearly fits keeps its fault, which whoever reads it is told.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "src/model/model_tensors.h"
#include "src/model/weight_names.h"

namespace fp4 {
namespace {

std::uint64_t elements_of(const Shape& shape) { return element_count("model", shape); }

// What comes before `ending` in the name; nothing where the name does not end so.
std::optional<std::string> stem_before(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return {};
  std::string stem = name.substr(0, name.size() - ending.size());
  if (ending.starts_with('_') || ending.empty() || stem.empty() || stem.ends_with('.') || stem.ends_with('_'))
    return stem;
  return {};
}

bool is_byte(Dtype type) { return type == Dtype::u8 || type == Dtype::i8; }
bool is_fp4(Dtype type) { return is_byte(type) || type == Dtype::f4_e2m1 || type == Dtype::u32; }
bool is_fp8(Dtype type) { return type == Dtype::f8_e4m3 || type == Dtype::f8_e5m2; }
bool is_real_type(Dtype type) {
  return type == Dtype::f32 || type == Dtype::bf16 || type == Dtype::f16 || type == Dtype::f64;
}

// [E, 1, 1] as [E].
Shape without_ones(Shape shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

class Recogniser {
 public:
  Recogniser(const ModelNames& names, const Layouts& told) : names_(names), told_(told) {}
  std::vector<ModelTensor> run();

 private:
  const TensorPlace* find(const std::string& name) const {
    const auto at = names_.all.find(name);
    return at == names_.all.end() ? nullptr : &at->second;
  }
  std::string mark_of(const std::string& stem) const {
    std::string layer = stem;
    if (layer.ends_with('.')) layer.pop_back();
    const auto at = names_.marks.find(layer);
    return at == names_.marks.end() ? "" : at->second;
  }
  std::optional<ModelTensor> fp4_of(const TensorPlace& codes, const CheckpointScheme& s, const WeightNames& n) const;
  std::optional<ModelTensor> fp8_of(const TensorPlace& codes, const Fp8Names& n) const;
  std::optional<ModelTensor> gguf_of(const TensorPlace& blocks) const;
  std::optional<ModelTensor> weight_of(const TensorPlace& place) const;
  void take_factor(ModelTensor& w, const TensorPlace& factor) const;
  void take_fp4_scales(ModelTensor& w, const WeightNames& n) const;
  void take_companions(ModelTensor& w) const;
  std::string unknown_reason(const TensorPlace& place) const;

  const ModelNames& names_;
  const Layouts& told_;
};

// Codes counted one by one; blocks [.., K/32, 16] are one row of K.
Shape weight_shape(std::string_view codes_name, const TensorPlace& codes) {
  Shape shape = codes.info.shape;
  if (shape.empty()) return shape;
  if (codes.info.dtype != Dtype::f4_e2m1) shape.back() *= codes.info.dtype == Dtype::u32 ? 8 : 2;
  if (shape.size() > 1 && codes_name == "_blocks") {
    shape[shape.size() - 2] *= shape.back();
    shape.pop_back();
  }
  return shape;
}

// Rows that each of `count` factors of `shape` multiplies; Error text in `why` where that cannot be known.
void Recogniser::take_factor(ModelTensor& w, const TensorPlace& factor) const {
  const std::string place = fmt::format("{} of shape {}", factor.info.name, shape_text(factor.info.shape));
  if (!is_real_type(factor.info.dtype)) {
    w.fault = fmt::format("{} is {}, no number", factor.info.name, info(factor.info.dtype).name);
    return;
  }
  const std::uint64_t count = elements_of(factor.info.shape), rows = matrix_rows(w.shape);
  w.parts.push_back(factor);
  if (count == 1 || (count == 0 && rows == 0)) return;    // a stack of no experts has no factors
  const Shape leading = without_ones(factor.info.shape);  // [E], [E, 1], [E, 1, 1], [E, 2] of gate and up
  const bool is_stack = w.shape.size() > 2 && !leading.empty() && leading[0] == w.shape[0];
  const bool is_pair = w.name.find("gate_up") != std::string::npos || w.name.find("w13") != std::string::npos ||
                       w.name.find("gate_and_up") != std::string::npos;
  const std::uint64_t experts = is_stack ? w.shape[0] : 1, each = count == 0 ? 0 : count / experts;
  if (count != 0 && count % experts == 0 && rows % count == 0 && (each == 1 || (each == 2 && is_pair))) {
    w.factor_rows.assign(count, rows / count);
    return;
  }
  if (count == rows && count != 0) {
    w.factor_rows.assign(count, 1);
    return;
  }
  const std::uint64_t query = names_.query_rows, key = names_.key_rows;
  if (!is_stack && count == 3 && w.name.find("qkv") != std::string::npos && query > 0 && query + 2 * key == rows) {
    w.factor_rows = {query, key, key};
    return;
  }
  w.fault = fmt::format("{} has {} factors for {} rows, and which rows each of them multiplies is not known{}", place,
                        count, rows,
                        w.name.find("qkv") != std::string::npos
                            ? " (num_attention_heads, num_key_value_heads and head_dim of config.json say it)"
                            : "");
}

// What stands beside a weight and means nothing without it.
void Recogniser::take_companions(ModelTensor& w) const {
  const bool is_open = !w.stem.empty() && !w.stem.ends_with('.') && !w.stem.ends_with('_');  // down_proj_input_scale
  const std::string stem = w.stem + (is_open ? "_" : "");
  for (const char* ending : companions)
    if (const TensorPlace* beside = find(stem + ending); beside != nullptr && cache_row_of(stem + ending) == nullptr)
      w.companions.push_back(*beside);
  for (const BesideRow& row : beside_rows) {
    const TensorPlace* beside = find(stem + row.name);
    if (beside == nullptr) continue;
    w.companions.push_back(*beside);
    const bool fits = is_real_type(beside->info.dtype) && elements_of(beside->info.shape) == matrix_cols(w.shape);
    if (row.kind == Beside::columns && fits && !w.is_transposed)
      w.columns = *beside;
    else
      w.unknown = fmt::format("{} ({}, {}) of shape {} changes what it is worth, and is not read with it",
                              beside->info.name, row.doc, row.source, shape_text(beside->info.shape));
  }
}

std::optional<ModelTensor> Recogniser::fp4_of(const TensorPlace& codes, const CheckpointScheme& s,
                                              const WeightNames& n) const {
  const Dtype type = codes.info.dtype;
  if (!is_fp4(type) || (type == Dtype::u32) != (s.codes_dtype == Dtype::u32)) return {};
  const std::optional<std::string> stem = stem_before(codes.info.name, n.codes);
  if (!stem || codes.info.shape.empty()) return {};
  ModelTensor w = {.name = codes.info.name, .stem = *stem, .scheme = &s, .parts = {codes}};
  w.shape = weight_shape(n.codes, codes);
  w.whole = *stem + n.whole;
  const TensorPlace* scales = find(*stem + n.scales);
  const TensorPlace* factor = *n.factor != '\0' ? find(*stem + n.factor) : nullptr;
  if (scales == nullptr) {
    // "weight" alone may be anything of bytes; these endings are codes.
    const bool is_certain = std::string_view(n.codes) == "weight_packed" || std::string_view(n.codes) == "_blocks";
    if (!is_certain && factor == nullptr) return {};
    w.fault = fmt::format("{}{} is missing", *stem, n.scales);
    return w;
  }
  const Dtype scale_type = scales->info.dtype;
  const bool is_e4m3 = scale_type == Dtype::f8_e4m3, is_e8m0 = scale_type == Dtype::f8_e8m0;
  if (!is_e4m3 && !is_e8m0 && !is_byte(scale_type)) return {};
  if ((is_e4m3 && s.block != 16) || (is_e8m0 && s.block != 32)) return {};
  const auto any_factor = [&] {
    for (const char* ending : {"weight_scale_2", "weight_global_scale", "_weight_scale_2", "_global_scale"})
      if (find(*stem + ending) != nullptr) return true;
    return false;
  };
  // Bytes are E4M3 where a factor stands beside them, else E8M0.
  if (is_byte(scale_type) && any_factor() != (s.meaning != Factor::one)) return {};
  w.parts.push_back(*scales);
  if (s.codes_dtype == Dtype::u32 && !names_.mlx_mode.empty() && names_.mlx_mode != mlx_mode(s)) {
    w.fault =
        fmt::format("config.json says quantization mode '{}', and this would be {}", names_.mlx_mode, mlx_mode(s));
    return w;
  }

  const std::string mark = mark_of(*stem);
  if (!mark.empty() && mark != "nvfp4" && s.block == 16) {
    w.fault = fmt::format("its mark says format '{}', and its parts are those of nvfp4", mark);
    return w;
  }
  if (!mark.empty() && s.block == 16) {
    w.nibbles = golden::CodeLayout::high_first;
    w.scale_layout = golden::ScaleLayout::tile_128x4;
  }
  if (told_.nibbles) w.nibbles = *told_.nibbles;
  if (told_.scales) w.scale_layout = *told_.scales;
  take_fp4_scales(w, n);
  if (!w.fault.empty()) return w;
  if (s.meaning != Factor::one && factor == nullptr)
    w.fault = fmt::format("its factor {}{} is missing", *stem, n.factor);
  else if (s.meaning != Factor::one)
    take_factor(w, *factor);
  take_companions(w);
  return w;
}

// How the scales, the second part, belong to the codes, the first; a fault where they do not.
void Recogniser::take_fp4_scales(ModelTensor& w, const WeightNames& n) const {
  const TensorPlace &codes = w.parts[0], &scales = w.parts[1];
  const auto block = static_cast<std::uint64_t>(w.scheme->block);
  const auto rows = matrix_rows(w.shape), cols = matrix_cols(w.shape), stored = elements_of(scales.info.shape);
  // Model-Optimizer leaves experts that it multiplies as stacks in their order [E, in, out]: two rows a byte.
  const Shape &c = codes.info.shape, &sc = scales.info.shape;
  if (c.size() == 3 && sc.size() == 3 && codes.info.dtype != Dtype::f4_e2m1 &&
      w.scale_layout == golden::ScaleLayout::linear && sc[0] == c[0] && sc[2] == c[2] && sc[1] * block == 2 * c[1] &&
      std::string_view(n.codes) != "_blocks") {
    w.is_transposed = true;
    w.shape = {c[0], 2 * c[1], c[2]};
    return;
  }
  if (cols == 0 || cols % block != 0) {
    w.fault = fmt::format("its {} columns are no multiple of the block of {}", cols, block);
    return;
  }
  const auto padded = [&](golden::ScaleLayout layout) {
    return static_cast<std::uint64_t>(
        golden::padded_size(layout, static_cast<int64_t>(rows), static_cast<int64_t>(cols / block)));
  };
  if (w.scale_layout != golden::ScaleLayout::linear && w.shape.size() > 2) {
    w.fault = fmt::format("{} lies in layout {}, which is one of matrices, not of shape {}", scales.info.name,
                          row_of(golden::scale_layout_table, w.scale_layout).name, shape_text(w.shape));
    return;
  }
  // Scales of a matrix [rows, K/block]; its transpose has as many.
  const bool is_linear = w.scale_layout == golden::ScaleLayout::linear;
  const bool fits_rows =
      sc.size() < 2 || sc.back() == cols / block || (sc.back() == 1 && sc[sc.size() - 2] == cols / block);
  if (stored == padded(w.scale_layout) && (!is_linear || fits_rows)) return;
  std::string fits;
  if (w.shape.size() == 2)
    for (const golden::ScaleLayoutInfo& row : golden::scale_layout_table)
      if (row.id != w.scale_layout && stored == padded(row.id) && row.id != golden::ScaleLayout::linear)
        fits += fmt::format("{}{}", fits.empty() ? "; that many has --scale-layout " : " or ", row.name);
  w.fault = fmt::format("{} has shape {}, {} scales in layout {} are expected for blocks of {}{}", scales.info.name,
                        shape_text(sc), padded(w.scale_layout), row_of(golden::scale_layout_table, w.scale_layout).name,
                        block, fits);
}

// Rows and columns of a block of an FP8 weight [.., N, K] with scales of `scales`; "" where the shapes do not fit.
std::optional<Fp8Grid> grid_of(const Shape& weight, const TensorPlace& scales, bool is_mx) {
  const Shape& s = scales.info.shape;
  const auto rows = matrix_rows(weight), cols = matrix_cols(weight);
  const std::uint64_t count = elements_of(s);
  const auto extent = [](std::uint64_t n) { return static_cast<int64_t>(std::max<std::uint64_t>(n, 1)); };
  if (count == 1) return Fp8Grid{extent(rows), extent(cols), "fp8_tensor"};
  const std::uint64_t per_expert = weight.size() > 2 ? rows / std::max<std::uint64_t>(weight[0], 1) : rows;
  const Shape leading = without_ones(s);
  if (weight.size() > 2 && leading.size() == 1 && leading[0] == weight[0])
    return Fp8Grid{extent(per_expert), extent(cols), "fp8_experts"};
  if (count == rows && (s.empty() || s.back() == 1 || s.size() + 1 == weight.size()))
    return Fp8Grid{1, extent(cols), "fp8_rows"};
  if (s.size() != weight.size() || s.size() < 2) return {};
  for (size_t axis = 0; axis + 2 < s.size(); ++axis)
    if (s[axis] != weight[axis]) return {};
  const std::uint64_t n = weight[weight.size() - 2], down = s[s.size() - 2], across = s.back();
  const std::uint64_t row_block = down == n ? 1 : 128, col_block = is_mx && across * 32 == cols ? 32 : 128;
  if (down != (n + row_block - 1) / row_block || across != (cols + col_block - 1) / col_block) return {};
  // Blocks of a stack may not reach over the end of an expert.
  if (s.size() > 2 && n % row_block != 0) return {};
  return Fp8Grid{static_cast<int64_t>(row_block), static_cast<int64_t>(col_block), "fp8_blocks"};
}

std::optional<ModelTensor> Recogniser::fp8_of(const TensorPlace& codes, const Fp8Names& n) const {
  if (!is_fp8(codes.info.dtype)) return {};
  const std::optional<std::string> stem = stem_before(codes.info.name, n.codes);
  if (!stem) return {};
  const TensorPlace* scales = find(*stem + n.scales);
  if (scales == nullptr || codes.info.shape.empty()) return {};
  const std::string& name = codes.info.name;
  ModelTensor w = {.name = name, .stem = *stem, .parts = {codes, *scales}, .shape = codes.info.shape, .whole = name};
  const bool is_e8m0 = scales->info.dtype == Dtype::f8_e8m0 || is_byte(scales->info.dtype);
  w.fp8 = Fp8Grid{};
  if (!is_e8m0 && !is_real_type(scales->info.dtype)) {
    w.fault = fmt::format("{} is {}; scales of FP8 weights are f32, bf16, f16 or f8_e8m0", scales->info.name,
                          info(scales->info.dtype).name);
  } else if (const std::optional<Fp8Grid> grid = grid_of(w.shape, *scales, is_e8m0);
             grid && mark_of(*stem) != "mxfp8") {
    w.fp8 = grid;
  } else {
    w.fault = fmt::format(
        "{} of shape {} does not fit {}: one, one of each row, or one of each 128 x 128, 1 x 128 or "
        "1 x 32 elements are read",
        scales->info.name, shape_text(scales->info.shape), shape_text(w.shape));
  }
  take_companions(w);
  return w;
}

std::optional<ModelTensor> Recogniser::gguf_of(const TensorPlace& blocks) const {
  for (const CheckpointScheme& s : checkpoint_schemes) {
    if (s.gguf == GgufValues::plain || s.gguf != blocks.gguf->values) continue;
    const std::string &name = blocks.info.name, stem = stem_before(name, s.whole).value_or(name);
    ModelTensor w = {name, stem, &s, {blocks}, blocks.info.shape, name};
    if (*s.factor == '\0') return w;
    for (const char* ending : gguf_factor_names)
      if (const TensorPlace* factor = find(w.stem + ending)) {
        take_factor(w, *factor);
        break;
      }
    return w;
  }
  return {};
}

std::optional<ModelTensor> Recogniser::weight_of(const TensorPlace& place) const {
  if (place.gguf != nullptr) return gguf_of(place);
  if (!is_fp4(place.info.dtype) && !is_fp8(place.info.dtype)) return {};
  std::optional<ModelTensor> faulty;
  const auto keeps = [&](const std::optional<ModelTensor>& w) {
    if (w && !w->fault.empty() && !faulty) faulty = w;
    return w && w->fault.empty();
  };
  for (const CheckpointScheme& s : checkpoint_schemes) {
    if (s.gguf != GgufValues::plain || s.is_fp8()) continue;
    const auto w = fp4_of(place, s, {s.name, s.whole, s.codes, s.scales, s.factor, ""});
    if (keeps(w)) return w;
  }
  for (const WeightNames& n : other_weight_names) {
    const auto w = fp4_of(place, scheme_of("weight_names.h", n.scheme), n);
    if (keeps(w)) return w;
  }
  for (const Fp8Names& n : fp8_names) {
    const auto w = fp8_of(place, n);
    if (keeps(w)) return w;
  }
  return faulty;
}

// Why a tensor by itself looks like a part of a quantised weight; "" where it does not.
std::string Recogniser::unknown_reason(const TensorPlace& place) const {
  const std::string& name = place.info.name;
  const DtypeInfo& type = info(place.info.dtype);
  if (place.gguf != nullptr) {
    if (place.gguf->values != GgufValues::plain) return "";
  } else {
    const bool is_matrix = place.info.shape.size() >= 2 && elements_of(place.info.shape) > 1;
    if (type.kind == DtypeKind::code && type.bits <= 8 && elements_of(place.info.shape) > 0)
      return fmt::format("its type is {} and no scale that is known lies beside it", type.name);
    const bool is_word = type.id == Dtype::i32 || type.id == Dtype::u32;
    if (is_matrix && (is_byte(type.id) || (is_word && name.ends_with("weight"))))
      return fmt::format("a matrix of {} is no weight by itself", type.name);
  }
  if (place.gguf != nullptr)
    for (const char* ending : gguf_factor_names)
      if (name.ends_with(std::string(".") + ending)) {
        const std::string rest = name.substr(0, name.size() - std::string_view(ending).size());
        if (find(rest + "weight") != nullptr) return fmt::format("it is called a factor of '{}weight'", rest);
      }
  for (const char* ending : quantised_endings)
    if (name.ends_with(ending)) return fmt::format("its name ends in '{}'", ending);
  for (const char* ending : quantised_beside) {
    if (!name.ends_with(ending)) continue;
    const std::string rest = name.substr(0, name.size() - std::string_view(ending).size());
    if (find(rest) != nullptr || find(rest + "_packed") != nullptr)
      return fmt::format("it is called {} of '{}'", ending, rest);
  }
  return "";
}

std::vector<ModelTensor> Recogniser::run() {
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, ModelTensor> weights;
  for (const std::string& name : names_.order) {
    std::optional<ModelTensor> w = weight_of(names_.all.at(name));
    if (!w) continue;
    for (const TensorPlace& part : w->parts) taken.insert(part.info.name);
    for (const TensorPlace& beside : w->companions) taken.insert(beside.info.name);
    weights.emplace(name, std::move(*w));
  }
  std::unordered_set<std::string> layers;  // "l.0.up." of a quantised weight
  for (const auto& [name, w] : weights)
    if (w.stem.ends_with('.')) layers.insert(w.stem);
  std::vector<ModelTensor> out;
  out.reserve(names_.order.size());
  for (const std::string& name : names_.order) {
    if (const auto at = weights.find(name); at != weights.end()) {
      out.push_back(std::move(at->second));
      continue;
    }
    if (taken.contains(name)) continue;
    const TensorPlace& place = names_.all.at(name);
    ModelTensor alone = {.name = name, .stem = name, .parts = {place}, .shape = place.info.shape, .whole = name};
    alone.unknown = unknown_reason(place);
    if (ModelTensor w = {.stem = stem_before(name, "weight").value_or(""), .shape = place.info.shape};
        !w.stem.empty()) {
      take_companions(w);
      alone.changed = w.columns ? w.columns->info.name + " multiplies its inputs" : w.unknown;
    }
    if (alone.unknown.empty() && layers.contains(name.substr(0, name.rfind('.') + 1)) && !name.ends_with("bias") &&
        cache_row_of(name) == nullptr)
      alone.unknown = "lies beside a quantised weight, and what it does to it is not known";
    out.push_back(std::move(alone));
  }
  return out;
}

}  // namespace

std::vector<ModelTensor> recognised(const ModelNames& names, const Layouts& told) {
  return Recogniser(names, told).run();
}

}  // namespace fp4
