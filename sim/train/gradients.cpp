#include "sim/train/gradients.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "src/arith/spec_text.h"
#include "src/files/sha256.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

constexpr int64_t columns = 1024;  // a multiple of every Hadamard size and of every usual block
// The bits that round gradients for the wire, and those of their mean: of a fourth product of layer 0, which has three.
constexpr uint32_t wire_streams[] = {stream_number(0, 3, 0, Purpose::rounding),
                                     stream_number(0, 3, 1, Purpose::rounding)};

bool is_plain(const QuantSpec& s) { return s.element == Element::fp32 && !s.has_scale(); }

// The three arrays of a Quantized that a row has a share of; a single number (a tensor scale) goes with every part.
template <class Q, class Call>
void for_each_array(Q& q, Call call) {
  call(q.codes);
  call(q.scales);
  call(q.real_scales);
  call(q.tensor_scale);
}

template <class T>
size_t share_of(const std::vector<T>& all, int64_t whole, int64_t rows) {
  return all.size() <= 1 ? all.size() : all.size() / static_cast<size_t>(whole) * static_cast<size_t>(rows);
}

}  // namespace

std::string invalid_reason(const Wire& wire) {
  if (wire.spec.has_scale() && wire.spec.block.kind != BlockKind::vector)
    return "gradients travel in blocks of one row: `block` is a number";
  if (columns % std::max(wire.spec.block.size, 1) != 0)
    return "gradients travel in blocks that divide " + std::to_string(columns);
  if (wire.hadamard != 0 &&
      std::find(std::begin(hadamard_sizes), std::end(hadamard_sizes), wire.hadamard) == std::end(hadamard_sizes))
    return "a Hadamard of " + std::to_string(wire.hadamard) + " elements; accepted: 0, 16, 32, 64, 128, 256";
  if (wire.spec.has_tensor_scale() && wire.spec.tensor_scale == TensorScale::hold)
    return "gradients keep no tensor scale between steps (`hold`)";
  return "";
}

Wire wire_from_words(const std::string& words, int hadamard) {
  const Wire wire = {quant_spec_from_words(words, "--gradients"), hadamard};
  if (const std::string reason = invalid_reason(wire); !reason.empty()) throw Error("--gradients: " + reason);
  return wire;
}

GradientMean::GradientMean(const Wire& wire, Ranks& ranks, const Dispatcher& backend, const Kernels& kernels,
                           uint64_t seed)
    : wire_(wire), ranks_(ranks), backend_(backend), kernels_(kernels), seed_(seed) {}

RandomPlace GradientMean::place(int rank, int leg, uint32_t step) const {
  return {seed_of_rank(seed_, rank), wire_streams[leg], step};
}

