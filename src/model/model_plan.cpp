#include "src/model/model_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>

#include "src/error.h"
#include "src/model/weight_reader.h"
#include "src/spec_text.h"
#include "src/tensor_file/gguf_writer.h"

namespace fp4 {
namespace {

// The first of the patterns that the name has; null where there is none.
const std::string* match_of(const std::vector<std::string>& patterns, const std::string& name) {
  const auto at = std::find_if(patterns.begin(), patterns.end(),
                               [&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
  return at == patterns.end() ? nullptr : &*at;
}

void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<ModelTensor>& tensors) {
  for (const std::string& p : patterns)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return match_of({p}, t.name); }))
      throw Error(fmt::format("{}: no tensor of the model is called '{}'; `fp4sim inspect` lists them", option, p));
}

bool is_block_type(const ModelTensor& t) {
  return t.parts.front().gguf != nullptr && t.parts.front().gguf->values != GgufValues::plain;
}

// Why the scheme cannot hold a tensor; empty where it can.
std::string refusal(const CheckpointScheme& s, const ModelTensor& t) {
  if (!has_values(t)) return fmt::format("{} has no real values", t.type());
  if (t.shape.size() < 2) return fmt::format("shape {} is no matrix", shape_text(t.shape));
  const auto block = s.gguf != GgufValues::plain ? gguf_type_of(s.gguf).block : static_cast<uint64_t>(s.block);
  if (matrix_cols(t.shape) == 0 || matrix_cols(t.shape) % block != 0)
    return fmt::format("its {} columns are no multiple of the block of {}", matrix_cols(t.shape), block);
  if (t.scheme == nullptr && !t.whole.ends_with(s.whole))
    return fmt::format("its name does not end in '{}', which the scheme replaces", s.whole);
  return "";
}

// "layer.0.weight_packed" of one scheme -> "layer.0." + what another scheme puts there.
std::string stem_in(const ModelTensor& t, const CheckpointScheme& s) {
  return t.whole.ends_with(s.whole) ? t.whole.substr(0, t.whole.size() - std::strlen(s.whole)) : t.whole + ".";
}

// [] or [1], or one for each expert of a stack where there are several or llama.cpp wants them.
Shape factor_shape(const CheckpointScheme& s, const ModelTensor& t, std::uint64_t count) {
  if (s.factor_shape == FactorShape::experts) return {t.shape.size() > 2 ? t.shape[0] : 1};
  if (count > 1) return {count};
  return s.factor_shape == FactorShape::single ? Shape{1} : Shape{};
}

std::vector<TensorInfo> scheme_infos(const ModelTensor& t, const ModelJob& job, bool has_factor, std::uint64_t count) {
  const CheckpointScheme& s = *job.scheme;
  const std::string stem = stem_in(t, s);
  if (s.gguf != GgufValues::plain) {
    std::vector<TensorInfo> infos = {{stem + s.whole, Dtype::u8, t.shape}};
    if (has_factor) infos.push_back({stem + s.factor, s.factor_dtype, factor_shape(s, t, count)});
    return infos;
  }
  Shape codes = t.shape, scales = t.shape;
  scales.back() /= static_cast<uint64_t>(s.block);
  codes.back() /= 2;
  if (std::string_view(s.codes) == "_blocks") {
    codes.back() = scales.back();
    codes.push_back(static_cast<uint64_t>(s.block) / 2);
  }
  if (job.layouts.scales.value_or(golden::ScaleLayout::linear) != golden::ScaleLayout::linear) {
    const golden::Placing& p = row_of(golden::scale_layout_table, *job.layouts.scales).placing;
    const auto padded = [](uint64_t n, int64_t step) {
      const auto s64 = static_cast<uint64_t>(step);
      return (n + s64 - 1) / s64 * s64;
    };
    scales = {padded(scales[0], p.row_multiple), padded(scales[1], p.col_multiple)};
    const auto stored = static_cast<uint64_t>(golden::padded_size(*job.layouts.scales, static_cast<int64_t>(t.shape[0]),
                                                                  static_cast<int64_t>(t.shape[1]) / s.block));
    if (scales[0] * scales[1] != stored) scales = {stored};
  }
  std::vector<TensorInfo> infos = {{stem + s.codes, s.codes_dtype, codes}, {stem + s.scales, s.scales_dtype, scales}};
  if (has_factor) infos.push_back({stem + s.factor, s.factor_dtype, factor_shape(s, t, count)});
  return infos;
}

