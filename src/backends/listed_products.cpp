#include "src/backends/listed_products.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "fp4/gemm.h"
#include "src/threads/parallel.h"

namespace fp4 {
namespace listed_products {
namespace {

constexpr int lanes = 8, tile_rows = 8;
typedef double Doubles __attribute__((vector_size(8 * lanes)));
typedef float Floats __attribute__((vector_size(4 * lanes)));
typedef int64_t Longs __attribute__((vector_size(8 * lanes)));
typedef int32_t Ints __attribute__((vector_size(4 * lanes)));

// The one or two grids of an operand: whole numbers of steps by code.
struct Grids {
  Quantizer q;
  int quantum_log2;
  std::vector<double> value[2];
  int bits[2] = {};
  double largest = 0.0;

  explicit Grids(const QuantSpec& s) : q(resolve(s)) {
    const FloatFormat* of[] = {&q.element, q.has_choice() ? q.other : &q.element};
    quantum_log2 = smaller(of[0]->quantum_log2(), of[1]->quantum_log2());
    for (const int i : {0, 1})
      for (uint32_t code = 0; code < 1u << of[i]->code_bits(); ++code) {
        const int64_t steps = decode_fixed(*of[i], code);
        value[i].push_back(std::ldexp(static_cast<double>(steps), of[i]->quantum_log2()));
        bits[i] = larger(bits[i], floor_log2(static_cast<uint64_t>(std::abs(steps)) | 1) + 1);
        largest = larger(largest, std::fabs(value[i].back()));
      }
  }
  int most_bits() const { return larger(bits[0], bits[1]); }
};

// Decoded rows, `width` of them side by side, the last row again where there are fewer: [rows / width][k][width]
// values, [rows / width][run][width] of the rest.
struct Side {
  int64_t width, cols, runs;
  std::vector<double> value, slack;  // the error of a block's dots is below the product of both sides' slack
  std::vector<float> scale, factor;  // of blocks; of rows: g, or NaN where a scale is
  int least_log2, largest_log2;      // of scales above 0

  size_t at(int64_t row, int64_t of_row, int64_t i) const {
    return static_cast<size_t>((row / width * of_row + i) * width + row % width);
  }

  // `room`: bits of lists whose products with the other side's are exact; `unit`: slack under a scale of 1.
  void fill(const Quantized& q, const Grids& grids, int64_t side_by_side, int64_t run, int room, double unit) {
    width = side_by_side, cols = q.cols, runs = (q.cols + run - 1) / run, least_log2 = 1000, largest_log2 = -1000;
    const int64_t rows = (q.rows + width - 1) / width * width;
    value.resize(static_cast<size_t>(rows * cols));
    scale.resize(static_cast<size_t>(rows * runs));
    slack.resize(scale.size());
    factor.clear();
    const float g = q.tensor_multiplier_at(0, 0);
    for (int64_t to = 0; to < rows; ++to) {
      const int64_t r = smaller(to, q.rows - 1);
      factor.push_back(q.tensor_scale.size() > 1 ? q.tensor_multiplier_at(r, 0) : g);
      for (int64_t block = 0; block < runs; ++block) {
        const auto index = static_cast<size_t>(q.scale_index(r, block * run));
        const float s = is_real(q.spec.scale) ? q.real_scales[index] : scale_value(grids.q, q.scales[index]);
        const int which = grids.q.has_choice() && is_negative(s) ? 1 : 0;
        const float size = is_nan(s) ? 0.0f : magnitude(s);
        if (is_nan(s)) factor.back() = s;
        if (size != 0.0f) {
          least_log2 = smaller(least_log2, exact_magnitude(size).log2_floor());
          largest_log2 = larger(largest_log2, exact_magnitude(size).log2_floor());
        }
        scale[at(to, runs, block)] = size;
        slack[at(to, runs, block)] = grids.bits[which] > room ? static_cast<double>(size) * unit : 0.0;
        decode_block(q, r, block * run, smaller(cols, (block + 1) * run), grids.value[which].data(),
                     value.data() + at(to, cols, 0));
      }
    }
  }

