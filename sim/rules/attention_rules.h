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

template <class Id>
struct AttentionWord {
  Id id;
  const char* name;
  const char* doc;
  const char* source;
};
inline constexpr AttentionWord<CacheAxis> cache_axis_table[] = {
    {CacheAxis::token, "token", "blocks along the width of a head", "SageAttention3 2505.11594"},
    {CacheAxis::channel, "channel", "blocks along the positions", "KIVI 2402.02750"},
};
inline constexpr AttentionWord<SoftmaxTile> softmax_tile_table[] = {
    {SoftmaxTile::after_sum, "after_sum", "P, whose rows add up to 1", "-"},
    {SoftmaxTile::before_sum, "before_sum", "exp(s - max); the product is divided by the row sum",
     "SageAttention3 2505.11594"},
};
static_assert(ids_are_indices(cache_axis_table) && ids_are_indices(softmax_tile_table));

struct AttentionRules {
  AttentionRules();
  QuantSpec kv;  // fp32 without a scale: stored as they are
  CacheAxis keys = CacheAxis::token, values = CacheAxis::token;
  SoftmaxTile tile = SoftmaxTile::after_sum;
  bool stores() const;
  bool any() const { return stores() || tile != SoftmaxTile::after_sum; }
  bool calibrates() const { return stores() && kv.has_tensor_scale() && kv.tensor_scale == TensorScale::hold; }
  friend bool operator==(const AttentionRules&, const AttentionRules&) = default;
};

/// {"kv", "keys", "values", "tile"} laid over `start`, and back.
AttentionRules attention_rules_from(const JsonReader& given, AttentionRules start);
Json attention_rules_to(const AttentionRules& rules);

}  // namespace fp4::sim
