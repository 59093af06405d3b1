#include "src/model/tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/files/gguf.h"
#include "src/model/keep_rules.h"
#include "src/model/weight_names.h"
#include "src/model/weight_reader.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<ModelTensor>& tensors) {
  for (const std::string& p : patterns)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return has_match({p}, t.name); }))
      throw Error(fmt::format("{}: no tensor of the model is called '{}'; `fp4sim inspect` lists them", option, p));
}

// Why the scheme cannot hold a tensor; empty where it can.
std::string refusal(const CheckpointScheme& s, const ModelTensor& t) {
  if (!has_values(t)) return fmt::format("{} has no real values", t.type());
  if (t.shape.size() < 2) return fmt::format("shape {} is no matrix", shape_text(t.shape));
  if (s.is_fp8() && t.shape.size() > 2 && t.shape[t.shape.size() - 2] % static_cast<uint64_t>(s.block_rows) != 0)
    return fmt::format("its experts of shape {} end within blocks of {} rows", shape_text(t.shape), s.block_rows);
  const auto block = s.gguf != GgufValues::plain ? gguf_type_of(s.gguf).block : static_cast<uint64_t>(s.block);
  if (matrix_cols(t.shape) == 0 || (!s.is_fp8() && matrix_cols(t.shape) % block != 0))
    return fmt::format("its {} columns are no multiple of the block of {}", matrix_cols(t.shape), block);
  if (t.scheme == nullptr && !t.whole.ends_with(s.whole))
    return fmt::format("its name does not end in '{}', which the scheme replaces", s.whole);
  return "";
}

// Whether a word of --tensors is the tensor's whole name: then it is quantised whatever the rules keep.
bool is_named_fully(const ModelJob& job, const std::string& name) { return contains(job.tensors, name); }

// Why a tensor that could be converted stays as it is; without words where it is to be converted.
struct Reason {
  std::string words = {};
  bool is_told = false;  // by the command: a rule is no decision about what nobody understands
};

Reason reason_to_keep(const ModelJob& job, const SourceConfig& source, const ModelTensor& t) {
  if (!job.tensors.empty() && !has_match(job.tensors, t.name)) return {"not in --tensors", true};
  if (has_match(job.keep, t.name)) return {"--keep", true};
  if (is_named_fully(job, t.name) || job.scheme == nullptr) return {};
  if (!job.keep_only.empty()) {
    if (has_match(job.keep_only, t.name)) return {"--keep-only", true};
  } else if (std::string why = reason_of_rules(t.whole, t.shape.size(), t.is_quantised()); !why.empty()) {
    return {std::move(why)};
  } else if (why = reason_of_architecture(source.model_type(), source.layers(), t.whole); !why.empty()) {
    return {std::move(why)};
  }
  const Takes takes = job.scheme->engine.takes;
  if (takes != Takes::linear && !is_expert(t.whole)) return {"no routed expert"};
  if (takes == Takes::stacks && (t.shape.size() != 3 || t.whole.ends_with(".weight"))) return {"no stack of experts"};
  if (!t.is_quantised() && !t.whole.ends_with(job.scheme->whole))
    return {fmt::format("name does not end in '{}'", job.scheme->whole)};
  return {};
}

// Whether an FP8 weight has the blocks of the scheme, as far as its matrix reaches.
bool has_blocks_of(const CheckpointScheme& s, const ModelTensor& t) {
  if (!t.fp8 || t.parts[0].info.dtype != s.codes_dtype || !t.whole.ends_with(s.whole)) return false;
  const auto rows = static_cast<int64_t>(matrix_rows(t.shape)), cols = static_cast<int64_t>(matrix_cols(t.shape));
  return std::min<int64_t>(s.block_rows, rows) == std::min(t.fp8->rows, rows) &&
         std::min<int64_t>(s.block == 0 ? cols : s.block, cols) == std::min(t.fp8->cols, cols);
}

