// See muon.h.
#include "sim/train/muon.h"

#include <algorithm>
#include <cmath>

#include "fp4/presets.h"
#include "sim/train/low_bit_states.h"

namespace fp4::sim {

namespace {

constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
constexpr float smallest_norm = 1e-7f, rms_of_adamw = 0.2f;

}  // namespace

void orthogonalise(const UpdateRules& rules, const Dispatcher& backend, const Kernels& k, float* u, int rows,
                   int cols) {
  const bool flips = rows > cols;
  const int r = std::min(rows, cols), n = std::max(rows, cols);
  const QuantSpec spec = find_preset(rules.products)->spec;
  const bool stores_bf16 = spec.element != Element::fp32;
  const auto stored = [&](std::vector<float>& x) {
    if (stores_bf16) round_to_bf16(x.data(), static_cast<int64_t>(x.size()));
  };
  std::vector<float> x(static_cast<size_t>(r) * static_cast<size_t>(n)), next(x.size());
  std::vector<float> gram(static_cast<size_t>(r) * static_cast<size_t>(r)), square(gram.size());
  const auto at = [&](int i, int j) { return flips ? j * cols + i : i * cols + j; };
  for (int i = 0; i < r; ++i)
    for (int j = 0; j < n; ++j) x[static_cast<size_t>(i * n + j)] = u[at(i, j)];
  stored(x);
  const float norm = std::sqrt(k.dot(x.data(), x.data(), static_cast<int64_t>(x.size())));
  k.scale(x.data(), x.data(), 1.0f / std::max(norm, smallest_norm), static_cast<int64_t>(x.size()));
  stored(x);
  // C = A B^T of two views in the format of the products.
  const auto multiply = [&](MatrixView left, MatrixView right, std::vector<float>& out) {
    MultiplyCall call;
    call.a.x = left, call.b.x = right;
    call.a.spec = call.b.spec = spec;
    call.c = out.data(), call.c_stride = right.rows;
    backend.multiply(call);
  };
  for (int iteration = 0; iteration < rules.iterations; ++iteration) {
    const MatrixView view = view_of(x.data(), r, n);
    multiply(view, view, gram);
    stored(gram);
    const MatrixView of_gram = view_of(gram.data(), r, r);
    multiply(of_gram, of_gram.transposed(), square);
    for (size_t i = 0; i < gram.size(); ++i) square[i] = b * gram[i] + c * square[i];
    stored(square);
    multiply(view_of(square.data(), r, r), view.transposed(), next);
    for (size_t i = 0; i < x.size(); ++i) x[i] = a * x[i] + next[i];
    stored(x);
  }
  for (int i = 0; i < r; ++i)
    for (int j = 0; j < n; ++j) u[at(i, j)] = x[static_cast<size_t>(i * n + j)];
}

bool muon_update(const UpdateRules& rules, const Dispatcher& backend, const Kernels& k, float* w, float* m,
                 const float* g, int rows, int cols, float lr, float weight_decay, float gradient_scale) {
  const int64_t n = int64_t{rows} * cols;
  std::vector<float> u(static_cast<size_t>(n));
  const float mu = rules.momentum;
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] * gradient_scale;
    m[i] = mu * m[i] + (1.0f - mu) * d;
    u[static_cast<size_t>(i)] = (1.0f - mu) * d + mu * m[i];
  }
  orthogonalise(rules, backend, k, u.data(), rows, cols);
  const float size = rms_of_adamw * std::sqrt(static_cast<float>(std::max(rows, cols)));
  for (int64_t i = 0; i < n; ++i) w[i] = w[i] - lr * (size * u[static_cast<size_t>(i)] + weight_decay * w[i]);
  return k.all_finite(w, n);
}

}  // namespace fp4::sim
