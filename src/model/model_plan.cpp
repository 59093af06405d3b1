#include "src/model/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "src/arith/spec_text.h"
#include "src/files/gguf_writer.h"
#include "src/model/engine_config.h"
#include "src/model/keep_rules.h"
#include "src/model/weight_reader.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<ModelTensor>& tensors) {
  for (const std::string& p : patterns)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return has_match({p}, t.name); }))
      throw Error(fmt::format("{}: no tensor of the model is called '{}'; `fp4sim inspect` lists them", option, p));
}

bool is_fp4(const Plan& plan) { return plan.way == Way::quantise || plan.way == Way::carry; }

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

// Whether a word of --tensors is the tensor's whole name: then it is quantised whatever the rules keep.
bool is_named_fully(const ModelJob& job, const std::string& name) {
  return std::find(job.tensors.begin(), job.tensors.end(), name) != job.tensors.end();
}

// Why a tensor that could be converted stays as it is, in words; empty where it is to be converted.
std::string reason_to_keep(const ModelJob& job, const ModelTensor& t) {
  if (!job.tensors.empty() && !has_match(job.tensors, t.name)) return "not in --tensors";
  if (has_match(job.keep, t.name)) return "--keep";
  if (is_named_fully(job, t.name) || job.scheme == nullptr) return "";
  if (!job.keep_only.empty()) {
    if (has_match(job.keep_only, t.name)) return "--keep-only";
  } else {
    const std::string why = reason_of_rules(t.whole, t.shape.size(), t.is_quantised());
    if (!why.empty()) return why;
  }
  const Takes takes = engine_rules_of(*job.scheme).takes;
  if (takes != Takes::linear && !is_expert(t.whole)) return "no routed expert";
  if (takes == Takes::stacks && (t.shape.size() != 3 || t.whole.ends_with(".weight"))) return "no stack of experts";
  if (!t.is_quantised() && !t.whole.ends_with(job.scheme->whole))
    return fmt::format("name does not end in '{}'", job.scheme->whole);
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
    types.push_back(!is_fp4(plan) ? plan.tensor->parts[i].gguf
                    : i == 0      ? &gguf_type_of(job.scheme->gguf)
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
              Error::failed);
}

// Error for tensors that the scheme cannot hold: all of them, as words of --keep that leave everything else as it was.
[[noreturn]] void refuse(const ModelJob& job, const std::vector<Plan>& plans,
                         const std::vector<const ModelTensor*>& refused) {
  std::vector<std::string> wanted, others;
  for (const ModelTensor* t : refused) wanted.push_back(t->name);
  for (const Plan& plan : plans)
    if (is_fp4(plan) && std::find(refused.begin(), refused.end(), plan.tensor) == refused.end())
      others.push_back(plan.tensor->name);
  std::string words;
  for (const std::string& pattern : patterns_for(wanted, others)) words += fmt::format(" '{}'", pattern);
  const ModelTensor& first = *refused.front();
  const bool is_one = refused.size() == 1;
  throw Error(fmt::format("{}: tensor {} cannot be {}: {}{}; add --keep{} to leave {}", first.file(), first.name,
                          job.scheme->name, refusal(*job.scheme, first),
                          is_one ? "" : fmt::format(" (and {} more)", refused.size() - 1), words,
                          is_one ? "it as it is" : "them as they are"));
}

// Error for a model of which nothing is quantised, with the reasons and how many tensors each keeps.
[[noreturn]] void refuse_nothing(const ModelJob& job, const std::vector<Plan>& plans) {
  std::map<std::string, size_t> reasons;
  for (const Plan& plan : plans) ++reasons[plan.rule.empty() ? "no matrix of numbers" : plan.rule];
  std::string words;
  for (const auto& [reason, count] : reasons) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, reason);
  throw Error(fmt::format("{}: nothing becomes {}: {}; --tensors NAME quantises a weight that a rule keeps", job.in,
                          job.scheme->name, words));
}

// The factor of a layer's inputs as the source has it, said as the scheme says it. Error without one.
float input_factor(const ModelJob& job, const ModelTensor& t) {
  const EngineRules& rules = engine_rules_of(*job.scheme);
  const EngineRules* own = t.scheme != nullptr ? &engine_rules_of(*t.scheme) : nullptr;
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

// The tensors of the output.
void fill(const ModelJob& job, const QuantSpec& spec, Plan& plan) {
  const ModelTensor& t = *plan.tensor;
  if (plan.way == Way::quantise) {
    plan.outcome = Outcome::quantised;
    plan.has_factor = spec.has_tensor_scale();
    plan.infos = scheme_infos(t, job, plan.has_factor, 1);
  } else if (plan.way == Way::carry) {
    plan.outcome = Outcome::carried;
    const bool lacks = writes_gguf(job) && t.parts.size() < 2;
    plan.has_factor = job.scheme->meaning != Factor::one && !lacks;
    plan.infos = scheme_infos(t, job, plan.has_factor, std::max<size_t>(1, t.factor_rows.size()));
  } else if (plan.way == Way::decode) {
    plan.outcome = Outcome::decoded;
    plan.infos = {{t.whole, job.scheme == nullptr ? job.real : Dtype::f32, t.shape}};
  } else {
    for (const TensorPlace& part : t.parts) plan.infos.push_back(part.info);
    for (const TensorPlace& part : t.companions) plan.infos.push_back(part.info);
  }
  if (is_fp4(plan) && job.activations == Activations::calibrated) {
    plan.inputs = input_factor(job, t);
    plan.infos.push_back(
        {stem_in(t, *job.scheme) + engine_rules_of(*job.scheme).inputs, Dtype::f32, factor_shape(*job.scheme, t, 1)});
  }
  if (writes_gguf(job)) plan.types = gguf_types_of(job, plan);
}

}  // namespace

