// What a device must show before its own conversions and floating-point units are used.
#include <algorithm>
#include <random>

#include "fp4/presets.h"
#include "src/gpu/pipeline.h"

namespace fp4::gpu {
namespace {

constexpr int64_t probe_rows = 128;
constexpr int64_t probe_k = 512;

// A third of the rows has random codes, a third positive ones, and a third the largest code with the smallest beside it
// once in 16, so that sums grow to the limit while their last bit counts. Scales are random about 1; the first row has
// one of every kind.
Quantized probe_operand(const QuantSpec& spec, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](uint32_t count) { return static_cast<uint32_t>(random()) % count; };
  Quantized q = {.spec = spec, .rows = probe_rows, .cols = probe_k, .geometry = geometry_of(spec, probe_rows, probe_k)};
  q.codes.assign(static_cast<size_t>(probe_rows * q.code_row_bytes()), 0);
  q.tensor_scale = {1.0f};
  const FloatFormat& element = format_of(spec.element);
  const FloatFormat& scale = format_of(spec.scale);
  const uint32_t one = code_of_one(scale);
  for (int64_t row = 0; row < probe_rows; ++row) {
    for (int64_t k = 0; k < probe_k; ++k) {
      const uint32_t largest = k % 16 == 5 ? 1u : element.largest_code;
      q.set_code(row, k, row % 3 == 2 ? largest : pick(row % 3 == 0 ? 2 * element.sign_code() : element.sign_code()));
    }
    for (int64_t j = 0; j < probe_k / spec.block.size; ++j) {
      const uint32_t near = smaller(scale.largest_code, one + pick(16));
      q.scales.push_back(static_cast<uint8_t>(row == 0 ? pick(scale.largest_code + 1) : near));
    }
  }
  return q;
}

}  // namespace

bool probe_matrix_unit(Pool& pool, MatrixKind kind) {
  if (kind == MatrixKind::none) return false;
  // Products of up to 18 bits from blocks of 32 in two instructions, and blocks of 16 under scales with mantissas.
  QuantSpec wide = mxfp4_spec;
  wide.element = Element::e3m2;
  QuantSpec fine = nvfp4_spec;
  fine.scale = Scale::ue2m5;
  for (const QuantSpec& spec : {mxfp4_spec, nvfp4_spec, wide, fine}) {
    const Resident a = upload(pool, probe_operand(spec, 1));
    const Resident b = upload(pool, probe_operand(spec, 2));
    Buffer<float> got(pool, probe_rows * probe_rows);
    Buffer<float> expected(pool, probe_rows * probe_rows);
    gemm_on_unit(pool, a, b, kind, got.data());
    gemm_on_unit(pool, a, b, MatrixKind::none, expected.data());
    if (compare_bits(pool, got.data(), expected.data(), got.count()).count != 0) return false;
  }
  return true;
}

bool probe_native(Pool& pool) {
  Buffer<uint32_t> result(pool, ProbeNative::groups);
  launch(pool.device(), ProbeNative{result.data()}, ProbeNative::groups);
  std::vector<uint32_t> host(ProbeNative::groups);
  result.download(host.data());
  return std::all_of(host.begin(), host.end(), [](uint32_t count) { return count == 0; });
}

Difference compare_bits(Pool& pool, const void* a, const void* b, int64_t words) {
  const int64_t groups = std::clamp<int64_t>(groups_for(words), 1, 1024);
  Buffer<Difference> found(pool, groups);
  launch(pool.device(),
         CompareBits{static_cast<const uint32_t*>(a), static_cast<const uint32_t*>(b), words, groups, found.data()},
         groups);
  std::vector<Difference> results(static_cast<size_t>(groups));
  found.download(results.data());
  Difference all;
  for (const Difference& d : results) {
    all.count += d.count;
    if (all.first < 0) all.first = d.first;
  }
  return all;
}

}  // namespace fp4::gpu
