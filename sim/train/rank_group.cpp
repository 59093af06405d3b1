#include "sim/train/rank_group.h"

#include <algorithm>
#include <utility>

#include "src/arith/spec_text.h"
#include "src/files/sha256.h"
#include "src/text/error.h"

namespace fp4::sim {

RankGroup::RankGroup(Ranks* ranks, const Wire& wire, int batch)
    : ranks_(ranks), wire_(wire), count_(ranks ? ranks->count() : 1), rank_(ranks ? ranks->rank() : 0) {
  if (batch % count_ != 0)
    throw Error("train.batch: " + std::to_string(batch) + " examples cannot be shared evenly by " +
                std::to_string(count_) + " ranks");
}

void RankGroup::join(const Dispatcher& backend, const Kernels& kernels, uint64_t seed) {
  if (!is_alone()) mean_.emplace(wire_, *ranks_, backend, kernels, seed);
}

float RankGroup::mean_loss(float mine) const {
  if (is_alone()) return mine;
  std::vector<float> all(static_cast<size_t>(count_));
  ranks_->gather(&mine, all.data(), sizeof mine);
  float sum = 0;
  for (const float loss : all) sum += loss;
  return sum / static_cast<float>(count_);
}

bool RankGroup::agreed(bool go_on) const {
  if (is_alone()) return go_on;
  const uint8_t mine = go_on ? 1 : 0;
  std::vector<uint8_t> all(static_cast<size_t>(count_));
  ranks_->gather(&mine, all.data(), sizeof mine);
  return std::all_of(all.begin(), all.end(), [](uint8_t one) { return one == 1; });
}

void RankGroup::average(const DeviceKernels* device, float* gradients, int64_t total, uint32_t step, int threads) {
  if (device == nullptr) return (*mean_)(gradients, total, step, threads);
  const int64_t bytes = static_cast<int64_t>(sizeof(float)) * total;
  host_.resize(static_cast<size_t>(total));
  device->download(host_.data(), gradients, bytes);
  (*mean_)(host_.data(), total, step, threads);
  device->upload(gradients, host_.data(), bytes);
}

void RankGroup::share_largest(std::vector<float>& mine) const {
  std::vector<float> all(mine.size() * static_cast<size_t>(count_));
  ranks_->gather(mine.data(), all.data(), static_cast<int64_t>(sizeof(float) * mine.size()));
  for (size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::max(mine[i % mine.size()], all[i]);
}

void RankGroup::check_alike(const Json& config, uint64_t seed, int step, int stop_at) const {
  if (is_alone()) return;
  Json all_of = config;
  describe(all_of);
  const std::pair<const char*, Json> parts[] = {{"recipe", all_of["recipe"]},
                                                {"task", all_of["task"]},
                                                {"training", all_of["train"]},
                                                {"seed", seed},
                                                {"way of sending gradients", all_of["ranks"]},
                                                {"step to begin after", step},
                                                {"step to stop after", stop_at}};
  constexpr size_t width = 64;
  std::string mine, words;
  for (const auto& [what, value] : parts) mine += sha256_hex(value.dump());
  std::string all(mine.size() * static_cast<size_t>(count_), ' ');
  ranks_->gather(mine.data(), all.data(), static_cast<int64_t>(mine.size()));
  for (size_t at = 0; at < all.size(); at += width) {
    const size_t part = at % mine.size();
    if (part == 0 && !words.empty()) break;  // of the first rank that differs
    if (all.compare(at, width, all, part, width) == 0) continue;
    words += (words.empty() ? "rank " + std::to_string(at / mine.size()) + " differs from rank 0 in: " : ", ");
    words += parts[part / width].first;
  }
  if (!words.empty()) throw Error(words + "; start all with the same words");
}

void RankGroup::compare(const std::string& digest) const {
  if (is_alone()) return;
  std::string all(digest.size() * static_cast<size_t>(count_), ' ');
  ranks_->gather(digest.data(), all.data(), static_cast<int64_t>(digest.size()));
  for (int i = 0; i < count_; ++i)
    if (const std::string other = all.substr(static_cast<size_t>(i) * digest.size(), digest.size()); other != digest)
      throw Error("rank " + std::to_string(i) + " ended with the digest " + other + ", rank " + std::to_string(rank_) +
                      " with " + digest,
                  Error::failed);
}

void RankGroup::describe(Json& config) const {
  if (!is_alone())
    config["ranks"] = {{"count", count_}, {"gradients", to_json(canonical(wire_.spec))}, {"hadamard", wire_.hadamard}};
}

}  // namespace fp4::sim