 private:
  void decode_block(const Quantized& q, int64_t r, int64_t first, int64_t end, const double* table, double* out) const {
    const uint8_t* row = q.codes.data() + r * q.code_row_bytes();
    const int bytes = q.is_packed() ? 0 : q.code_bytes();
    for (int64_t k = first; k < end; ++k) {
      const uint32_t code = bytes == 0   ? row[k / 2] >> 4 * (k % 2) & 0xFu
                            : bytes == 1 ? row[k]
                                         : row[2 * k] | static_cast<uint32_t>(row[2 * k + 1]) << 8;
      out[k * width] = table[code];
    }
  }
};

struct Product {
  const Side &a, &b;
  int64_t rows, run;
  int quantum_log2;         // of products
  double steps_a, steps_b;  // of values of 1
};

// A block's dot by the core's integers.
int128 whole_dot(const Product& p, int64_t row, int64_t col, int64_t block) {
  const double *x = p.a.value.data() + p.a.at(row, p.a.cols, 0), *y = p.b.value.data() + p.b.at(col, p.b.cols, 0);
  int128 dot = 0;
  for (int64_t k = block * p.run; k < smaller(p.a.cols, (block + 1) * p.run); ++k)
    dot += static_cast<int128>(static_cast<int64_t>(x[k] * p.steps_a)) * static_cast<int64_t>(y[k * lanes] * p.steps_b);
  return dot;
}

// The sums of a block that its bound leaves open, by the core.
__attribute__((noinline)) void mend(const Product& p, const int64_t (&rows)[tile_rows], int64_t col, int64_t block,
                                    const Ints (&differ)[tile_rows], const Floats (&acc)[tile_rows],
                                    Floats (&out)[tile_rows]) {
  for (int r = 0; r < tile_rows; ++r)
    for (int i = 0; i < lanes; ++i) {
      if (differ[r][i] == 0) continue;
      const size_t of_a = p.a.at(rows[r], p.a.runs, block), of_b = p.b.at(col + i, p.b.runs, block);
      if (is_finite(acc[r][i]))
        out[r][i] = add_block(acc[r][i], whole_dot(p, rows[r], col + i, block), p.quantum_log2, p.a.scale[of_a],
                              p.b.scale[of_b], Rounding::nearest_even);
      else
        out[r][i] = acc[r][i];
    }
}

// acc + dot*scale to fp32, and where the ends of its bound differ. `is_patient`: sums that lose nothing have none.
template <bool is_patient>
inline __attribute__((always_inline)) void add(const Floats& acc, const Doubles& dot, const Floats& scale,
                                               const Doubles& slack, Floats& sum, Ints& differ) {
  const Doubles before = __builtin_convertvector(acc, Doubles), term = dot * __builtin_convertvector(scale, Doubles);
  const Doubles whole = before + term;
  Doubles off = (Doubles)((Longs)whole & INT64_MAX) * 0x1p-51;
  if (is_patient) {
    const Doubles back = whole - before, lost = (before - (whole - back)) + (term - back);
    off = ((lost == 0) & (slack == 0)) ? Doubles{} : off;  // a slack below half a unit of fp64 would vanish
  }
  sum = __builtin_convertvector(whole + (slack + off), Floats);
  differ = (Ints)sum ^ (Ints) __builtin_convertvector(whole - (slack + off), Floats);
}

inline __attribute__((always_inline)) bool is_any(const Ints& x) {
  int64_t word[lanes / 2];
  std::memcpy(word, &x, sizeof word);
  return (word[0] | word[1] | word[2] | word[3]) != 0;
}

// Rows of A from `row` on times those of B from `col` on; rows beyond A's repeat its last one.
inline __attribute__((always_inline)) void sums(const Product& p, int64_t row, int64_t col,
                                                float (&out)[tile_rows][lanes]) {
  const Side &a = p.a, &b = p.b;
  int64_t rows[tile_rows];
  const double *x[tile_rows], *y = b.value.data() + b.at(col, b.cols, 0), *slack_a[tile_rows];
  const float* scale_a[tile_rows];
  Floats acc[tile_rows] = {};
  for (int r = 0; r < tile_rows; ++r) {
    rows[r] = smaller(row + r, p.rows - 1);
    x[r] = a.value.data() + a.at(rows[r], a.cols, 0);
    slack_a[r] = a.slack.data() + a.at(rows[r], a.runs, 0), scale_a[r] = a.scale.data() + a.at(rows[r], a.runs, 0);
  }
  for (int64_t block = 0, k = 0; block < a.runs; ++block) {
    Doubles dot[tile_rows] = {}, slack;
    for (const int64_t end = smaller(a.cols, k + p.run); k < end; ++k) {
      Doubles column;
      std::memcpy(&column, y + k * lanes, sizeof column);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) dot[r] += x[r][k] * column;
    }
    Floats scale, next[tile_rows];
    std::memcpy(&scale, b.scale.data() + b.at(col, b.runs, block), sizeof scale);
    std::memcpy(&slack, b.slack.data() + b.at(col, b.runs, block), sizeof slack);
    Ints any = {}, differ;
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      add<false>(acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], differ);
      any |= differ;
    }
    if (is_any(any)) {
      Ints open[tile_rows];
      any = Ints{};
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        add<true>(acc[r], dot[r], scale_a[r][block] * scale, slack_a[r][block] * slack, next[r], open[r]);
        any |= open[r];
      }
      if (is_any(any)) {
        Floats before[tile_rows], after[tile_rows];
        std::memcpy(before, acc, sizeof acc), std::memcpy(after, next, sizeof next);
        mend(p, rows, col, block, open, before, after);
        std::memcpy(next, after, sizeof next);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) acc[r] = next[r];
  }
  std::memcpy(out, acc, sizeof acc);
}

