// What a device must show before its own conversions and floating-point units are used.
#include <algorithm>
#include <random>

#include "src/gpu/pipeline.h"

namespace fp4::gpu {
namespace {

constexpr int64_t probe_rows = 128;
constexpr int64_t probe_k = 512;

// Random e2m1 codes and block exponents, and the same as whole numbers. A row has one tall block, near the begin, the
// middle or the end of K, so that small terms meet large ones inside an instruction and in the running sum, in both
// orders; in half the rows all elements are positive, so that sums grow to the limit.
struct ProbeOperand {
  Quantized q;
  std::vector<int64_t> values;  // [probe_rows, probe_k]
};

ProbeOperand probe_operand(uint32_t seed, uint8_t lowest, int block) {
  std::mt19937 random(seed);
  const auto pick = [&random](uint32_t count) { return static_cast<uint32_t>(random()) % count; };
  ProbeOperand p;
  p.q.spec.element = Element::e2m1;
  p.q.spec.block.size = block;
  const int64_t runs = probe_k / block;
  p.q.rows = probe_rows;
  p.q.cols = probe_k;
  p.q.geometry = geometry_of(p.q.spec, probe_rows, probe_k);
  p.q.codes.assign(static_cast<size_t>(probe_rows * p.q.code_row_bytes()), 0);
  p.q.scales.assign(static_cast<size_t>(probe_rows * runs), lowest);
  p.q.tensor_scale = {1.0f};
  p.values.assign(static_cast<size_t>(probe_rows * probe_k), 0);
  const FloatFormat& e2m1 = format_of(Element::e2m1);
  for (int64_t row = 0; row < probe_rows; ++row) {
    const uint32_t zeros_of_16 = 4 * pick(3);  // sparse rows let few large products stand alone
    const int64_t tall_run = 1 + (runs / 2 - 1) * (row % 3);
    const auto height = static_cast<uint8_t>(5 + pick(4));
    const uint32_t codes = row % 2 == 0 ? 8 : 16;
    p.q.scales[static_cast<size_t>(row * runs + tall_run)] = static_cast<uint8_t>(lowest + height);
    for (int64_t k = 0; k < probe_k; ++k) {
      const uint8_t scale = p.q.scales[static_cast<size_t>(row * runs + k / block)];
      const uint32_t code = k == 0 ? 1u : (pick(16) < zeros_of_16 ? 0u : pick(codes));  // the quantum occurs
      p.q.set_code(row, k, code);
      p.values[static_cast<size_t>(row * probe_k + k)] = decode_fixed(e2m1, code) * (int64_t{1} << (scale - lowest));
    }
  }
  return p;
}

}  // namespace

bool probe_matrix_unit(Pool& pool, MatrixKind kind, ExactUnit exact) {
  if (kind == MatrixKind::none) return false;
  if (kind == MatrixKind::nvidia && exact == ExactUnit::scaled) return false;  // no kernel
  constexpr int64_t limit = int64_t{1} << 24;
  int telling = 0;
  for (uint32_t round = 0; round < 2; ++round) {
    // The integer units multiply halves apart for blocks of 16.
    const int block = exact == ExactUnit::none && round == 1 ? 16 : 32;
    // Exponents that sum up to 256: a quantum of one.
    const ProbeOperand a = probe_operand(2 * round + 1, 120, block);
    const ProbeOperand b = probe_operand(2 * round + 2, 136, block);
    Buffer<float> c(pool, probe_rows * probe_rows);
    gemm_on_unit(pool, upload(pool, a.q), upload(pool, b.q), kind, exact, c.data());
    std::vector<float> got(static_cast<size_t>(c.count()));
    c.download(got.data());
    for (int64_t i = 0; i < c.count(); ++i) {
      const int64_t* row = a.values.data() + i / probe_rows * probe_k;
      const int64_t* col = b.values.data() + i % probe_rows * probe_k;
      int64_t sum = 0;
      int64_t size = 0;
      for (int64_t k = 0; k < probe_k; ++k) {
        const int64_t product = row[k] * col[k];
        sum += product;
        size += product < 0 ? -product : product;
      }
      if (size >= limit) continue;  // may round
      if (got[static_cast<size_t>(i)] != static_cast<float>(sum)) return false;
      if (size > limit / 2 && sum % 2 != 0) ++telling;
    }
  }
  return telling >= 100;
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
