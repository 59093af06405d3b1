// Decides: every number of the cost model that is neither a chip's nor a recipe's: instruction slots of each step of a
// quantiser, bytes, overlap, utilisations, points, and the factors that a sensitivity study turns. One row per number
// (weight_table), so that a JSON object {"sr": 2} and `--weight sr=2` know the same words.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/text/json_reader.h"

namespace fp4::cost {

using fp4::Json;

struct CostWeights {
  // Factors on what a technique adds; 1 = as modelled.
  double quantise = 1, sr = 1, hadamard = 1, tensor_scale = 1, scale_rule = 1, estimator = 1;
  // Factors on the chip.
  double bandwidth = 1, issue = 1, efficiency = 1, other = 1;
  // Instruction slots per element.
  double amax_ops = 2, multiply_ops = 1, convert_ops = 1, pack_ops = 0.5;
  double philox_ops = 100, software_sr_ops = 2, hardware_sr_ops = 1;
  double butterfly_ops = 1, normalise_ops = 1, sign_ops = 1;
  // Bytes.
  double input_bytes = 2, unfused_hadamard_bytes = 4, optimizer_bytes = 30, gradient_bytes = 2, gather_bytes = 2;
  // Share that is hidden of what a layer-by-layer schedule of messages can hide (sweeps/cost/shared_step.h).
  double overlap = 0.8;
  // Messages: layers leave together up to so many bytes; start of a collective; each step of it.
  double bucket_bytes = 25 * 1048576.0, collective_s = 12e-6, link_hop_s = 3.6e-6, network_hop_s = 19.8e-6;
  // Power above idle as a share of (board - idle), by what binds the kernel.
  double utilisation_matrix = 1, utilisation_vector = 0.7, utilisation_memory = 0.7, utilisation_stall = 0.2;
  // Of the node outside its boards (system - board, a nameplate), the share that is drawn; and switches and optics of
  // jobs of several nodes, W for each accelerator. Both from MLPerf Training v4.0's power results: cost validate.
  double node_share = 0.35, network_w = 116;
  // Points of a switched-on technique.
  double points_sr = 1, points_hadamard = 1, points_tensor_scale = 1, points_estimator = 1, points_scale_gradient = 1,
         points_loss_scaling = 1;
};

struct WeightRow {
  const char* name;
  double CostWeights::*field;
  double low, high;
  const char* doc;
};
std::span<const WeightRow> weight_table();

/// {"sr": 2, "bandwidth": 0.5} over the defaults; unknown words and negative numbers are errors.
CostWeights parse_weights(const Json& object, const std::string& place, FieldNotes* notes = nullptr);
/// "sr=2" from the command line.
void set_weight(CostWeights& weights, std::string_view assignment);
/// The weights that differ from the defaults.
Json to_json(const CostWeights& weights);

}  // namespace fp4::cost
