// The formulas of kernel_times.h. Seconds are bytes / bandwidth, FLOP / rate and slots / issue rate; nothing else
// enters: no launch times and no cache effects, which is why small models belong on `host` only.
#include "sweeps/cost/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fp4::cost {

// Slots per element of one rotation: log2(size) adds (or none in the dense form, which the matrix unit does).
static double rotation_ops(const HadamardFacts& hadamard, const QuantiseOptions& options) {
  const CostWeights& w = *options.weights;
  double ops = (hadamard.normalised ? w.normalise_ops : 0) + (hadamard.random_signs ? w.sign_ops : 0);
  if (options.hadamard != HadamardKernel::dense) ops += w.butterfly_ops * std::log2(hadamard.size);
  return ops;
}

std::string format_class(double bits) {
  if (bits <= 4) return "fp4";
  if (bits <= 6) return "fp6";
  if (bits <= 8) return "fp8";
  return bits <= 16 ? "bf16" : "fp32";
}

std::string format_class(const GemmFacts& gemm) {
  return format_class(std::max(gemm.a.element_bits, gemm.b.element_bits));
}

// One scale a row or a tensor is a factor on the result.
static bool has_blocks(const OperandFacts& operand) {
  return operand.quantised && operand.scale_bits > 0 && operand.scale_block < 1 << 20;
}

// The operand whose scales the unit does not multiply in blocks of `share` of their length, or null.
static const OperandFacts* refused_scales(const GemmFacts& gemm, const std::string& format, const Hardware& hardware,
                                          double share) {
  for (const OperandFacts* operand : {&gemm.a, &gemm.b})
    if (has_blocks(*operand) && !hardware.multiplies(format, operand->scale, operand->scale_block * share))
      return operand;
  return nullptr;
}

std::string decoded_operand(const GemmFacts& gemm, const Hardware& hardware) {
  const std::string format = format_class(gemm);
  for (const OperandFacts* operand : {&gemm.a, &gemm.b}) {
    if (!operand->quantised) continue;
    const std::string own = format_class(operand->element_bits);
    if (const auto other = hardware.emulate.find(own); other != hardware.emulate.end())
      return other->second == "bf16" ? own : fmt::format("{} (in {})", own, other->second);
    if (operand->is_choice) return own + " codes of two grids";
    if (operand->element[0] != '\0' && !hardware.takes(own, operand->element))
      return fmt::format("{} codes of {}", own, operand->element);
  }
  const OperandFacts* refused = refused_scales(gemm, format, hardware, 1);
  return refused == nullptr ? "" : fmt::format("{} with {} for {:g}", format, refused->scale, refused->scale_block);
}

double sparse_rate(const GemmFacts& gemm, const Hardware& hardware) {
  if (gemm.b.kept == 1) return 0;
  const auto mask = hardware.sparse_rates.find(gemm.b.sparse);
  if (mask == hardware.sparse_rates.end()) return 0;
  const std::string format = executed_class(gemm, hardware);
  const auto rate = mask->second.find(hardware.executed_class(format));
  // Of a block of B along the dense K the unit sees B times the share that is kept.
  const bool takes_blocks =
      format != format_class(gemm) || refused_scales(gemm, format, hardware, gemm.b.kept) == nullptr;
  return rate != mask->second.end() && takes_blocks ? rate->second.value : 0;
}

std::string sparse_as_dense(const GemmFacts& gemm, const Hardware& hardware) {
  if (gemm.b.kept == 1 || sparse_rate(gemm, hardware) > 0) return "";
  const std::string name = fmt::format("{} {}", executed_class(gemm, hardware), gemm.b.sparse);
  const auto mask = hardware.sparse_rates.find(gemm.b.sparse);
  const bool by_blocks = mask != hardware.sparse_rates.end() &&
                         mask->second.contains(hardware.executed_class(executed_class(gemm, hardware)));
  return by_blocks ? fmt::format("{} with {} for {:g}", name, gemm.b.scale, gemm.b.scale_block) : name;
}

std::string executed_class(const GemmFacts& gemm, const Hardware& hardware) {
  const std::string decoded = decoded_operand(gemm, hardware);
  if (decoded.empty()) return format_class(gemm);
  const auto other = hardware.emulate.find(std::string_view(decoded).substr(0, decoded.find(' ')));
  return other == hardware.emulate.end() ? "bf16" : other->second;  // of a whole class
}

Chip::Chip(const Hardware& profile, const CostWeights& weights)
    : hardware(&profile),
      efficiency(weights.efficiency),
      bandwidth(profile.memory_bandwidth.value * weights.bandwidth),
      issue(profile.issue_per_s.value * profile.issue_efficiency.value * weights.issue) {}

double Chip::share(std::string_view format_class, std::string_view scales) const {
  return std::min(1.0, hardware->efficiency_at(hardware->executed_class(format_class), scales).value * efficiency);
}