void set_orientations(const ModelJob& job, std::vector<ModelTensor>& tensors) {
  const bool writes_stacks = job.scheme != nullptr && engine_rules_of(*job.scheme).takes == Takes::stacks;
  for (ModelTensor& t : tensors) {
    const bool is_stack = t.shape.size() == 3 && is_expert(t.whole) && !t.whole.ends_with(".weight");
    const bool is_read = t.scheme != nullptr && engine_rules_of(*t.scheme).takes == Takes::stacks;
    const bool is_chosen = job.tensors.empty() || has_match(job.tensors, t.name);
    const bool is_turned = writes_stacks ? !t.is_quantised() && has_values(t) : is_read && job.scheme == nullptr;
    if (!is_stack || !is_chosen || !is_turned) continue;
    t.is_turned = true;
    std::swap(t.shape[1], t.shape[2]);
  }
}

bool writes_gguf(const ModelJob& job) { return job.scheme != nullptr && job.scheme->gguf != GgufValues::plain; }

std::vector<Plan> plans_of(const ModelJob& job, const QuantSpec& spec, const std::vector<ModelTensor>& tensors) {
  const bool keeps_nothing = job.keep_only == std::vector<std::string>{"none"};
  check_patterns("--tensors", job.tensors, tensors);
  check_patterns("--keep", job.keep, tensors);
  if (!keeps_nothing) check_patterns("--keep-only", job.keep_only, tensors);
  std::vector<Plan> plans;
  std::vector<const ModelTensor*> refused;
  for (const ModelTensor& t : tensors) {
    Plan plan = {&t, Way::copy};
    const bool is_broken = !t.fault.empty() || !t.unknown.empty();
    const bool can_be = is_broken || (has_values(t) && (job.scheme == nullptr || t.shape.size() > 1));
    const std::string reason = can_be ? reason_to_keep(job, t) : "";
    const bool is_told = reason.starts_with("--") || reason.starts_with("not in");
    // A rule is no decision about what nobody understands.
    if (is_broken && !is_told) {
      if (!t.fault.empty() && !job.allow_left)
        throw Error(
            fmt::format("{}: {}: {}; --keep '{}' leaves the layer as it is", t.file(), t.name, t.fault, t.name));
      plan.outcome = Outcome::left;
      plan.rule = t.fault.empty() ? t.unknown : t.fault;
    } else if (!reason.empty()) {
      plan.outcome = Outcome::kept;
      plan.rule = reason;
    } else if (job.scheme != nullptr && can_be) {
      plan.way = can_carry(job, t) ? Way::carry : Way::quantise;
      if (!refusal(*job.scheme, t).empty()) refused.push_back(&t);
    } else if (job.scheme != nullptr && is_named_fully(job, t.name)) {
      refused.push_back(&t);
    } else if (job.scheme == nullptr && (t.is_quantised() || is_block_type(t))) {
      plan.way = Way::decode;
    }
    // Block types stay in GGUF alone; engines read one scheme a folder.
    const bool holds_fp8 = job.scheme != nullptr && engine_rules_of(*job.scheme).takes == Takes::experts;
    const bool is_other = job.scheme != nullptr && (t.scheme != nullptr ? t.scheme != job.scheme : t.fp8 && !holds_fp8);
    if (plan.way == Way::copy && !is_broken && !writes_gguf(job) && (is_block_type(t) || is_other))
      plan.way = Way::decode;
    plans.push_back(plan);
  }
  if (!job.allow_left) refuse_left(job.scheme != nullptr ? "quantize " + job.in : "dequantize " + job.in, plans);
  if (!refused.empty()) refuse(job, plans, refused);
  if (job.scheme != nullptr && std::none_of(plans.begin(), plans.end(), [](const Plan& p) { return is_fp4(p); }))
    refuse_nothing(job, plans);
  for (Plan& plan : plans) fill(job, spec, plan);
  return plans;
}

QuantSpec model_spec(const ModelJob& job) {
  if (job.scheme == nullptr) return {};
  const QuantSpec own = quant_spec_from_words(job.scheme->spec, job.scheme->name);
  const QuantSpec s = quant_spec_from_words(job.words.empty() ? job.scheme->spec : job.words, "--spec");
  const bool has_factor = job.scheme->meaning != Factor::one;
  const bool may_lack =
      has_factor && job.scheme->gguf != GgufValues::plain;  // STEM.scale is written where there is one
  const bool fits = s.element == own.element && !s.choice.is_on && s.scale == own.scale && s.block == own.block &&
                    (s.tensor_scale == (has_factor ? TensorScale::current : TensorScale::none) ||
                     (may_lack && s.tensor_scale == TensorScale::none)) &&
                    s.prescale == 1.0f && s.scale_rule != ScaleRule::encode;
  if (fits) return s;
  throw Error(
      fmt::format("--spec: {} holds element {}, scale {}, block {}, tensor_scale {}, prescale 1 and scales, not "
                  "their inverses; '{}' has others",
                  job.scheme->name, info_of(own.element).name, row_of(scale_table, own.scale).name, job.scheme->block,
                  has_factor ? "current" : "none", job.words));
}

}  // namespace fp4
