// The table of weights. Instruction counts are what one element needs in a straightforward kernel: two for amax
// (absolute value, maximum), one multiplication, one conversion, half an instruction to pack two codes into a byte.
#include "sweeps/cost/weights.h"

#include <fmt/format.h>

#include <cmath>

#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/read_field.h"
#include "src/text/words.h"

namespace fp4::cost {

namespace {

using W = CostWeights;

// Where a default is not a count of instructions that can be read off a kernel, the row says what it rests on.
const WeightRow rows[] = {
    {"quantise", &W::quantise, 0, huge, "factor on the plain quantiser (amax, multiply, convert, pack)"},
    {"sr", &W::sr, 0, huge, "factor on what stochastic rounding adds"},
    {"hadamard", &W::hadamard, 0, huge, "factor on what a Hadamard transform adds"},
    {"tensor_scale", &W::tensor_scale, 0, huge, "factor on the extra pass of a tensor scale"},
    {"scale_rule", &W::scale_rule, 0, huge, "factor on what four_over_six and mse add"},
    {"estimator", &W::estimator, 0, huge, "factor on gradient estimators and scale gradients"},
    {"bandwidth", &W::bandwidth, tiny, huge, "factor on the memory bandwidth"},
    {"issue", &W::issue, tiny, huge, "factor on the vector issue rate"},
    {"efficiency", &W::efficiency, tiny, huge, "factor on the efficiency of GEMMs (the product stays at most 1)"},
    {"other", &W::other, 0, huge, "factor on `other`: norms, activations, residual adds, the loss and launches"},
    {"amax_ops", &W::amax_ops, 0, huge, "absolute value and maximum of one element"},
    {"multiply_ops", &W::multiply_ops, 0, huge, "multiplication by the reciprocal scale"},
    {"convert_ops", &W::convert_ops, 0, huge, "conversion to the code"},
    {"pack_ops", &W::pack_ops, 0, huge, "two codes into a byte"},
    {"philox_ops", &W::philox_ops, 0, huge, "Philox4x32-10: 10 rounds of 2 wide multiplications, 128 bits"},
    {"software_sr_ops", &W::software_sr_ops, 0, huge, "cutting a draw out of the 128 bits and adding it"},
    {"hardware_sr_ops", &W::hardware_sr_ops, 0, huge, "stochastic conversion with a generator of its own"},
    {"butterfly_ops", &W::butterfly_ops, 0, huge, "one add per element and stride, log2(size) strides"},
    {"normalise_ops", &W::normalise_ops, 0, huge, "multiplication by 1/sqrt(size)"},
    {"sign_ops", &W::sign_ops, 0, huge, "exclusive or with a drawn sign"},
    {"input_bytes", &W::input_bytes, tiny, huge, "bytes of an element before quantisation (bf16)"},
    {"unfused_hadamard_bytes", &W::unfused_hadamard_bytes, 0, huge, "write and read of the rotated element (bf16)"},
    {"optimizer_bytes", &W::optimizer_bytes, 0, huge, "AdamW, per parameter: 16 read, 12 + 2 written"},
    {"gradient_bytes", &W::gradient_bytes, 0, huge, "gradient transport: bf16 2, fp8 1.03, fp4 0.53"},
    {"gather_bytes", &W::gather_bytes, 0, huge, "transport of a weight that is gathered: bf16 2, fp8 1.03, fp4 0.53"},
    {"overlap", &W::overlap, 0, 1, "share of what layer-by-layer messages can hide that is hidden (estimate)"},
    {"bucket_bytes", &W::bucket_bytes, 0, huge, "layers leave together up to so many bytes (PyTorch DDP: 25 MiB)"},
    {"collective_s", &W::collective_s, 0, huge, "seconds to start a collective (NCCL tuning tables, base latency)"},
    {"link_hop_s", &W::link_hop_s, 0, huge, "seconds of a step of one on NVLink (NCCL tuning tables, ring, Simple)"},
    {"network_hop_s", &W::network_hop_s, 0, huge, "the same on a network (NCCL tuning tables, ring, Simple)"},
    {"utilisation_matrix", &W::utilisation_matrix, 0, 1, "GEMMs run at the board's power limit (estimate)"},
    {"utilisation_vector", &W::utilisation_vector, 0, 1, "kernels bound by instruction issue (estimate)"},
    {"utilisation_memory", &W::utilisation_memory, 0, 1, "kernels bound by memory (estimate)"},
    {"utilisation_stall", &W::utilisation_stall, 0, 1, "waiting for the network (estimate)"},
    {"node_share", &W::node_share, 0, 1, "share of system_w - board_w, a nameplate, that a node draws (fitted)"},
    {"network_w", &W::network_w, 0, huge,
     "switches and optics for each accelerator, in jobs of several nodes (fitted)"},
    {"points_sr", &W::points_sr, 0, huge, "points of stochastic rounding"},
    {"points_hadamard", &W::points_hadamard, 0, huge, "points of a Hadamard transform"},
    {"points_tensor_scale", &W::points_tensor_scale, 0, huge, "points of a tensor scale"},
    {"points_estimator", &W::points_estimator, 0, huge, "points of an estimator other than straight-through"},
    {"points_scale_gradient", &W::points_scale_gradient, 0, huge, "points of a scale gradient"},
    {"points_loss_scaling", &W::points_loss_scaling, 0, huge, "points of loss scaling"},
};

}  // namespace

std::span<const WeightRow> weight_table() { return rows; }

CostWeights parse_weights(const Json& object, const std::string& place, FieldNotes* notes) {
  CostWeights weights;
  JsonReader reader(object, place, notes);
  for (const WeightRow& row : rows) read_field(reader, row.name, row.doc, weights.*row.field, row.low, row.high);
  reader.finish();
  return weights;
}

void set_weight(CostWeights& weights, std::string_view assignment) {
  const size_t equal = assignment.find('=');
  if (equal == std::string_view::npos) throw Error(fmt::format("--weight {}: expected NAME=NUMBER", assignment));
  const WeightRow& row = named_row("--weight", assignment.substr(0, equal), rows);
  const std::string_view text = assignment.substr(equal + 1);
  const auto value = real_from_text(text);
  if (!value || !std::isfinite(*value)) throw Error(fmt::format("--weight {}: '{}' is not a number", row.name, text));
  const Json json = *value;
  weights.*row.field = JsonReader(json, fmt::format("--weight {}", row.name)).number(row.low, row.high);
}

Json to_json(const CostWeights& weights) {
  const CostWeights defaults;
  Json out = Json::object();
  for (const WeightRow& row : rows)
    if (weights.*row.field != defaults.*row.field) out[row.name] = weights.*row.field;
  return out;
}

}  // namespace fp4::cost
