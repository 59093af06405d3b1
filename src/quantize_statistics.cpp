// One pass over elements and decoded values, eight columns at a time.
#include "src/quantize_statistics.h"

#include <algorithm>
#include <cstring>

#include "src/parallel.h"

namespace fp4 {
namespace {

constexpr int lanes = 8;
using Floats = float __attribute__((vector_size(4 * lanes)));
using Ints = int32_t __attribute__((vector_size(4 * lanes)));
using Doubles = double __attribute__((vector_size(8 * lanes)));

struct StatisticsRow {
  const float* x;
  const float* y;
  const uint8_t* packed;  // FP4 codes, two a byte; nullptr: codes one by one
  const uint32_t* codes;
  int64_t cols;
  int32_t mask, largest;  // of the magnitude of a code
};

// Values of one step: the columns from k on, zeros past the end.
template <class Vector>
inline __attribute__((always_inline)) void load(Vector& to, const void* from, int count) {
  if (count == lanes) {
    std::memcpy(&to, from, sizeof to);
    return;
  }
  to = Vector{};
  std::memcpy(&to, from, static_cast<size_t>(count) * 4);
}

inline __attribute__((always_inline)) RowStatistics summed(const StatisticsRow& r) {
  constexpr int32_t infinity = 0x7f800000, magnitude = 0x7fffffff;
  const Ints shifts = {0, 4, 8, 12, 16, 20, 24, 28};
  Doubles errors = {}, squares = {}, largest = {};
  Ints clipped = {}, zeros = {}, underflows = {}, finite = {};
  for (int64_t k = 0; k < r.cols; k += lanes) {
    const int count = static_cast<int>(std::min<int64_t>(lanes, r.cols - k));
    Ints xbits, ybits, code;
    load(xbits, r.x + k, count);
    load(ybits, r.y + k, count);
    if (r.packed != nullptr) {
      uint32_t word = 0;
      std::memcpy(&word, r.packed + k / 2, static_cast<size_t>((count + 1) / 2));
      code = (Ints{} + static_cast<int32_t>(word)) >> shifts & r.mask;
    } else {
      load(code, r.codes + k, count);
      code = code & r.mask;
    }
    const Ints xm = xbits & magnitude, ym = ybits & magnitude;
    const Ints is_finite = (xm < infinity) & (ym < infinity);
    const Ints xfinite = xbits & is_finite, yfinite = ybits & is_finite;
    Floats xv, yv;
    std::memcpy(&xv, &xfinite, sizeof xv);
    std::memcpy(&yv, &yfinite, sizeof yv);
    const Doubles xd = __builtin_convertvector(xv, Doubles), yd = __builtin_convertvector(yv, Doubles);
    const Doubles error = xd - yd;
    errors += error * error;
    squares += xd * xd;
    const Doubles distance = error < 0 ? -error : error;
    largest = distance > largest ? distance : largest;
    const Ints is_zero = (ym == 0) & is_finite;
    finite -= is_finite;
    zeros -= is_zero;
    underflows -= is_zero & (xm != 0);
    clipped -= is_finite & (ym != 0) & (xm > ym) & (code == r.largest);
  }
  RowStatistics sums;
  for (int lane = 0; lane < lanes; ++lane) {
    sums.error_squares += errors[lane];
    sums.squares += squares[lane];
    sums.largest_error = std::max(sums.largest_error, static_cast<double>(largest[lane]));
    sums.clipped += clipped[lane];
    sums.zeros += zeros[lane];
    sums.underflows += underflows[lane];
    sums.nonfinite -= finite[lane];
  }
  const int64_t padding = (r.cols + lanes - 1) / lanes * lanes - r.cols;  // finite, and zero on both sides
  sums.nonfinite += r.cols + padding;
  sums.zeros -= padding;
  return sums;
}

RowStatistics summed_plain(const StatisticsRow& r) { return summed(r); }

// The same operations with wider registers: no fused multiply-add, so the same bits.
using Summed = RowStatistics (*)(const StatisticsRow&);
#if defined(__x86_64__)
__attribute__((target("avx2"))) RowStatistics summed_avx2(const StatisticsRow& r) { return summed(r); }
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) RowStatistics summed_avx512(const StatisticsRow& r) {
  return summed(r);
}
Summed widest() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return summed_avx512;
  return __builtin_cpu_supports("avx2") ? summed_avx2 : summed_plain;
}
#else
Summed widest() { return summed_plain; }
#endif
const Summed sum_row = widest();

}  // namespace

