// Decides: the loops of the trainer, once per instruction set, always with the same bits; the choice is made at run
// time. What keeps the bits apart from the vector width: elementwise loops have no order, sums use 16 partial lanes
// (element i goes to lane i mod 16, ascending) and one fixed tree (8, 4, 2, 1), products use fma in ascending k per
// output (the accumulator `fma_sequential`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fp4/estimator.h"
#include "src/threads/scratch.h"

namespace fp4::sim {

struct AdamStep {
  float lr, beta1, beta2, eps, weight_decay;
  float correction1, correction2;  // 1 / (1 - beta^t)
  float gradient_scale;            // clipping and loss scaling; 1 leaves the gradient alone
};

/// How the payloads u of a row come about, block by block, and what their slopes Q'(u) are (fp4/estimator.h).
struct SlopeRule {
  enum class Payload : uint8_t { times, over, wide };
  Payload payload = Payload::wide;
  int block = 32;                 // elements that share a factor
  const float* factor = nullptr;  // times: u = fl32(x * factor) * prescale; over: u = fl32(x / factor) * prescale
  const double* ratio = nullptr;  // wide: u = fl32(x * ratio[2b] / ratio[2b + 1]), the product exact in fp64
  float prescale = 1.0f;
  EstimatorSpec estimator;
  float largest = 6.0f;    // M
  int least_exponent = 0;  // of the element's normal values
  int mantissa_bits = 1;
  const float* spline = nullptr;  // slopes of the 39 intervals
};

/// Sixteen blocks, one after another, whose scales carry a gradient (fp4/estimator.h, block_gradient).
struct TermBlocks {
  const float* x = nullptr;
  const float* upstream = nullptr;
  const float* decoded = nullptr;
  const float* slope = nullptr;  // Q'
  int length = 0;                // of a block
  ScaleGradient kind = ScaleGradient::none;
  float alpha = 1.0f;
  float tensor_factor = 1.0f;
  bool is_live[16] = {};  // the others have no term
};

/// One number a block: its largest magnitude, sum_i G_i (xhat_i - x_i Q'_i), sum_i exp(alpha (|x_i| - hard)), the
/// (smooth) maximum, the slope of the scale's rounding and that times s~/s.
struct ScaleFactors {
  float hard[16], sum[16], softmax_sum[16], amax[16], slope[16], ratio[16];
};

/// Products C = A B of one shape, [m, k] times [k, n], fma in ascending k: number i has its matrices outer * (i /
/// inner) + inner * (i % inner) elements further on.
struct Products {
  struct Place {
    int64_t row, col;  // strides of a matrix
    int64_t outer = 0, inner = 0;
  };
  float* c;
  Place at_c;
  const float* a;
  Place at_a;
  const float* b;
  Place at_b;
  int m, n, k;
  int count = 1, inner = 1;
};

/// What a set of kernels has besides where its floats lie in memory of a device: moves, and loops that host code does
/// elsewhere. All pointers are the device's but those of the host in upload and download.
struct DeviceKernels {
  Memory memory;
  void (*upload)(void* to, const void* from_host, int64_t bytes);
  void (*download)(void* to_host, const void* from, int64_t bytes);
  void (*copy)(float* to, const float* from, int64_t n);
  void (*zero)(float* x, int64_t n);
  void (*scale_columns)(float* y, const float* factors, int rows, int cols);  // y[r][c] *= factors[c]
  // y[i] = table[rows[i]]; its backward: row r of g is the sum of dy[places[j]], first[r] <= j < first[r + 1],
  // ascending.
  void (*gather_rows)(float* y, const float* table, const int32_t* rows, int n, int cols);
  void (*scatter_rows)(float* g, const float* dy, const int32_t* first, const int32_t* places, int rows, int cols);
  void (*products)(const Products& products);
};

struct Kernels {
  std::string_view name;  // generic, avx2, avx512, gpu

