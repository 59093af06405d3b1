// See low_bit_states.h.
#include "sim/train/low_bit_states.h"

#include <algorithm>
#include <cmath>

#include "fp4/arithmetic.h"
#include "fp4/rng.h"

namespace fp4::sim {

namespace {

constexpr int64_t block_of(Moments how) { return how == Moments::dynamic8 ? 256 : 128; }
constexpr float smallest_amax = 1e-12f;
constexpr double powers_of_ten[] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
// No layer has this number (quantized_linear.h: fewer than 2^25 layers and parts).
constexpr uint32_t weights_stream = stream_number((1u << 25) - 1, 0, 0, Purpose::weights);

std::vector<float> map_of(Moments how, bool is_second) {
  if (how == Moments::dynamic8) return dynamic_map(!is_second, 8);
  if (!is_second) return dynamic_map(true, 4);
  std::vector<float> linear;
  for (int k = 1; k <= 16; ++k) linear.push_back(static_cast<float>(k) / 16.0f);
  return linear;
}

}  // namespace

std::vector<float> dynamic_map(bool has_sign, int bits) {
  std::vector<float> map = {0, 1};
  const int decades = bits - 1;
  for (int i = 0; i < decades; ++i) {
    const int parts = 1 << (has_sign ? i : i + 1);
    for (int k = 0; k < parts; ++k) {
      const double middle = 0.1 + 0.9 * (k + 0.5) / parts;
      const auto value = static_cast<float>(powers_of_ten[decades - 1 - i] * middle);
      map.push_back(value);
      if (has_sign) map.push_back(-value);
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

float nearest_of(const std::vector<float>& map, float x) {
  const auto above = std::upper_bound(map.begin(), map.end(), x);
  if (above == map.begin()) return map.front();
  if (above == map.end()) return map.back();
  const float low = *(above - 1), high = *above;
  return x - low >= (high - low) * 0.5f ? high : low;
}

void store_moment(Moments how, bool is_second, float* moment, int64_t n) {
  if (how == Moments::fp32 || n < smallest_low_bit_tensor) return;
  static const std::vector<float> maps[2][2] = {{map_of(Moments::dynamic8, false), map_of(Moments::dynamic8, true)},
                                                {map_of(Moments::dynamic4, false), map_of(Moments::dynamic4, true)}};
  const std::vector<float>& map = maps[how == Moments::dynamic4][is_second];
  for (int64_t begin = 0; begin < n; begin += block_of(how)) {
    const int64_t end = std::min(n, begin + block_of(how));
    float amax = smallest_amax;
    for (int64_t i = begin; i < end; ++i) amax = std::max(amax, std::fabs(moment[i]));
    for (int64_t i = begin; i < end; ++i) moment[i] = nearest_of(map, moment[i] / amax) * amax;
  }
}

double moment_bytes(Moments how) {
  if (how == Moments::fp32) return 4;
  return (how == Moments::dynamic8 ? 1.0 : 0.5) + 4.0 / static_cast<double>(block_of(how));
}

void round_to_bf16(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = rounded_to_bf16(x[i]);
}

void store_weights(float* w, int64_t n, uint64_t seed, uint32_t step) {
  const RandomPlace place = {seed, weights_stream, step};
  PhiloxBlock block = {};
  for (int64_t i = 0; i < n; ++i) {
    if (i % 8 == 0) block = random_block(place, static_cast<uint64_t>(i / 8));
    const uint32_t draw = (block.word[i % 8 / 2] >> (16 * (i % 2))) & 0xFFFFu;
    if (is_finite(w[i])) w[i] = float_of((bits_of(w[i]) + draw) & 0xFFFF0000u);
  }
}

}  // namespace fp4::sim
