// What looks at one row at a time: losses, normalisation, causal softmax.
#pragma once

#include "sim/kernels/sums_body.h"

namespace fp4::sim::FP4_ISA {

// x minus the largest of its row, and the label's entry of that.
static void softmax_shift(float* __restrict p, float* __restrict row_loss, const float* __restrict logits,
                          const int32_t* labels, int rows, int cols) {
  int r = 0;
  for (; cols <= 16 && r + 16 <= rows; r += 16) {  // a row is one register
    const float* x = logits + int64_t{r} * cols;
    lanes16 row[16], start[16];
    for (int i = 0; i < 16; ++i) {
      row[i] = load_some(x + i * cols, cols, x[i * cols]);
      const lanes16 first = x[i * cols] - lanes16{};
      start[i] = row[i] > first ? row[i] : first;
    }
    const lanes16 top = trees(start, larger_of);
    for (int i = 0; i < 16; ++i) {
      store_some(p + int64_t{r + i} * cols, cols, row[i] - top[i]);
      row_loss[r + i] = x[i * cols + labels[r + i]] - top[i];
    }
  }
  for (; r < rows; ++r) {
    const float* x = logits + int64_t{r} * cols;
    const float top = lane_max(x, cols);
    for (int c = 0; c < cols; ++c) p[int64_t{r} * cols + c] = x[c] - top;
    row_loss[r] = x[labels[r]] - top;
  }
}
static void softmax_loss(float* __restrict p, float* __restrict row_loss, const float* __restrict logits,
                         const int32_t* labels, int rows, int cols) {
  const int64_t n = int64_t{rows} * cols;
  softmax_shift(p, row_loss, logits, labels, rows, cols);
  for (int64_t i = 0; i < n; ++i) p[i] = elementary::exp(p[i]);  // flat: rows of 10 classes fill the registers too
  for (int first = 0; first < rows; first += 16) {
    const int count = rows - first < 16 ? rows - first : 16;
    float* x = p + int64_t{first} * cols;
    lanes16 total = {};
    const bool narrow = cols <= 16 && count == 16;
    lanes16 row[16];
    if (narrow) {
      for (int i = 0; i < 16; ++i) row[i] = lanes16{} + load_some(x + i * cols, cols, 0.0f);
      total = trees(row, sum_of_two);
    } else {
      for (int i = 0; i < count; ++i) total[i] = lane_sum(cols, [=](int64_t c) { return x[i * cols + c]; });
    }
    const lanes16 inverse = 1.0f / total;
    float logarithm[16];
    for (int i = 0; i < 16; ++i) logarithm[i] = elementary::log(total[i]);
    for (int i = 0; i < count; ++i) {
      row_loss[first + i] = logarithm[i] - row_loss[first + i];
      const float factor = inverse[i];
      if (narrow) {
        store_some(x + i * cols, cols, row[i] * factor);
      } else {
        for (int c = 0; c < cols; ++c) x[i * cols + c] *= factor;
      }
    }
  }
}
static void softmax_loss_backward(float* __restrict dlogits, const float* __restrict p, const int32_t* labels,
                                  const float* __restrict weights, float factor, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const float w = (weights ? weights[r] : 1.0f) * factor;
    float* d = dlogits + int64_t{r} * cols;
    for (int c = 0; c < cols; ++c) d[c] = p[int64_t{r} * cols + c] * w;
    d[labels[r]] = (p[int64_t{r} * cols + labels[r]] - 1.0f) * w;
  }
}
static void square_loss(float* __restrict row_loss, const float* __restrict y, const float* __restrict target, int rows,
                        int cols) {
  for (int r = 0; r < rows; ++r) {
    const float* a = y + int64_t{r} * cols;
    const float* b = target + int64_t{r} * cols;
    const float total = lane_sum(cols, [=](int64_t c) {
      const float d = a[c] - b[c];
      return d * d;
    });
    row_loss[r] = total / static_cast<float>(cols);
  }
}
static void square_loss_backward(float* __restrict dy, const float* __restrict y, const float* __restrict target,
                                 const float* __restrict weights, float factor, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const float w = 2.0f / static_cast<float>(cols) * (weights ? weights[r] : 1.0f) * factor;
    const int64_t at = int64_t{r} * cols;
    for (int c = 0; c < cols; ++c) dy[at + c] = (y[at + c] - target[at + c]) * w;
  }
}

static void rmsnorm(float* __restrict y, float* __restrict r, const float* __restrict x, const float* __restrict gain,
                    float eps, int rows, int cols) {
  for (int i = 0; i < rows; ++i) {
    const float* a = x + int64_t{i} * cols;
    const float mean = lane_sum(cols, [=](int64_t c) { return a[c] * a[c]; }) / static_cast<float>(cols);
    r[i] = elementary::rsqrt(mean + eps);
    for (int c = 0; c < cols; ++c) y[int64_t{i} * cols + c] = (a[c] * r[i]) * gain[c];
  }
}
// dx = r dy g - x (r^3 / cols) sum(dy g x);  dgain = sum over rows of dy x r.
static void rmsnorm_backward(float* __restrict dx, float* __restrict dgain, const float* __restrict dy,
                             const float* __restrict x, const float* __restrict r, const float* __restrict gain,
                             int rows, int cols) {
  for (int c = 0; c < cols; ++c) dgain[c] = 0.0f;
  for (int i = 0; i < rows; ++i) {
    const float* a = x + int64_t{i} * cols;
    const float* d = dy + int64_t{i} * cols;
    const float projection = lane_sum(cols, [=](int64_t c) { return (d[c] * gain[c]) * a[c]; });
    const float s = r[i];
    const float k = s * s * s * projection / static_cast<float>(cols);
    for (int c = 0; c < cols; ++c) {
      dx[int64_t{i} * cols + c] = s * (d[c] * gain[c]) - k * a[c];
      dgain[c] += d[c] * (a[c] * s);
    }
  }
}

static void causal_softmax(float* s, float factor, int n, int tiles) {
  for (int64_t r = 0; r < int64_t{n} * tiles; ++r) {
    float* row = s + r * n;
    const int i = static_cast<int>(r % n);
    // Future entries of the last 16 become -inf, which is no maximum, and exp(-inf) = 0; what follows needs no exp.
    const int end = n < (i / 16 + 1) * 16 ? n : (i / 16 + 1) * 16, last = i / 16 * 16;
    store_some(row + last, end - last, load_some(row + last, i + 1 - last, -__builtin_inff()));
    const float top = lane_max(row, end);
    for (int j = 0; j < end; ++j) row[j] = elementary::exp(factor * (row[j] - top));
    for (int j = end; j < n; ++j) row[j] = 0.0f;
    const float inverse = 1.0f / lane_sum(n, [=](int64_t j) { return row[j]; });
    for (int j = 0; j < end; ++j) row[j] *= inverse;
  }
}
// ds = scale * p * (dp - sum_j dp p); p = 0 above the diagonal.
static void causal_softmax_backward(float* __restrict dp, const float* __restrict p, float factor, int n, int tiles) {
  for (int64_t r = 0; r < int64_t{n} * tiles; ++r) {
    float* d = dp + r * n;
    const float* q = p + r * n;
    const float mean = lane_sum(n, [=](int64_t j) { return d[j] * q[j]; });
    for (int j = 0; j < n; ++j) d[j] = factor * (q[j] * (d[j] - mean));
  }
}

}  // namespace fp4::sim::FP4_ISA