void GradientMean::code(const float* x, int64_t rows, RandomPlace place, int threads) {
  if (is_plain(wire_.spec)) {
    coded_.rows = rows;
    coded_.codes.resize(static_cast<size_t>(rows * columns) * sizeof(float));
    std::memcpy(coded_.codes.data(), x, coded_.codes.size());
    return;
  }
  QuantizeCall call;
  call.x = view_of(x, rows, columns);
  call.spec = wire_.spec;
  call.hadamard = {wire_.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
  call.place = place;  // of the sender: receivers turn back by its signs
  call.threads = threads;
  backend_.quantize(call, coded_);
}

int64_t GradientMean::message_bytes(int64_t rows) const {
  size_t bytes = 1;  // whether all were finite
  for_each_array(coded_, [&](const auto& all) { bytes += sizeof(all[0]) * share_of(all, coded_.rows, rows); });
  return static_cast<int64_t>(bytes);
}

// Rows `first` .. first + rows - 1 of what was coded.
uint8_t* GradientMean::pack(int64_t first, int64_t rows, bool finite, uint8_t* to) const {
  for_each_array(coded_, [&](const auto& all) {
    const size_t share = share_of(all, coded_.rows, rows);
    if (share == 0) return;
    const size_t begin = all.size() == 1 ? 0 : share_of(all, coded_.rows, first);
    std::memcpy(to, all.data() + begin, sizeof(all[0]) * share);
    to += sizeof(all[0]) * share;
  });
  *to++ = finite ? 1 : 0;
  return to;
}

// Into x [rows, 1024]; false: the sender's were not all finite.
bool GradientMean::unpack(const uint8_t* from, int64_t rows, RandomPlace place, int threads, float* x) {
  part_.spec = coded_.spec;
  part_.rows = rows, part_.cols = columns;
  part_.codes.resize(share_of(coded_.codes, coded_.rows, rows));
  part_.scales.resize(share_of(coded_.scales, coded_.rows, rows));
  part_.real_scales.resize(share_of(coded_.real_scales, coded_.rows, rows));
  part_.tensor_scale.resize(share_of(coded_.tensor_scale, coded_.rows, rows));
  for_each_array(part_, [&](auto& all) {
    if (all.empty()) return;
    std::memcpy(all.data(), from, sizeof(all[0]) * all.size());
    from += sizeof(all[0]) * all.size();
  });
  if (is_plain(wire_.spec)) {
    std::memcpy(x, part_.codes.data(), part_.codes.size());
  } else {
    part_.geometry = geometry_of(part_.spec, rows, columns);
    backend_.dequantize(part_, x, threads);
    if (wire_.hadamard > 0) {
      std::vector<float> turned(x, x + rows * columns);
      const HadamardSpec h = {wire_.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
      backend_.hadamard(view_of(turned.data(), rows, columns), h, place.hadamard_signs(), true, x, threads);
    }
  }
  return *from == 1;
}

void GradientMean::operator()(float* gradients, int64_t total, uint32_t step, int threads) {
  const int count = ranks_.count(), mine = ranks_.rank();
  if (count == 1) return;
  const int64_t rows = (total + columns * count - 1) / (columns * count), size = rows * columns;
  padded_.assign(static_cast<size_t>(size * count), 0.0f);
  std::memcpy(padded_.data(), gradients, sizeof(float) * static_cast<size_t>(total));
  const bool finite = kernels_.all_finite(gradients, total);
  code(padded_.data(), rows * count, place(mine, 0, step), threads);
  int64_t bytes = message_bytes(rows);
  out_.resize(static_cast<size_t>(bytes * count));
  in_.resize(out_.size());
  uint8_t* to = out_.data();
  for (int i = 0; i < count; ++i) to = pack(i * rows, rows, finite, to);
  ranks_.exchange(out_.data(), in_.data(), bytes);
  sent_ += bytes * (count - 1);

  bool all_finite = true;
  sum_.resize(static_cast<size_t>(size));
  decoded_.resize(static_cast<size_t>(size));
  for (int i = 0; i < count; ++i) {
    float* x = i == 0 ? sum_.data() : decoded_.data();
    all_finite &= unpack(in_.data() + i * bytes, rows, place(i, 0, step), threads, x);
    if (i > 0) kernels_.add(sum_.data(), x, size);
  }
  kernels_.scale(sum_.data(), sum_.data(), 1.0f / static_cast<float>(count), size);

  code(sum_.data(), rows, place(mine, 1, step), threads);
  bytes = message_bytes(rows);
  out_.resize(static_cast<size_t>(bytes));
  in_.resize(static_cast<size_t>(bytes * count));
  pack(0, rows, all_finite, out_.data());
  ranks_.gather(out_.data(), in_.data(), bytes);
  sent_ += bytes * (count - 1);
  for (int i = 0; i < count; ++i)
    all_finite &= unpack(in_.data() + i * bytes, rows, place(i, 1, step), threads, padded_.data() + i * size);
  std::memcpy(gradients, padded_.data(), sizeof(float) * static_cast<size_t>(total));
  if (!all_finite) gradients[0] = std::numeric_limits<float>::quiet_NaN();
}

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