// The types of a plan's tensors in GGUF: those of the source for what is kept. Error past ggml's limits.
std::vector<const GgufType*> gguf_types_of(const ModelJob& job, const Plan& plan) {
  constexpr size_t longest_name = 63, most_axes = 4;  // GGML_MAX_NAME with its zero byte, GGML_MAX_DIMS
  std::vector<const GgufType*> types;
  for (size_t i = 0; i < plan.infos.size(); ++i) {
    const std::string place = plan.tensor->file() + ": " + plan.infos[i].name;
    if (plan.infos[i].name.size() > longest_name)
      throw Error(fmt::format("{}: a name of {} bytes; ggml reads names of up to {}", place, plan.infos[i].name.size(),
                              longest_name));
    if (plan.infos[i].shape.size() > most_axes)
      throw Error(fmt::format("{}: shape {}; ggml reads tensors of up to {} axes", place,
                              shape_text(plan.infos[i].shape), most_axes));
    const bool is_block = (plan.way == Way::quantise || plan.way == Way::carry) && i == 0;
    const GgufType* kept = plan.way == Way::copy ? plan.tensor->parts[i].gguf : nullptr;
    types.push_back(is_block          ? &gguf_type_of(job.scheme->gguf)
                    : kept != nullptr ? kept
                                      : &gguf_type_of(place, plan.infos[i].dtype));
  }
  return types;
}

// Whether the codes and scales of a weight mean the same in the scheme: the same formats, and factors that it can say.
bool can_carry(const ModelJob& job, const ModelTensor& t) {
  if (!job.words.empty() || t.scheme == nullptr || t.scheme->block != job.scheme->block || t.is_transposed)
    return false;
  const std::vector<std::uint64_t>& rows = t.factor_rows;
  const bool are_equal = rows.empty() || std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
  const bool is_of_experts = rows.empty() || (t.shape.size() > 2 && rows.size() == t.shape[0]);
  return job.scheme->gguf == GgufValues::plain ? are_equal : is_of_experts;
}

// What is not understood, all of it in one message.
void refuse_left(const std::string& command, const std::vector<Plan>& plans) {
  constexpr size_t most = 20;
  std::string list;
  size_t count = 0;
  for (const Plan& p : plans) {
    if (p.outcome != Outcome::left) continue;
    if (count++ < most)
      list += fmt::format("\n  {}: {} {}: {}", p.tensor->name, p.tensor->type(), shape_text(p.tensor->shape), p.rule);
  }
  if (count == 0) return;
  if (count > most) list += fmt::format("\n  and {} more", count - most);
  throw Error(fmt::format("{}: {} tensors look quantised and are not understood; nothing is written. --allow-left "
                          "leaves them as they are{}",
                          command, count, list),
              1);
}

}  // namespace

bool writes_gguf(const ModelJob& job) { return job.scheme != nullptr && job.scheme->gguf != GgufValues::plain; }

