// Loops without an order: every element for itself, or every column.
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

static void add_scaled(double* __restrict to, double factor, const double* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}
static void add(float* __restrict y, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
}
static void sum_of(float* __restrict z, const float* __restrict x, const float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
}
static void multiply(float* __restrict y, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] * x[i];
}
static void scale(float* y, const float* x, float s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = s * x[i];
}
static void add_bias(float* __restrict y, const float* __restrict bias, int rows, int cols) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) y[int64_t{r} * cols + c] += bias[c];
}
static void column_sums(float* __restrict sums, const float* __restrict y, int rows, int cols) {
  int c = 0;
  for (; c + 64 <= cols; c += 64) {  // four registers of sums stay where they are
    float s[64] = {};
    for (int r = 0; r < rows; ++r)
      for (int l = 0; l < 64; ++l) s[l] += y[int64_t{r} * cols + c + l];
    for (int l = 0; l < 64; ++l) sums[c + l] = s[l];
  }
  for (int l = c; l < cols; ++l) sums[l] = 0.0f;
  for (int r = 0; r < rows; ++r)
    for (int l = c; l < cols; ++l) sums[l] += y[int64_t{r} * cols + l];
}

static void bias_relu(float* __restrict y, const float* __restrict bias, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    float* row = y + int64_t{r} * cols;
    for (int c = 0; c < cols; ++c) {
      const float x = row[c] + bias[c];
      row[c] = x > 0.0f ? x : 0.0f;
    }
  }
}
static void bias_relu_backward(float* __restrict dy, float* __restrict sums, const float* __restrict y, int rows,
                               int cols) {
  for (int c = 0; c < cols; ++c) sums[c] = 0.0f;
  for (int r = 0; r < rows; ++r) {
    float* row = dy + int64_t{r} * cols;
    const float* out = y + int64_t{r} * cols;
    for (int c = 0; c < cols; ++c) {
      const float g = out[c] > 0.0f ? row[c] : 0.0f;
      row[c] = g;
      sums[c] += g;
    }
  }
}
static void relu(float* __restrict y, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
static void relu_backward(float* __restrict dx, const float* __restrict dy, const float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}
static void silu(float* __restrict y, float* __restrict s, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    s[i] = elementary::sigmoid(x[i]);
    y[i] = x[i] * s[i];
  }
}
// d(x s)/dx = s + x s (1 - s) = s + y (1 - s).
static void silu_backward(float* __restrict dx, const float* __restrict dy, const float* __restrict y,
                          const float* __restrict s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * (s[i] + y[i] * (1.0f - s[i]));
}
static void swiglu(float* __restrict y, float* __restrict s, const float* __restrict gate, const float* __restrict up,
                   int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    s[i] = elementary::sigmoid(gate[i]);
    y[i] = (gate[i] * s[i]) * up[i];
  }
}
static void swiglu_backward(float* __restrict dgate, float* __restrict dup, const float* __restrict dy,
                            const float* __restrict gate, const float* __restrict up, const float* __restrict s,
                            int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = gate[i] * s[i];
    dup[i] = dy[i] * a;
    dgate[i] = (dy[i] * up[i]) * (s[i] + a * (1.0f - s[i]));
  }
}

static void rope(float* __restrict y, const float* __restrict x, const float* __restrict cosine,
                 const float* __restrict sine, float direction, int rows, int heads, int width, int context) {
  const int half = width / 2;
  for (int r = 0; r < rows; ++r) {
    const float* co = cosine + int64_t{r % context} * half;
    const float* si = sine + int64_t{r % context} * half;
    for (int h = 0; h < heads; ++h) {
      const int64_t at = (int64_t{r} * heads + h) * width;
      for (int c = 0; c < half; ++c) {
        const float a = x[at + c], b = x[at + half + c], s = direction * si[c];
        y[at + c] = a * co[c] - b * s;
        y[at + half + c] = b * co[c] + a * s;
      }
    }
  }
}

static void sin_cos(float* __restrict sine, float* __restrict cosine, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    sine[i] = elementary::sin(x[i]);
    cosine[i] = elementary::cos(x[i]);
  }
}

}  // namespace fp4::sim::FP4_ISA