double Chip::matrix_rate(const GemmFacts& gemm) const {
  const std::string format = executed_class(gemm, *hardware);
  const OperandFacts& wider = gemm.a.element_bits >= gemm.b.element_bits ? gemm.a : gemm.b;
  const bool by_scales = !hardware->efficiency_of.empty() && has_blocks(wider) && format == format_class(gemm);
  const std::string scales = by_scales ? hardware->taken_scales(format, wider.scale, wider.scale_block) : "";
  const double sparse = sparse_rate(gemm, *hardware);
  return (sparse > 0 ? sparse : hardware->rate(format)) * share(format, scales);
}

Bound roofline(const Resources& work, const Chip& chip) {
  const double matrix = work.flop / work.flop_rate;
  const double memory = work.bytes / (chip.bandwidth * work.bandwidth_share);
  const double issue = work.ops / chip.issue;
  if (matrix >= memory && matrix >= issue) return {matrix, matrix > 0 ? "matrix" : "none"};
  return memory >= issue ? Bound{memory, "memory"} : Bound{issue, "issue"};
}

std::string roofline_formula(const Resources& work, const Chip& chip) {
  const Bound bound = roofline(work, chip);
  switch (bound.binding[0]) {
    case 'm':
      if (bound.binding[1] == 'a') return fmt::format("{:.5g} FLOP / {:.5g} FLOP/s", work.flop, work.flop_rate);
      return fmt::format("{:.5g} bytes / {:.5g} bytes/s", work.bytes, chip.bandwidth * work.bandwidth_share);
    case 'i': return fmt::format("{:.5g} slots / {:.5g} slots/s", work.ops, chip.issue);
    default: return "0";
  }
}

const char* technique_name(Technique technique) {
  constexpr const char* names[technique_count] = {"quantise",   "tensor scale", "hadamard", "stochastic rounding",
                                                  "scale rule", "mask"};
  return names[static_cast<size_t>(technique)];
}

const char* technique_group(Technique technique) {
  return technique_name(technique == Technique::mask ? Technique::plain : technique);
}

double copy_ops(const Copy& copy, Technique last, const Chip& chip, const QuantiseOptions& options) {
  const CostWeights& w = *options.weights;
  const OperandFacts& operand = *copy.operand;
  if (copy.shares_codes) return 0;
  const bool rotates = copy.hadamard.size > 0 && last >= Technique::hadamard;
  double ops = operand.quantised ? w.quantise * (w.amax_ops + w.multiply_ops + w.convert_ops + w.pack_ops) : 0;
  if (rotates) ops += w.hadamard * rotation_ops(copy.hadamard, options);
  if (operand.extra_passes > 0 && last >= Technique::tensor_scale) {
    // The first pass only looks for the largest value, but of what will be quantised: a fused rotation runs twice.
    double pass = w.amax_ops;
    if (rotates && options.hadamard == HadamardKernel::fused) pass += w.hadamard * rotation_ops(copy.hadamard, options);
    ops += w.tensor_scale * operand.extra_passes * pass;
  }
  if (operand.random_bits > 0 && last >= Technique::stochastic_rounding)
    ops += w.sr * (chip.hardware->hardware_random ? w.hardware_sr_ops
                                                  : w.philox_ops * operand.random_bits / 128 + w.software_sr_ops);
  if (last >= Technique::scale_rule) ops += w.scale_rule * operand.rule_ops;
  if (last >= Technique::mask) ops += operand.mask_ops;
  return ops;
}

Resources quantise_work(const QuantiseKernel& kernel, Technique last, const Chip& chip,
                        const QuantiseOptions& options) {
  const CostWeights& w = *options.weights;
  Resources work;
  double bytes = kernel.read_bytes, ops = 0, flop = 0, passes = 0;
  for (const Copy& copy : kernel.copies) {
    const OperandFacts& operand = *copy.operand;
    bytes += operand.stored_bits() / 8;
    ops += copy_ops(copy, last, chip, options);
    passes = std::max(passes, operand.extra_passes);  // one read serves the amax of all copies
    if (copy.hadamard.size == 0 || copy.shares_codes || last < Technique::hadamard) continue;
    if (options.hadamard == HadamardKernel::unfused) bytes += w.hadamard * w.unfused_hadamard_bytes;
    if (options.hadamard == HadamardKernel::dense) flop += w.hadamard * 2.0 * copy.hadamard.size;
  }
  if (last >= Technique::tensor_scale) bytes += w.tensor_scale * passes * w.input_bytes;
  work.flop = kernel.elements * flop;
  if (flop > 0) work.flop_rate = chip.matrix_rate("bf16");
  work.bytes = kernel.elements * bytes;
  work.bandwidth_share = chip.hardware->quantiser_bandwidth.value;
  work.ops = kernel.elements * ops;
  return work;
}

}  // namespace fp4::cost