std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const std::vector<ModelTensor>& tensors) {
  check_patterns("--tensors", job.tensors, tensors);
  check_patterns("--keep", job.keep, tensors);
  std::vector<std::string> keep = job.keep;
  const bool is_default = keep.empty() && job.tensors.empty() && job.scheme != nullptr;
  if (is_default) keep.assign(std::begin(kept_by_default), std::end(kept_by_default));
  std::vector<Plan> plans;
  for (const ModelTensor& t : tensors) {
    Plan plan = {&t, Way::copy};
    const std::string* kept_by = match_of(keep, t.name);
    const bool is_outside = !job.tensors.empty() && match_of(job.tensors, t.name) == nullptr;
    const bool is_named = kept_by == nullptr && !is_outside;
    const bool is_broken = !t.fault.empty() || !t.unknown.empty();
    if (!is_named && (has_values(t) || is_broken)) {
      plan.outcome = Outcome::kept;
      plan.rule = is_outside ? "not in --tensors" : fmt::format("{} '{}'", is_default ? "default" : "--keep", *kept_by);
    }
    // A default pattern is no decision about what nobody understands.
    if (is_broken && (is_named || is_default)) {
      if (!t.fault.empty() && !job.allow_left)
        throw Error(
            fmt::format("{}: {}: {}; --keep '{}' leaves the layer as it is", t.file(), t.name, t.fault, t.name));
      plan.outcome = Outcome::left;
      plan.rule = t.fault.empty() ? t.unknown : t.fault;
    } else if (is_named && job.scheme != nullptr) {
      const std::string why = refusal(*job.scheme, t);
      // Without patterns, vectors and integers stay; a matrix that cannot be held is somebody's decision.
      const bool is_skipped = job.tensors.empty() && (!has_values(t) || t.shape.size() < 2 ||
                                                      (t.scheme == nullptr && !t.whole.ends_with(job.scheme->whole)));
      if (!why.empty() && !is_skipped)
        throw Error(fmt::format("{}: tensor {} cannot be {}: {}; --keep '{}' leaves it as it is", t.file(), t.name,
                                job.scheme->name, why, t.name));
      if (why.empty()) plan.way = can_carry(job, t) ? Way::carry : Way::quantise;
      plan.rule = why;
    } else if (is_named && (t.is_quantised() || is_block_type(t))) {
      plan.way = Way::decode;
    }
    // Block types stay in GGUF only, tensors of another scheme in safetensors only.
    if (plan.way == Way::copy && !is_broken &&
        (writes_gguf(job) ? t.is_quantised() && !is_block_type(t) : is_block_type(t)))
      plan.way = Way::decode;
    if (plan.way == Way::quantise) {
      plan.outcome = Outcome::quantised;
      plan.has_factor = spec.has_tensor_scale();
      plan.infos = scheme_infos(t, job, plan.has_factor, 1);
    } else if (plan.way == Way::carry) {
      plan.outcome = Outcome::carried;
      const bool lacks = writes_gguf(job) && t.parts.size() < (is_block_type(t) ? size_t{2} : size_t{3});
      plan.has_factor = job.scheme->meaning != Factor::one && !lacks;
      plan.infos = scheme_infos(t, job, plan.has_factor, std::max<size_t>(1, t.factor_rows.size()));
    } else if (plan.way == Way::decode) {
      plan.outcome = Outcome::decoded;
      plan.infos = {{t.whole, job.scheme == nullptr ? job.real : Dtype::f32, t.shape}};
    } else {
      for (const TensorPlace& part : t.parts) plan.infos.push_back(part.info);
      for (const TensorPlace& part : t.companions) plan.infos.push_back(part.info);
    }
    if (writes_gguf(job)) plan.types = gguf_types_of(job, plan);
    plans.push_back(plan);
  }
  if (!job.allow_left) refuse_left(job.scheme != nullptr ? "quantize " + job.in : "dequantize " + job.in, plans);
  return plans;
}

QuantSpec model_spec(const ModelJob& job) {
  if (job.scheme == nullptr) return {};
  const QuantSpec own = quant_spec_from_words(job.scheme->spec, job.scheme->name);
  const QuantSpec s = quant_spec_from_words(job.words.empty() ? job.scheme->spec : job.words, "--spec");
  const bool has_factor = job.scheme->meaning != Factor::one;
  const bool may_lack =
      has_factor && job.scheme->gguf != GgufValues::plain;  // STEM.scale is written where there is one
  const bool fits = s.element == own.element && s.scale == own.scale && s.block == own.block &&
                    (s.tensor_scale == (has_factor ? TensorScale::current : TensorScale::none) ||
                     (may_lack && s.tensor_scale == TensorScale::none)) &&
                    s.prescale == 1.0f && s.scale_rule != ScaleRule::encode;
  if (fits) return s;
  throw Error(
      fmt::format("--spec: {} holds element {}, scale {}, block {}, tensor_scale {}, prescale 1 and scales, not "
                  "their inverses; '{}' has others",
                  job.scheme->name, row_of(element_table, own.element).name, row_of(scale_table, own.scale).name,
                  job.scheme->block, has_factor ? "current" : "none", job.words));
}

}  // namespace fp4
