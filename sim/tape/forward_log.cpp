#include "sim/tape/forward_log.h"

#include <map>
#include <utility>

#include "fp4/bits.h"

namespace fp4::sim {

// Of shape and values, -0 as 0. Each step is a bijection of the state, so equal prefixes never hide a difference.
static uint64_t hash_of(Tensor t) {
  uint64_t h = static_cast<uint64_t>(t.rows) << 32 ^ static_cast<uint64_t>(t.cols);
  for (int64_t i = 0; i < t.size(); ++i) {
    h = (h ^ bits_of(t.data[i] + 0.0f)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

void ForwardLog::product(const std::string& layer, int part, Tensor in, Tensor left, Tensor right, Tensor out) {
  const std::array<Tensor, 4> all = {in, left, right, out};
  Product noted = {layer, part, {}};
  for (size_t i = 0; i < all.size(); ++i) noted.hashes[i] = hash_of(all[i]);
  if (static_cast<int64_t>(products_.size()) == keep_)
    for (size_t i = 0; i < all.size(); ++i)
      kept_[i] = {all[i].rows, all[i].cols, std::vector<float>(all[i].data, all[i].data + all[i].size())};
  products_.push_back(std::move(noted));
}

std::optional<Pair> first_difference(const ForwardLog& first, const ForwardLog& second) {
  using Key = std::pair<std::string, int>;
  std::map<Key, std::vector<int64_t>> places;  // of each product, batch by batch
  for (size_t i = 0; i < first.products().size(); ++i)
    places[{first.products()[i].layer, first.products()[i].part}].push_back(static_cast<int64_t>(i));
  std::map<Key, size_t> seen;
  for (size_t i = 0; i < second.products().size(); ++i) {
    const ForwardLog::Product& p = second.products()[i];
    const auto found = places.find({p.layer, p.part});
    const size_t batch = seen[{p.layer, p.part}]++;
    if (found == places.end() || batch >= found->second.size()) continue;
    const int64_t other = found->second[batch];
    if (first.products()[static_cast<size_t>(other)].hashes[ForwardLog::y] != p.hashes[ForwardLog::y])
      return Pair{other, static_cast<int64_t>(i)};
  }
  return {};
}

}  // namespace fp4::sim