void QuantizeReport::add(const QuantizeReport& other) {
  if (cols == 0 || rows == 0) cols = 1;  // elements count from here on: share() is of rows * cols
  rows = rows * cols + other.rows * other.cols;
  cols = 1;
  error_squares += other.error_squares;
  squares += other.squares;
  clipped += other.clipped;
  zeros += other.zeros;
  underflows += other.underflows;
  nonfinite += other.nonfinite;
  largest_error = std::max(largest_error, other.largest_error);
  bytes += other.bytes;
}

std::vector<RowStatistics> row_statistics(const Quantized& q, const MatrixView& x, const float* y, int threads) {
  std::vector<RowStatistics> sums(static_cast<size_t>(q.rows));
  const FloatFormat& format = format_of(q.spec.element);
  parallel_for(0, q.rows, 1, threads, 64, [&](int64_t r) {
    std::vector<float> row;
    std::vector<uint32_t> codes;
    StatisticsRow given = {x.data + r * x.row_stride, y + r * q.cols, nullptr, nullptr, q.cols, 0, 0};
    given.mask = static_cast<int32_t>(format.magnitude_mask());
    given.largest = static_cast<int32_t>(format.largest_code);
    if (x.col_stride != 1) {
      for (int64_t k = 0; k < q.cols; ++k) row.push_back(x.at(r, k));
      given.x = row.data();
    }
    if (q.is_packed()) {
      given.packed = q.codes.data() + r * q.code_row_bytes();
    } else {
      codes.resize(static_cast<size_t>(q.cols));
      for (int64_t k = 0; k < q.cols; ++k) codes[static_cast<size_t>(k)] = q.code(r, k);
      given.codes = codes.data();
    }
    sums[static_cast<size_t>(r)] = sum_row(given);
  });
  return sums;
}

void add_rows(QuantizeReport& report, const std::vector<RowStatistics>& rows) {
  for (const RowStatistics& sum : rows) {
    report.error_squares += sum.error_squares;
    report.squares += sum.squares;
    report.clipped += sum.clipped;
    report.zeros += sum.zeros;
    report.underflows += sum.underflows;
    report.nonfinite += sum.nonfinite;
    report.largest_error = std::max(report.largest_error, sum.largest_error);
  }
}

void add_statistics(QuantizeReport& report, const Quantized& q, const MatrixView& x, const float* y, int threads) {
  add_rows(report, row_statistics(q, x, y, threads));
}

float finite_amax(const float* x, int64_t count) {
  // Signed words: the largest of them is one instruction in every instruction set.
  int32_t parts[16] = {};
  const auto take = [&](int64_t i, int part) {
    int32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffff;
    const int32_t kept = bits < 0x7f800000 ? bits : 0;
    parts[part] = kept > parts[part] ? kept : parts[part];
  };
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int part = 0; part < 16; ++part) take(i + part, part);
  for (; i < count; ++i) take(i, 0);
  return float_of(static_cast<uint32_t>(*std::max_element(parts, parts + 16)));
}

bool has_nan(const float* x, int64_t count) {
  return std::any_of(x, x + count, [](float v) { return is_nan(v); });
}

float tensor_amax(const QuantSpec& spec, const float* x, int64_t count) {
  const bool poisoned = spec.nonfinite == Nonfinite::tensor_nan && has_nan(x, count);
  return poisoned ? float_of(canonical_nan_bits) : finite_amax(x, count);
}

float joined_amax(float a, float b) { return is_nan(a) || is_nan(b) ? float_of(canonical_nan_bits) : larger(a, b); }

}  // namespace fp4
