#include "src/listed/listed_products.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "fp4/gemm.h"
#include "src/threads/parallel.h"
#if defined(__x86_64__)
#include "src/cpu/simd/intrinsics.h"
#endif

namespace fp4 {
namespace listed_products {
namespace {

constexpr int tile_rows = 8;

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
  std::vector<float> narrow;         // in place of `value` where fp32 loses nothing
  std::vector<float> scale, factor;  // of blocks; of rows: g, or NaN where a scale is
  int least_log2, largest_log2;      // of scales above 0

  size_t at(int64_t row, int64_t of_row, int64_t i) const {
    return static_cast<size_t>((row / width * of_row + i) * width + row % width);
  }

  // `room`: bits of lists whose products with the other side's are exact; `unit`: slack under a scale of 1.
  void fill(const Quantized& q, const Grids& grids, int64_t side_by_side, int64_t run, int room, double unit,
            bool is_narrow) {
    width = side_by_side, cols = q.cols, runs = (q.cols + run - 1) / run, least_log2 = 1000, largest_log2 = -1000;
    const int64_t rows = (q.rows + width - 1) / width * width;
    value.resize(static_cast<size_t>(is_narrow ? 0 : rows * cols));
    narrow.resize(static_cast<size_t>(is_narrow ? rows * cols : 0));
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
        const int64_t first = block * run, end = smaller(cols, first + run);
        const double* table = grids.value[which].data();
        if (is_narrow) decode_block(q, r, first, end, table, narrow.data() + at(to, cols, 0));
        if (!is_narrow) decode_block(q, r, first, end, table, value.data() + at(to, cols, 0));
      }
    }
  }

 private:
  template <class Number>
  void decode_block(const Quantized& q, int64_t r, int64_t first, int64_t end, const double* table, Number* out) const {
    const uint8_t* row = q.codes.data() + r * q.code_row_bytes();
    const int bytes = q.is_packed() ? 0 : q.code_bytes();
    for (int64_t k = first; k < end; ++k) {
      const uint32_t code = bytes == 0   ? row[k / 2] >> 4 * (k % 2) & 0xFu
                            : bytes == 1 ? row[k]
                                         : row[2 * k] | static_cast<uint32_t>(row[2 * k + 1]) << 8;
      out[k * width] = static_cast<Number>(table[code]);
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
    dot += static_cast<int128>(static_cast<int64_t>(x[k] * p.steps_a)) *
           static_cast<int64_t>(y[k * p.b.width] * p.steps_b);
  return dot;
}

#define LANES 4
#define FP4_SUMS
#define FP4_SUMS_PART  inline __attribute__((always_inline))
#define FUSED(x, y, z) ((x) * (y) + (z))
#define WIDENED(x)     __builtin_convertvector(x, Doubles)
namespace plain {
#include "src/listed/listed_products_body.h"
}  // namespace plain

#if defined(__x86_64__)
#define LANES          4
#define FP4_SUMS       __attribute__((target("avx2,fma")))
#define FP4_SUMS_PART  inline __attribute__((always_inline, target("avx2,fma")))
#define FUSED(x, y, z) _mm256_fmadd_pd(_mm256_set1_pd(x), y, z)
#define FUSED32        _mm256_fmadd_ps
#define SPREAD32       _mm256_set1_ps
#define WIDENED(x)     _mm256_cvtps_pd((__m128)(x))  // of __builtin_convertvector g++ 12 makes two halves
namespace avx2 {
#include "src/listed/listed_products_body.h"
}  // namespace avx2
#define LANES          8
#define FP4_SUMS       __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#define FP4_SUMS_PART  inline __attribute__((always_inline, target("avx512f,avx512vl,avx512dq,avx512bw")))
#define FUSED(x, y, z) _mm512_fmadd_pd(_mm512_set1_pd(x), y, z)
#define FUSED32        _mm512_fmadd_ps
#define SPREAD32       _mm512_set1_ps
#define WIDENED(x)     _mm512_cvtps_pd((__m256)(x))
namespace avx512 {
#include "src/listed/listed_products_body.h"
}  // namespace avx512
#endif

// Outputs of 8 rows and `width` columns.
struct Tile {
  static constexpr int most = 16;
  int width;
  void (*sums)(const Product& p, int64_t row, int64_t col, float* out);
};

Tile chosen(bool is_narrow) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return is_narrow ? Tile{16, avx512::narrow_sums} : Tile{8, avx512::sums};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return is_narrow ? Tile{8, avx2::narrow_sums} : Tile{4, avx2::sums};
#endif
  return {is_narrow ? 0 : 4, plain::sums};
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
  static const Tile usual = chosen(false), narrow = chosen(true);
  const Grids of_a(a.spec), of_b(b.spec);
  const int64_t run = smaller(run_of(a.spec, a.cols), run_of(b.spec, b.cols));
  const auto n = static_cast<double>(run);
  const bool is_long = has_long_scale(a.spec) || has_long_scale(b.spec);
  const int terms_log2 = floor_log2(static_cast<uint64_t>(run)), room = 52 - terms_log2 - (is_long ? 24 : 16);
  const bool is_narrow = narrow.width > 0 && !is_long && of_a.most_bits() + of_b.most_bits() + terms_log2 < 24;
  const Tile& tile = is_narrow ? narrow : usual;
  // Slightly more than the bound, for what its own products lose.
  const double unit = of_a.largest * of_b.largest * (n * n + n) * 0x1.01p-53;
  thread_local Side left, right;
  left.fill(a, of_a, 1, run, room - of_b.most_bits(), unit, is_narrow);
  right.fill(b, of_b, tile.width, run, room - of_a.most_bits(), 1.0, is_narrow);
  if (left.least_log2 + right.least_log2 < -126 || left.largest_log2 + right.largest_log2 > 125) return false;
  const Side &side_a = left, &side_b = right;  // of this thread, for all
  const Product p = {side_a,
                     side_b,
                     a.rows,
                     run,
                     of_a.quantum_log2 + of_b.quantum_log2,
                     std::ldexp(1.0, -of_a.quantum_log2),
                     std::ldexp(1.0, -of_b.quantum_log2)};
  const GemmFinish finish = {.prescale_product = a.spec.prescale * b.spec.prescale,
                             .hadamard_divisor = options.hadamard_divisor};
  parallel_for(0, a.rows, tile_rows, options.threads, 1, [&](int64_t row) {
    for (int64_t col = 0; col < b.rows; col += tile.width) {
      float out[tile_rows * Tile::most];
      tile.sums(p, row, col, out);
      for (int64_t i = row; i < smaller(row + tile_rows, a.rows); ++i)
        for (int64_t j = col; j < smaller<int64_t>(col + tile.width, b.rows); ++j) {
          const float factor = finish.factor(p.a.factor[static_cast<size_t>(i)] * p.b.factor[static_cast<size_t>(j)]);
          c[i * c_stride + j] = canonical(out[(i - row) * tile.width + j - col] * factor);
        }
    }
  });
  return true;
}

}  // namespace fp4
