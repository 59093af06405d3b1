// MXFP4 as NVFP4 without loss (NVIDIA Model-Optimizer, --cast_mxfp4_to_nvfp4): the same codes under a factor g = 2^m,
// and the scale 2^k of 32 elements as two E4M3 scales 2^(k - m), which E4M3 has from 2^-9 to 2^8. With m = k_max - 8
// that is every block whose k is at most 17 below the largest; codes of smaller ones are rounded under 2^-9.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "src/model/decode.h"
#include "src/model/model_plan.h"
#include "src/model/weight_reader.h"

namespace fp4 {
namespace {

constexpr int bias = 127, lowest = -9, highest = 8;  // of E8M0; of E4M3's powers of two
constexpr int nvfp4_block = 16, mxfp4_block = 32, block_bytes = mxfp4_block / 2;
constexpr std::uint8_t nan_e8m0 = 255, nan_e4m3 = 0x7f;

// The code of v * 2^-shift, to nearest, ties to the even code.
std::uint32_t rounded(std::uint32_t code, int shift) {
  const FloatFormat& e2m1 = format_of(Element::e2m1);
  Magnitude m = e2m1.value(code & 7);
  m.exponent -= shift;
  return encode(e2m1, m, false, {}) | (code & 8);
}

bool is_zero(const std::uint8_t* codes) {
  return std::all_of(codes, codes + block_bytes, [](std::uint8_t byte) { return (byte & 0x77) == 0; });
}

// How many blocks of a weight have the scale 2^k, of those with a code other than 0.
struct ScaleCounts {
  std::map<int, std::uint64_t> blocks = {};  // by k

  void add(const ScaleCounts& other) {
    for (const auto& [k, count] : other.blocks) blocks[k] += count;
  }
  std::uint64_t all() const {
    std::uint64_t count = 0;
    for (const auto& [k, here] : blocks) count += here;
    return count;
  }
  // Under the factor 2^power.
  std::uint64_t out_of_range(int power) const {
    std::uint64_t count = all();
    for (int k = power + lowest; k <= power + highest; ++k)
      if (const auto at = blocks.find(k); at != blocks.end()) count -= at->second;
    return count;
  }
  // m, at least -126: 2^m is no subnormal.
  int power() const { return blocks.empty() ? 0 : std::max(blocks.rbegin()->first - highest, -126); }
};

ScaleCounts count_scales(WeightReader& reader) {
  constexpr std::int64_t band_bytes = std::int64_t{1} << 20;
  std::array<std::uint64_t, 256> blocks = {};
  const std::int64_t band = std::max<std::int64_t>(1, band_bytes / std::max<std::int64_t>(reader.cols(), 1));
  for (std::int64_t first = 0; first < reader.rows(); first += band) {
    const Quantized& q = reader.read_quantized(first, std::min(band, reader.rows() - first));
    for (std::size_t i = 0; i < q.scales.size(); ++i)
      if (q.scales[i] != nan_e8m0 && !is_zero(q.codes.data() + i * block_bytes)) ++blocks[q.scales[i]];
  }
  ScaleCounts counts;
  for (int code = 0; code < nan_e8m0; ++code)
    if (blocks[static_cast<std::size_t>(code)] > 0) counts.blocks[code - bias] = blocks[static_cast<std::size_t>(code)];
  return counts;
}

// The NMSE that rounding under 2^power costs.
double loss_of(WeightReader& reader, int power) {
  double error = 0, squares = 0;
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    const Quantized& q = reader.read_quantized(row, 1);
    std::vector<std::uint8_t> scales = q.scales, codes = q.codes;
    to_exact_nvfp4(power, scales, codes);
    for (std::size_t i = 0; i < 2 * codes.size(); ++i) {
      const auto value = [&](std::uint8_t byte) {
        return decode(format_of(Element::e2m1), byte >> (i % 2 == 0 ? 0 : 4) & 7);
      };
      const int own = q.scales[i / mxfp4_block] - bias;
      if (own == nan_e8m0 - bias) continue;
      const double before = std::ldexp(static_cast<double>(value(q.codes[i / 2])), own);
      squares += before * before;
      if (own - power >= lowest) continue;
      const double lost = before - std::ldexp(static_cast<double>(value(codes[i / 2])), power + lowest);
      error += lost * lost;
    }
  }
  return squares > 0 ? error / squares : 0;
}

bool is_mxfp4(const ModelTensor& t) {
  return t.scheme != nullptr && t.scheme->block == mxfp4_block && !t.is_transposed && !t.is_turned && !t.columns;
}

}  // namespace