// Whether the codes and scales of a weight mean the same in the scheme: the same formats, and factors that it can say.
bool can_carry(const ModelJob& job, const ModelTensor& t) {
  if (job.scheme->is_fp8()) return job.words.empty() && !t.columns && has_blocks_of(*job.scheme, t);
  if (!job.words.empty() || t.columns || t.scheme == nullptr || t.scheme->block != job.scheme->block || t.is_transposed)
    return false;
  const bool has_factor = t.parts.size() > (t.scheme->gguf == GgufValues::plain ? 2u : 1u);
  if (has_factor && job.scheme->meaning == Factor::one && t.scheme->meaning != Factor::one) return false;
  const std::vector<std::uint64_t>& rows = t.factor_rows;
  const bool are_equal = rows.empty() || std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
  const bool is_of_experts = rows.empty() || (t.shape.size() > 2 && rows.size() == t.shape[0]);
  return job.scheme->gguf == GgufValues::plain ? are_equal : is_of_experts;
}

// What is not understood, all of it in one message.
void refuse_left(const std::string& command, const std::vector<TensorPlan>& plans) {
  constexpr size_t most = 20;
  std::string list;
  size_t count = 0;
  for (const TensorPlan& p : plans) {
    if (p.outcome != Fate::left) continue;
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
[[noreturn]] void refuse(const ModelJob& job, const std::vector<TensorPlan>& plans,
                         const std::vector<const ModelTensor*>& refused) {
  std::vector<std::string> wanted, others;
  for (const ModelTensor* t : refused) wanted.push_back(t->name);
  for (const TensorPlan& plan : plans)
    if (plan.is_fp4() && !contains(refused, plan.tensor)) others.push_back(plan.tensor->name);
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
[[noreturn]] void refuse_nothing(const ModelJob& job, const std::vector<TensorPlan>& plans) {
  std::map<std::string, size_t> reasons;
  for (const TensorPlan& plan : plans) ++reasons[plan.rule.empty() ? "no matrix of numbers" : plan.rule];
  std::string words = reasons.empty() ? "it holds no tensors" : "";
  for (const auto& [reason, count] : reasons) add_word(words, fmt::format("{} {}", count, reason));
  throw Error(fmt::format("{}: nothing becomes {}: {}; --tensors NAME quantises a weight that a rule keeps", job.in,
                          job.scheme->name, words));
}

// A scale of the KV cache, whose format the source's configuration says: it goes where the one that is written does.
TensorPlan cache_plan(const ModelJob& job, const PlanFacts& facts, const ModelTensor& t) {
  TensorPlan plan = {&t, Way::copy};
  plan.name = cache_name_in(job, facts.cache, t.name);
  if (job.scheme == nullptr && job.tensors.empty()) {
    plan.way = Way::drop;
    plan.outcome = Fate::dropped;
    plan.rule = "scale of the KV cache, which config.json no longer says is quantised";
  } else if (plan.name.empty() || !facts.cache.refusal.empty()) {
    plan.name.clear();
    plan.outcome = Fate::left;
    plan.rule = fmt::format("scales the KV cache, and engines of {} know no such scale", job.scheme->name);
  }
  return plan;
}

// Whether the tensor is quantised, carried, decoded or copied, and why it stays.
TensorPlan way_of(const ModelJob& job, const PlanFacts& facts, const ModelTensor& t) {
  if (!t.is_quantised() && has_values(t) && cache_row_of(t.name) != nullptr && !facts.source.cache().is_null())
    return cache_plan(job, facts, t);
  TensorPlan plan = {&t, Way::copy};
  const bool is_broken = !t.fault.empty() || !t.unknown.empty();
  const bool can_be = is_broken || (has_values(t) && (job.scheme == nullptr || t.shape.size() > 1));
  const Reason reason = can_be ? reason_to_keep(job, facts.source, t) : Reason{};
  if (is_broken && !reason.is_told) {
    if (!t.fault.empty() && !job.allow_left)
      throw Error(fmt::format("{}: {}: {}; --keep '{}' leaves the layer as it is", t.file(), t.name, t.fault, t.name));
    plan.outcome = Fate::left;
    plan.rule = t.fault.empty() ? t.unknown : t.fault;
    return plan;
  }
  if (!reason.words.empty()) {
    plan.outcome = Fate::kept;
    plan.rule = reason.words;
  } else if (job.scheme != nullptr && can_be && !t.changed.empty()) {
    throw Error(
        fmt::format("{}: {}: {}, and would not change FP4 codes; merge it, or --keep '{}' leaves the weight as "
                    "it is",
                    t.file(), t.name, t.changed, t.name));
  } else if (job.scheme != nullptr && can_be) {
    plan.way = can_carry(job, t) ? Way::carry : Way::quantise;
  } else if (job.scheme == nullptr && (t.is_quantised() || is_block_type(t))) {
    plan.way = Way::decode;
  }
  // Block types stay in GGUF alone; engines read one scheme a folder.
  const bool holds_fp8 = job.scheme != nullptr && job.scheme->engine.takes == Takes::experts;
  const bool is_other = job.scheme != nullptr && (t.scheme != nullptr ? t.scheme != job.scheme : t.fp8 && !holds_fp8);
  if (plan.way == Way::copy && !is_broken && !job.writes_gguf() && (is_block_type(t) || is_other))
    plan.way = Way::decode;
  if (plan.way == Way::copy && t.columns && job.scheme != nullptr) {
    plan.outcome = Fate::left;
    plan.rule =
        fmt::format("stays with {}, which the configuration that is written does not say", t.columns->info.name);
  }
  return plan;
}

}  // namespace

void set_orientations(const ModelJob& job, std::vector<ModelTensor>& tensors) {
  const bool writes_stacks = job.scheme != nullptr && job.scheme->engine.takes == Takes::stacks;
  for (ModelTensor& t : tensors) {
    const bool is_stack = t.shape.size() == 3 && is_expert(t.whole) && !t.whole.ends_with(".weight");
    const bool is_read = t.scheme != nullptr && t.scheme->engine.takes == Takes::stacks;
    const bool is_chosen = job.tensors.empty() || has_match(job.tensors, t.name);
    const bool is_turned = writes_stacks ? !t.is_quantised() && has_values(t) : is_read && job.scheme == nullptr;
    if (!is_stack || !is_chosen || !is_turned) continue;
    t.is_turned = true;
    std::swap(t.shape[1], t.shape[2]);
  }
}

std::vector<TensorPlan> plans_of(const ModelJob& job, const QuantSpec& spec, const PlanFacts& facts,
                                 const std::vector<ModelTensor>& tensors) {
  const bool keeps_nothing = job.keep_only == std::vector<std::string>{"none"};
  check_patterns("--tensors", job.tensors, tensors);
  check_patterns("--keep", job.keep, tensors);
  if (!keeps_nothing) check_patterns("--keep-only", job.keep_only, tensors);
  std::vector<TensorPlan> plans;
  std::vector<const ModelTensor*> refused;
  for (const ModelTensor& t : tensors) {
    plans.push_back(way_of(job, facts, t));
    const TensorPlan& plan = plans.back();
    const bool is_left_out = job.scheme != nullptr && !plan.is_fp4() && plan.outcome == Fate::copied;
    if ((is_left_out && is_named_fully(job, t.name)) || (plan.is_fp4() && !refusal(*job.scheme, t).empty()))
      refused.push_back(&t);
  }
  if (!job.allow_left) refuse_left(fmt::format("{} {}", job.command(), job.in), plans);
  if (!refused.empty()) refuse(job, plans, refused);
  if (job.scheme != nullptr && std::none_of(plans.begin(), plans.end(), [](const TensorPlan& p) { return p.is_fp4(); }))
    refuse_nothing(job, plans);
  uint32_t number = 0;
  for (TensorPlan& plan : plans) {
    set_parts(job, spec, plan);
    if (plan.way == Way::quantise) plan.number = number++;
  }
  return plans;
}

}  // namespace fp4
