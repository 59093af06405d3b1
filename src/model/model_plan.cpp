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

bool has_match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<ModelTensor>& tensors) {
  for (const std::string& p : patterns)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return has_match({p}, t.name); }))
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
  if (t.scheme == nullptr && !t.name.ends_with(s.whole))
    return fmt::format("its name does not end in '{}', which the scheme replaces", s.whole);
  return "";
}

// "layer.0.weight_packed" of one scheme -> "layer.0." + what another scheme puts there.
std::string stem_in(const ModelTensor& t, const CheckpointScheme& s) {
  const std::string whole = t.scheme == nullptr ? t.name : t.stem + t.scheme->whole;
  return whole.ends_with(s.whole) ? whole.substr(0, whole.size() - std::strlen(s.whole)) : whole + ".";
}

std::vector<TensorInfo> scheme_infos(const ModelTensor& t, const CheckpointScheme& s, bool has_factor) {
  const std::string stem = stem_in(t, s);
  if (s.gguf != GgufValues::plain) {
    std::vector<TensorInfo> infos = {{stem + s.whole, Dtype::u8, t.shape}};
    if (has_factor) infos.push_back({stem + s.factor, Dtype::f32, {1}});
    return infos;
  }
  Shape codes = t.shape, scales = t.shape;
  scales.back() /= static_cast<uint64_t>(s.block);
  codes.back() /= 2;
  if (std::string_view(s.codes) == "_blocks") {
    codes.back() = scales.back();
    codes.push_back(static_cast<uint64_t>(s.block) / 2);
  }
  std::vector<TensorInfo> infos = {{stem + s.codes, s.codes_dtype, codes}, {stem + s.scales, s.scales_dtype, scales}};
  if (has_factor) infos.push_back({stem + s.factor, Dtype::f32, s.meaning == Factor::direct ? Shape{} : Shape{1}});
  return infos;
}

// The types of a plan's tensors in GGUF: those of the source for what is kept.
std::vector<const GgufType*> gguf_types_of(const ModelJob& job, const Plan& plan) {
  std::vector<const GgufType*> types;
  for (size_t i = 0; i < plan.infos.size(); ++i) {
    const std::string place = plan.tensor->file() + ": " + plan.infos[i].name;
    const bool is_block = plan.way == Way::quantise && i == 0;
    const GgufType* kept = plan.way == Way::copy ? plan.tensor->parts[i].gguf : nullptr;
    types.push_back(is_block          ? &gguf_type_of(job.scheme->gguf)
                    : kept != nullptr ? kept
                                      : &gguf_type_of(place, plan.infos[i].dtype));
  }
  return types;
}

}  // namespace

bool writes_gguf(const ModelJob& job) { return job.scheme != nullptr && job.scheme->gguf != GgufValues::plain; }

std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const std::vector<ModelTensor>& tensors) {
  check_patterns("--tensors", job.tensors, tensors);
  check_patterns("--keep", job.keep, tensors);
  std::vector<std::string> keep = job.keep;
  if (keep.empty() && job.tensors.empty()) keep.assign(std::begin(kept_by_default), std::end(kept_by_default));
  std::vector<Plan> plans;
  for (const ModelTensor& t : tensors) {
    const bool is_named =
        job.tensors.empty() ? !has_match(keep, t.name) : has_match(job.tensors, t.name) && !has_match(job.keep, t.name);
    Plan plan = {&t, Way::copy, {}};
    if (job.scheme != nullptr) {
      const std::string why = refusal(*job.scheme, t);
      // Without patterns, vectors and integers stay; a matrix that cannot be held is somebody's decision.
      const bool is_skipped = job.tensors.empty() && (!has_values(t) || t.shape.size() < 2 ||
                                                      (t.scheme == nullptr && !t.name.ends_with(job.scheme->whole)));
      if (is_named && !why.empty() && !is_skipped)
        throw Error(fmt::format("{}: tensor {} cannot be {}: {}; --keep '{}' leaves it as it is", t.file(), t.name,
                                job.scheme->name, why, t.name));
      if (is_named && why.empty()) plan.way = Way::quantise;
    } else if (is_named && (t.scheme != nullptr || is_block_type(t))) {
      plan.way = Way::decode;
    }
    // Block types stay in GGUF only, tensors of another scheme in safetensors only.
    if (plan.way == Way::copy && (writes_gguf(job) ? t.scheme != nullptr && !is_block_type(t) : is_block_type(t)))
      plan.way = Way::decode;
    if (plan.way == Way::quantise) plan.infos = scheme_infos(t, *job.scheme, spec.has_tensor_scale());
    if (plan.way == Way::decode) {
      const std::string name = t.scheme != nullptr ? t.stem + t.scheme->whole : t.name;
      plan.infos = {{name, job.scheme == nullptr ? job.real : Dtype::f32, t.shape}};
    }
    if (plan.way == Way::copy)
      for (const TensorPlace& part : t.parts) plan.infos.push_back(part.info);
    if (writes_gguf(job)) plan.types = gguf_types_of(job, plan);
    plans.push_back(plan);
  }
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
                    s.prescale == 1.0f;
  if (fits) return s;
  throw Error(
      fmt::format("--spec: {} holds element {}, scale {}, block {}, tensor_scale {} and prescale 1; '{}' has "
                  "others",
                  job.scheme->name, row_of(element_table, own.element).name, row_of(scale_table, own.scale).name,
                  job.scheme->block, has_factor ? "current" : "none", job.words));
}

}  // namespace fp4