void to_exact_nvfp4(int power, std::vector<std::uint8_t>& scales, std::vector<std::uint8_t>& codes) {
  std::vector<std::uint8_t> out(2 * scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const int own = scales[i] - bias - power;
    const std::uint32_t scale =
        encode(format_of(Scale::ue4m3), {1, std::clamp(own, lowest, highest), false}, false, {});
    out[2 * i] = out[2 * i + 1] = scales[i] == nan_e8m0 ? nan_e4m3 : static_cast<std::uint8_t>(scale);
    if (scales[i] == nan_e8m0 || own >= lowest) continue;
    std::uint8_t* block = codes.data() + i * block_bytes;
    for (int b = 0; b < block_bytes; ++b)
      block[b] =
          static_cast<std::uint8_t>(rounded(block[b] & 15u, lowest - own) | rounded(block[b] >> 4u, lowest - own) << 4);
  }
  scales = std::move(out);
}

void carry_exactly(ModelPlan& model) {
  const ModelJob& job = model.job;
  if (job.scheme == nullptr || job.scheme->block != nvfp4_block || !job.words.empty()) return;
  std::map<std::size_t, ScaleCounts> own;  // of weights, by their place
  std::map<int, ScaleCounts> shared;       // of groups
  std::set<int> mixed;                     // groups with a weight that is no MXFP4
  for (std::size_t i = 0; i < model.plans.size(); ++i)
    if (model.plans[i].way == Way::quantise && !is_mxfp4(model.tensors[i])) mixed.insert(model.plans[i].group);
  for (std::size_t i = 0; i < model.plans.size(); ++i) {
    const int group = model.plans[i].group;
    if (model.plans[i].way != Way::quantise || !is_mxfp4(model.tensors[i]) || (group >= 0 && mixed.contains(group)))
      continue;
    WeightReader reader(model.tensors[i]);
    own[i] = count_scales(reader);
    shared[group].add(own[i]);
  }
  std::size_t exact = 0;
  for (const auto& [i, counts] : own) {
    ModelTensor& t = model.tensors[i];
    TensorPlan& plan = model.plans[i];
    const int power = !plan.has_factor ? 0 : (plan.group < 0 ? counts : shared[plan.group]).power();
    const std::uint64_t rounded_blocks = counts.out_of_range(power);
    if (rounded_blocks > 0 && !plan.has_factor) continue;
    WeightReader reader(t);
    if (rounded_blocks > 0)
      model.notes.push_back(fmt::format(
          "{}: {} of {} blocks lie more than 17 binades below the largest scale and are rounded, the others are as "
          "they were: NMSE {:.2g}",
          t.name, rounded_blocks, counts.all(), loss_of(reader, power)));
    exact += rounded_blocks == 0 ? 1 : 0;
    t.exact_power = power;
    t.scheme = &checkpoint_schemes[0];  // modelopt_nvfp4: a factor that multiplies
    plan.way = Way::carry;
    plan.infos.clear();
    plan.types.clear();
    set_parts(job, model.spec, plan);
  }
  if (exact > 0)
    model.notes.push_back(fmt::format(
        "{} MXFP4 weights become {} without loss: the same codes, scales and factors that are powers of two", exact,
        job.scheme->name));
}

}  // namespace fp4
