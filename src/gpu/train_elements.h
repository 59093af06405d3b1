// The trainer's loops without an order, on a device: every element for itself. Each is the formula of the CPU's loop in
// sim/kernels/, operation by operation, so that the bits are the same.
#pragma once

#include "fp4/elementary.h"
#include "src/gpu/group.h"

namespace fp4::gpu {

// Correctly rounded; clang knows no sqrtf of a device without HIP's headers.
FP4_HD inline float square_root(float x) {
#if FP4_DEVICE_CODE && !defined(__CUDA_ARCH__)
  return __builtin_sqrtf(x);
#else
  return sqrtf(x);
#endif
}

enum class ElementOp : uint8_t {
  zero,
  add,
  sum_of,
  multiply,
  scale,
  scale_columns,
  add_bias,
  bias_relu,
  mask,  // out where b > 0, else 0
  relu,
  relu_backward,
  silu,
  silu_backward,
  swiglu,
  swiglu_backward,
  rope,
  softmax_loss_backward,
  square_loss_backward,
  gather_rows,
  scatter_rows
};

// out[i] (and second[i]) from a[i], b[i], ..; element i lies in row i / cols, column i % cols.
struct ElementLoop {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 4;
  static constexpr int64_t share = 4 * group_threads;  // elements of a group
  ElementOp op = ElementOp::zero;
  int64_t count = 0;
  float* out = nullptr;
  float* second = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  const float* d = nullptr;
  const int32_t* numbers = nullptr;  // labels; rows to gather; where each row's list in `places` begins
  const int32_t* places = nullptr;
  int64_t cols = 1;
  float factor = 1.0f;
  int heads = 1;
  int width = 2;  // of a head
  int context = 1;

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    const int64_t first = number * share;
    group.for_each(smaller(share, count - first), [&](int64_t i) { element(first + i); });
  }

 private:
  FP4_HD void element(int64_t i) const {
    switch (op) {
      case ElementOp::zero: out[i] = 0.0f; return;
      case ElementOp::add: out[i] = out[i] + a[i]; return;
      case ElementOp::sum_of: out[i] = a[i] + b[i]; return;
      case ElementOp::multiply: out[i] = out[i] * a[i]; return;
      case ElementOp::scale: out[i] = factor * a[i]; return;
      case ElementOp::scale_columns: out[i] = out[i] * a[i % cols]; return;
      case ElementOp::add_bias: out[i] = out[i] + a[i % cols]; return;
      case ElementOp::bias_relu: {
        const float x = out[i] + a[i % cols];
        out[i] = x > 0.0f ? x : 0.0f;
        return;
      }
      case ElementOp::mask: out[i] = b[i] > 0.0f ? out[i] : 0.0f; return;
      case ElementOp::relu: out[i] = a[i] > 0.0f ? a[i] : 0.0f; return;
      case ElementOp::relu_backward: out[i] = b[i] > 0.0f ? a[i] : 0.0f; return;
      case ElementOp::silu: {
        const float s = elementary::sigmoid(a[i]);
        second[i] = s;
        out[i] = a[i] * s;
        return;
      }
      case ElementOp::silu_backward: out[i] = a[i] * (c[i] + b[i] * (1.0f - c[i])); return;  // dy, y, s
      case ElementOp::swiglu: {
        const float s = elementary::sigmoid(a[i]);
        second[i] = s;
        out[i] = (a[i] * s) * b[i];
        return;
      }
      case ElementOp::swiglu_backward: {  // dy, gate, up, s
        const float act = b[i] * d[i];
        second[i] = a[i] * act;
        out[i] = (a[i] * c[i]) * (d[i] + act * (1.0f - d[i]));
        return;
      }
      case ElementOp::rope: return rotate(i);
      case ElementOp::softmax_loss_backward: {
        const int64_t r = i / cols;
        const float w = (b != nullptr ? b[r] : 1.0f) * factor;
        out[i] = i % cols == numbers[r] ? (a[i] - 1.0f) * w : a[i] * w;
        return;
      }
      case ElementOp::square_loss_backward: {
        const float w = 2.0f / static_cast<float>(cols) * (c != nullptr ? c[i / cols] : 1.0f) * factor;
        out[i] = (a[i] - b[i]) * w;
        return;
      }
      case ElementOp::gather_rows: out[i] = a[numbers[i / cols] * cols + i % cols]; return;
      case ElementOp::scatter_rows: {
        const int64_t r = i / cols;
        float sum = 0.0f;
        for (int32_t j = numbers[r]; j < numbers[r + 1]; ++j) sum = sum + a[places[j] * cols + i % cols];
        out[i] = sum;
        return;
      }
    }
  }

  // Pair i of (row, head, column of half a head); b cosines, c sines, factor the direction.
  FP4_HD void rotate(int64_t i) const {
    const int half = width / 2;
    const auto column = static_cast<int>(i % half);
    const int64_t head = i / half;
    const int64_t angle = head / heads % context * half + column;
    const int64_t at = head * width + column;
    const float x = a[at];
    const float y = a[at + half];
    const float s = factor * c[angle];
    out[at] = x * b[angle] - y * s;
    out[at + half] = y * b[angle] + x * s;
  }
};

enum class UpdateOp : uint8_t { check, adam, sgd };

// Weights by Adam or SGD, or only looks at them; whether all are finite afterwards, a word a group (1: not all).
struct UpdateLoop {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 4;
  UpdateOp op = UpdateOp::check;
  int64_t count = 0;
  int64_t groups = 1;
  float* w = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* g = nullptr;
  float lr = 0.0f;
  float beta1 = 0.0f;  // sgd: momentum
  float beta2 = 0.0f;
  float eps = 0.0f;
  float weight_decay = 0.0f;
  float correction1 = 1.0f;
  float correction2 = 1.0f;
  float gradient_scale = 1.0f;
  uint32_t* bad = nullptr;  // [groups]

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    group.for_threads([&](int thread) {
      uint32_t any = 0;
      for (int64_t i = number * group_threads + thread; i < count; i += groups * group_threads) {
        any |= static_cast<uint32_t>(magnitude_bits(updated(i)) >= float_infinity_bits);
      }
      shared[thread] = any;
    });
    group.barrier();
    group.for_each(1, [&](int64_t) {
      uint32_t any = 0;
      for (int thread = 0; thread < group_threads; ++thread) any |= shared[thread];
      bad[number] = any;
    });
  }

 private:
  FP4_HD float updated(int64_t i) const {
    switch (op) {
      case UpdateOp::check: return g[i];
      case UpdateOp::adam: {
        const float d = g[i] * gradient_scale;
        m[i] = beta1 * m[i] + (1.0f - beta1) * d;
        v[i] = beta2 * v[i] + (1.0f - beta2) * (d * d);
        const float step = (m[i] * correction1) / (square_root(v[i] * correction2) + eps);
        w[i] = w[i] - lr * (step + weight_decay * w[i]);
        return w[i];
      }
      case UpdateOp::sgd:
        m[i] = beta1 * m[i] + (g[i] * gradient_scale + weight_decay * w[i]);
        w[i] = w[i] - lr * m[i];
        return w[i];
    }
    return 0.0f;
  }
};

}  // namespace fp4::gpu