#define FP4_LISTED_SUMS(NAME, ATTRIBUTE)                                                                  \
  ATTRIBUTE void sums_##NAME(const Product& p, int64_t row, int64_t col, float(&out)[tile_rows][lanes]) { \
    sums(p, row, col, out);                                                                               \
  }

FP4_LISTED_SUMS(plain, )
#if defined(__x86_64__)
FP4_LISTED_SUMS(avx2, __attribute__((target("avx2"))))
FP4_LISTED_SUMS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))))
#endif

auto chosen() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return sums_avx512;
  if (__builtin_cpu_supports("avx2")) return sums_avx2;
#endif
  return sums_plain;
}

int64_t run_of(const QuantSpec& s, int64_t cols) {
  const bool blocked = s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square;
  return blocked ? s.block.size : larger<int64_t>(cols, 1);
}

bool has_long_scale(const QuantSpec& s) { return s.scale == Scale::fp32 || s.scale_rule == ScaleRule::encode; }

}  // namespace
}  // namespace listed_products

bool multiplies_listed(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) {
  return a.has_scale() && b.has_scale() && options.accumulator == fp32_block && !a.has_outer_scale() &&
         !b.has_outer_scale();
}

bool multiply_listed(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c, int64_t c_stride) {
  using namespace listed_products;
  static const auto tile = chosen();
  const Grids of_a(a.spec), of_b(b.spec);
  const int64_t run = smaller(run_of(a.spec, a.cols), run_of(b.spec, b.cols));
  const auto n = static_cast<double>(run);
  const int room =
      52 - floor_log2(static_cast<uint64_t>(run)) - (has_long_scale(a.spec) || has_long_scale(b.spec) ? 24 : 16);
  // Slightly more than the bound, for what its own products lose.
  thread_local Side left, right;
  left.fill(a, of_a, 1, run, room - of_b.most_bits(), of_a.largest * of_b.largest * (n * n + n) * 0x1.01p-53);
  right.fill(b, of_b, lanes, run, room - of_a.most_bits(), 1.0);
  if (left.least_log2 + right.least_log2 < -126 || left.largest_log2 + right.largest_log2 > 125) return false;
  const Side &side_a = left, &side_b = right;  // of this thread, for all
  const Product p = {side_a,
                     side_b,
                     a.rows,
                     run,
                     of_a.quantum_log2 + of_b.quantum_log2,
                     std::ldexp(1.0, -of_a.quantum_log2),
                     std::ldexp(1.0, -of_b.quantum_log2)};
  GemmFinish finish;
  finish.prescale_product = a.spec.prescale * b.spec.prescale;
  finish.hadamard_divisor = options.hadamard_divisor;
  parallel_for(0, a.rows, tile_rows, options.threads, 1, [&](int64_t row) {
    for (int64_t col = 0; col < b.rows; col += lanes) {
      float out[tile_rows][lanes];
      tile(p, row, col, out);
      for (int64_t i = row; i < smaller(row + tile_rows, a.rows); ++i)
        for (int64_t j = col; j < smaller<int64_t>(col + lanes, b.rows); ++j) {
          const float factor = finish.factor(p.a.factor[static_cast<size_t>(i)] * p.b.factor[static_cast<size_t>(j)]);
          c[i * c_stride + j] = canonical(out[i - row][j - col] * factor);
        }
    }
  });
  return true;
}

}  // namespace fp4