  // y = x + y, y = x * y, y = s * x; n elements.
  void (*add)(float* y, const float* x, int64_t n);
  void (*sum_of)(float* z, const float* x, const float* y, int64_t n);  // z = x + y
  void (*multiply)(float* y, const float* x, int64_t n);
  void (*scale)(float* y, const float* x, float s, int64_t n);
  // y[r][c] += bias[c]; and its backward: bias_grad[c] = sum over r, ascending.
  void (*add_bias)(float* y, const float* bias, int rows, int cols);
  void (*column_sums)(float* sums, const float* y, int rows, int cols);

  // y = max(y + bias, 0); its backward makes dy the gradient before the bias, and sums its columns, rows ascending.
  void (*bias_relu)(float* y, const float* bias, int rows, int cols);
  void (*bias_relu_backward)(float* dy, float* sums, const float* y, int rows, int cols);
  void (*relu)(float* y, const float* x, int64_t n);
  void (*relu_backward)(float* dx, const float* dy, const float* y, int64_t n);
  // y = x * s with s = sigmoid(x), which the backward pass needs.
  void (*silu)(float* y, float* s, const float* x, int64_t n);
  void (*silu_backward)(float* dx, const float* dy, const float* y, const float* s, int64_t n);
  // y = silu(gate) * up.
  void (*swiglu)(float* y, float* s, const float* gate, const float* up, int64_t n);
  void (*swiglu_backward)(float* dgate, float* dup, const float* dy, const float* gate, const float* up, const float* s,
                          int64_t n);

  // p = softmax of each row, row_loss[r] = -ln p[r][label]; the row weights and 1/rows enter in backward.
  void (*softmax_loss)(float* p, float* row_loss, const float* logits, const int32_t* labels, int rows, int cols);
  void (*softmax_loss_backward)(float* dlogits, const float* p, const int32_t* labels, const float* weights,
                                float scale, int rows, int cols);
  // row_loss[r] = mean over columns of (y - target)^2; dy = 2/cols * weight * scale * (y - target).
  void (*square_loss)(float* row_loss, const float* y, const float* target, int rows, int cols);
  void (*square_loss_backward)(float* dy, const float* y, const float* target, const float* weights, float scale,
                               int rows, int cols);

  // y = x * r * gain, r = 1/sqrt(mean(x^2) + eps) per row.
  void (*rmsnorm)(float* y, float* r, const float* x, const float* gain, float eps, int rows, int cols);
  void (*rmsnorm_backward)(float* dx, float* dgain, const float* dy, const float* x, const float* r, const float* gain,
                           int rows, int cols);
  // Rotates the pairs (c, c + width/2) of each head by the angles of the row: y0 = x0 cos - x1 sin, y1 = x1 cos +
  // x0 sin; direction -1 rotates back. cosine, sine: [context, width/2]; row r is at position r mod context.
  void (*rope)(float* y, const float* x, const float* cosine, const float* sine, float direction, int rows, int heads,
               int width, int context);
  // Causal softmax of scale * s for each of `tiles` [n, n], entries above the diagonal become 0; its backward in place
  // of dp.
  void (*causal_softmax)(float* s, float scale, int n, int tiles);
  void (*causal_softmax_backward)(float* dp, const float* p, float scale, int n, int tiles);

  float (*sum)(const float* x, int64_t n);
  float (*dot)(const float* x, const float* y, int64_t n);
  bool (*all_finite)(const float* x, int64_t n);

  // One step; whether all new weights are finite.
  bool (*adam)(float* w, float* m, float* v, const float* g, int64_t n, const AdamStep& step);
  bool (*sgd)(float* w, float* m, const float* g, int64_t n, float lr, float momentum, float weight_decay,
              float gradient_scale);
  void (*add_scaled)(double* to, double factor, const double* from, int64_t n);  // to += factor * from

  // out[i] = upstream[i] * Q'(u(x[i])), all x finite. False: one of the payloads could round either way from
  // its fp64 quotient; nothing is to be used.
  bool (*slopes)(float* out, const float* upstream, const float* x, int n, const SlopeRule& rule);

