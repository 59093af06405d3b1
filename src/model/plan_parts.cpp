#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/files/gguf.h"
#include "src/files/tensor_reader.h"
#include "src/model/tensor_plan.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

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
  if (s.is_fp8()) {
    const auto rows = static_cast<uint64_t>(s.block_rows),
               cols = s.block == 0 ? t.shape.back() : static_cast<uint64_t>(s.block);
    scales[scales.size() - 2] = (scales[scales.size() - 2] + rows - 1) / rows;
    scales.back() = (scales.back() + cols - 1) / cols;
    return {{stem + s.codes, s.codes_dtype, codes}, {stem + s.scales, s.scales_dtype, scales}};
  }
  scales.back() /= static_cast<uint64_t>(s.block);
  codes.back() /= s.codes_dtype == Dtype::u32 ? 8 : 2;
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
std::vector<const GgufType*> gguf_types_of(const ModelJob& job, const TensorPlan& plan) {
  std::vector<const GgufType*> types;
  for (size_t i = 0; i < plan.infos.size(); ++i) {
    const std::string place = plan.tensor->file() + ": " + plan.infos[i].name;
    if (plan.infos[i].name.size() > ggml_longest_name)
      throw Error(fmt::format("{}: a name of {} bytes; ggml reads names of up to {}", place, plan.infos[i].name.size(),
                              ggml_longest_name));
    if (plan.infos[i].shape.size() > ggml_most_axes)
      throw Error(fmt::format("{}: shape {}; ggml reads tensors of up to {} axes", place,
                              shape_text(plan.infos[i].shape), ggml_most_axes));
    types.push_back(!plan.is_fp4() ? plan.tensor->parts[i].gguf
                    : i == 0       ? &gguf_type_of(job.scheme->gguf)
                                   : &gguf_type_of(place, plan.infos[i].dtype));
  }
  return types;
}

// The factor of a layer's inputs as the source has it, said as the scheme says it. Error without one.
float input_factor(const ModelJob& job, const ModelTensor& t) {
  const EngineRules& rules = job.scheme->engine;
  const EngineRules* own = t.scheme != nullptr ? &t.scheme->engine : nullptr;
  for (const TensorPlace& place : t.companions) {
    if (own == nullptr || *own->inputs == '\0' || !place.info.name.ends_with(own->inputs)) continue;
    std::vector<float> numbers(static_cast<size_t>(element_count(place.info.name, place.info.shape)));
    TensorReader reader = reader_of(place);
    reader.read_rows(0, reader.rows(), numbers.data());
    if (numbers.size() != 1 || !std::isfinite(numbers[0]) || numbers[0] <= 0)
      throw Error(fmt::format("{}: {}: one finite number above 0 is needed", place.file, place.info.name));
    return own->inputs_reciprocal == rules.inputs_reciprocal ? numbers[0] : 1 / numbers[0];
  }
  throw Error(
      fmt::format("--activations static: {}: {} has no calibrated factor of its inputs (input_scale or "
                  "input_global_scale of an NVFP4 checkpoint); --activations none writes weights alone",
                  t.file(), t.name));
}

}  // namespace

std::uint64_t TensorPlan::bytes() const {
  std::uint64_t bytes = 0;
  for (size_t i = 0; i < infos.size(); ++i)
    bytes += types.empty() ? byte_count(infos[i].name, infos[i].dtype, infos[i].shape)
                           : element_count(infos[i].name, infos[i].shape) / types[i]->block * types[i]->bytes;
  return bytes;
}

void set_parts(const ModelJob& job, const QuantSpec& spec, TensorPlan& plan) {
  const ModelTensor& t = *plan.tensor;
  if (plan.way == Way::quantise) {
    plan.outcome = Fate::quantised;
    plan.has_factor = spec.has_tensor_scale();
    plan.infos = scheme_infos(t, job, plan.has_factor, 1);
  } else if (plan.way == Way::carry) {
    plan.outcome = Fate::carried;
    const bool lacks = job.writes_gguf() && t.parts.size() < 2;
    plan.has_factor = job.scheme->meaning != Factor::one && !lacks;
    plan.infos = scheme_infos(t, job, plan.has_factor, std::max<size_t>(1, t.factor_rows.size()));
  } else if (plan.way == Way::decode) {
    plan.outcome = Fate::decoded;
    plan.infos = {{t.whole, job.scheme == nullptr ? job.real : Dtype::f32, t.shape}};
  } else if (plan.way == Way::copy) {
    for (const TensorPlace& part : t.parts) plan.infos.push_back(part.info);
    if (!plan.name.empty()) plan.infos[0].name = plan.name;
    for (const TensorPlace& part : t.companions) plan.infos.push_back(part.info);
  }
  if (plan.is_fp4() && job.activations == Activations::calibrated) {
    plan.inputs = input_factor(job, t);
    plan.infos.push_back(
        {stem_in(t, *job.scheme) + job.scheme->engine.inputs, Dtype::f32, factor_shape(*job.scheme, t, 1)});
  }
  if (job.writes_gguf()) plan.types = gguf_types_of(job, plan);
}

}  // namespace fp4
