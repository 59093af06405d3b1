// Decides: what a recipe's `attn` does to attention, beside the rules over its products qk and pv (attention.h).
//   kv      the spec in which a cache stores K (after its rotation) and V: both are rounded before anything reads them,
//           and gradients pass straight through
//   keys, values  along what blocks lie: `token`, the width of a head, as a cache that grows by a token writes them; or
//           `channel`, the positions (KIVI 2402.02750 has keys so). With tensor_scale `row` each token (or channel) has
//           a factor of its own; `hold` is a factor for each of K and V of a block that `fp4sim eval` calibrates:
//           the largest magnitude in `ptq.batches` batches of the training, read in fp32
//   tile    what of the softmax pv quantises: `after_sum` P, whose rows add up to 1; `before_sum` the exponentials
//           exp(s - max) as a kernel with a running maximum has them (SageAttention3 2505.11594), whose product is
//           divided by the exact row sum
#pragma once

#include "fp4/axis.h"
#include "fp4/spec.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

enum class CacheAxis : uint8_t { token, channel };
enum class SoftmaxTile : uint8_t { after_sum, before_sum };
enum class Recompute : uint8_t { forward, full };
enum class SoftmaxDelta : uint8_t { derived, of_scores, of_output, of_full_output };

inline constexpr AxisRow<CacheAxis> cache_axis_table[] = {
    {CacheAxis::token, "token", "blocks along the width of a head", "SageAttention3 2505.11594"},
    {CacheAxis::channel, "channel", "blocks along the positions", "KIVI 2402.02750"},
};
inline constexpr AxisRow<SoftmaxTile> softmax_tile_table[] = {
    {SoftmaxTile::after_sum, "after_sum", "P, whose rows add up to 1", "-"},
    {SoftmaxTile::before_sum, "before_sum", "exp(s - max); the product is divided by the row sum",
     "SageAttention3 2505.11594"},
};
inline constexpr AxisRow<Recompute> recompute_table[] = {
    {Recompute::forward, "forward", "P of the forward pass, of quantised Q and K", "Attn-QAT 2603.00040"},
    {Recompute::full, "full", "exp(s - L) of Q and K before qk quantises them, with the forward's L",
     "FlashAttention's backward behind a quantised forward (2603.00040, drop-in)"},
};
inline constexpr AxisRow<SoftmaxDelta> softmax_delta_table[] = {
    {SoftmaxDelta::derived, "derived", "the forward's chain rule: of_scores after the sum, of_output before it", "-"},
    {SoftmaxDelta::of_scores, "of_scores", "sum of P dP over the row", "definition of the softmax's gradient"},
    {SoftmaxDelta::of_output, "of_output", "sum of dY Y over the row, Y the forward's output",
     "FlashAttention-2 2307.08691"},
    {SoftmaxDelta::of_full_output, "of_full_output", "sum of dY (P V), P unquantised, V as pv multiplies it",
     "Attn-QAT 2603.00040"},
};
static_assert(ids_are_indices(cache_axis_table) && ids_are_indices(softmax_tile_table) &&
              ids_are_indices(recompute_table) && ids_are_indices(softmax_delta_table));

struct AttentionRules {
  AttentionRules();
  QuantSpec kv;  // fp32 without a scale: stored as they are
  CacheAxis keys = CacheAxis::token, values = CacheAxis::token;
  SoftmaxTile tile = SoftmaxTile::after_sum;
  Recompute recompute = Recompute::forward;
  SoftmaxDelta delta = SoftmaxDelta::derived;
  bool stores() const;
  bool any() const {
    return stores() || tile != SoftmaxTile::after_sum || recompute != Recompute::forward ||
           delta != SoftmaxDelta::derived;
  }
  bool calibrates() const { return stores() && kv.has_tensor_scale() && kv.tensor_scale == TensorScale::hold; }
  friend bool operator==(const AttentionRules&, const AttentionRules&) = default;
};

/// {"kv", "keys", "values", "tile", "recompute", "delta"} laid over `start`, and back.
AttentionRules attention_rules_from(const JsonReader& given, AttentionRules start);
Json attention_rules_to(const AttentionRules& rules);

}  // namespace fp4::sim