  // The sums of ScaleFactors; then out = upstream * slope + the term of the scale.
  void (*scale_sums)(const TermBlocks& blocks, const float* hard, float* sum, float* softmax_sum);
  void (*scale_terms)(float* out, const TermBlocks& blocks, const ScaleFactors& factors);

  // out[i] = x[i]^y, as elementary::pow gives it.
  void (*powers)(float* out, const float* x, float y, int64_t n);

  // 32-bit words of Philox blocks first .. first + blocks - 1; `out` has room for a multiple of 16 blocks.
  void (*philox)(uint32_t* out, uint64_t first, int blocks, uint64_t seed, uint32_t stream, uint32_t step);
  // i-th normal / uniform number of a stream (fp4/rng.h), first .. first + n - 1.
  void (*normals)(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step);
  void (*uniforms)(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step);
  // sin and cos of x; |x| <= 8192.
  void (*sin_cos)(float* sine, float* cosine, const float* x, int64_t n);

  // C[i][j] = sum over k of A(i,k) B(k,j), fma in ascending k. A(i,k) = a[i*a_row + k*a_col]; B likewise, packed
  // first into panels of panel_width columns: [ceil(n/panel_width)][k][panel_width], the last one padded with 0.
  int panel_width;
  int64_t packed_size(int k, int n) const { return int64_t{(n + panel_width - 1) / panel_width * panel_width} * k; }
  void (*pack)(float* packed, const float* b, int64_t b_row, int64_t b_col, int k, int n);
  void (*gemm)(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* packed, int m, int n,
               int k);
  // The same with B's rows, b_row apart, where they lie: for few rows of A. n: a multiple of panel_width.
  void (*gemm_in_place)(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* b,
                        int64_t b_row, int m, int n, int k);

  // C [m, n] = A [m, k] B in fp64, products rounded before they are added, k ascending; B in panels.
  void (*wide_gemm)(double* c, const double* a, const float* packed, int m, int n, int k);
  // rest[r][c] = X(r,c) - sum over j of fl64(left[j][r] * values[j]) * right[j][c] in fp64, j ascending; X and right in
  // panels.
  void (*subtract_products)(float* rest, const float* packed, const float* left, const float* values,
                            const float* right, int rank, int rows, int cols);

  // Null on a CPU. On a device what only host code calls is null instead: slopes and terms of scales, generators, gemm.
  const DeviceKernels* device = nullptr;
};

/// The best set this CPU has, or the one named ("generic" and "reference" always exist); throws when absent.
const Kernels& kernels(std::string_view backend = "auto");

namespace generic {
extern const Kernels table;
}
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
namespace device {
extern const Kernels table;  // of the device whose memory DeviceScope names (sim/train/device_training.h)
}

}  // namespace fp4::sim

// The loops by name, in the order of Kernels: the tables of all instruction sets and of devices are made of these
// lists. What every set has.
#define FP4_TRAINER_LOOPS(apply)                                                                                   \
  apply(add) apply(sum_of) apply(multiply) apply(scale) apply(add_bias) apply(column_sums) apply(bias_relu)        \
      apply(bias_relu_backward) apply(relu) apply(relu_backward) apply(silu) apply(silu_backward) apply(swiglu)    \
          apply(swiglu_backward) apply(softmax_loss) apply(softmax_loss_backward) apply(square_loss)               \
              apply(square_loss_backward) apply(rmsnorm) apply(rmsnorm_backward) apply(rope) apply(causal_softmax) \
                  apply(causal_softmax_backward) apply(sum) apply(dot) apply(all_finite) apply(adam) apply(sgd)
// What host code alone calls; `panel_width` stands between the two lists.
#define FP4_HOST_LOOPS(apply)                                                                                     \
  apply(add_scaled) apply(slopes) apply(scale_sums) apply(scale_terms) apply(powers) apply(philox) apply(normals) \
      apply(uniforms) apply(sin_cos)
#define FP4_HOST_PRODUCTS(apply) apply(pack) apply(gemm) apply(gemm_in_place) apply(wide_gemm) apply(subtract_products)

#define FP4_LOOP(loop) .loop = loop,
