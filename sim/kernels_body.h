// The bodies behind kernels.h; included once per instruction set, inside its namespace and target region, with
//   LANES      floats per register of the gemm tile      TILE_ROWS  its rows
//   fma_lanes  LANES fused multiply-adds
// so this header has no guard. No std templates in here: an instance compiled for AVX-512 could be picked by the
// linker for everybody.

using lanes16 = float __attribute__((vector_size(64), aligned(4)));

static inline float tree(const lanes16& v) {
  float a[16];
  __builtin_memcpy(a, &v, sizeof a);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
}

// Sum of term(i), i < n, in the fixed 16-lane order.
template <class Term>
static inline __attribute__((always_inline)) float lane_sum(int64_t n, Term term) {
  float partial[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) partial[l] += term(i + l);
  for (int l = 0; i + l < n; ++l) partial[l] += term(i + l);
  lanes16 v;
  __builtin_memcpy(&v, partial, sizeof v);
  return tree(v);
}

// Largest x[i], n >= 1; NaN is passed over (it shows up in what is computed from it).
static inline __attribute__((always_inline)) float lane_max(const float* x, int64_t n) {
  float partial[16];
  for (int l = 0; l < 16; ++l) partial[l] = x[0];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) partial[l] = x[i + l] > partial[l] ? x[i + l] : partial[l];
  for (int l = 0; i + l < n; ++l) partial[l] = x[i + l] > partial[l] ? x[i + l] : partial[l];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) partial[l] = partial[l + half] > partial[l] ? partial[l + half] : partial[l];
  return partial[0];
}

static float sum(const float* x, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return x[i]; });
}
static float dot(const float* x, const float* y, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return x[i] * y[i]; });
}
static bool all_finite(const float* x, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= static_cast<uint32_t>(magnitude_bits(x[i]) >= float_infinity_bits);
  return bad == 0;
}

static void add(float* __restrict y, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
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
  for (int c = 0; c < cols; ++c) sums[c] = 0.0f;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) sums[c] += y[int64_t{r} * cols + c];
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

static void softmax_loss(float* __restrict p, float* __restrict row_loss, const float* __restrict logits,
                         const int32_t* labels, int rows, int cols) {
  const int64_t n = int64_t{rows} * cols;
  for (int r = 0; r < rows; ++r) {
    const float* x = logits + int64_t{r} * cols;
    const float top = lane_max(x, cols);
    for (int c = 0; c < cols; ++c) p[int64_t{r} * cols + c] = x[c] - top;
    row_loss[r] = p[int64_t{r} * cols + labels[r]];
  }
  for (int64_t i = 0; i < n; ++i) p[i] = elementary::exp(p[i]);  // flat: rows of 10 classes fill the registers too
  for (int r = 0; r < rows; ++r) {
    float* x = p + int64_t{r} * cols;
    const float total = lane_sum(cols, [=](int64_t c) { return x[c]; });
    const float inverse = 1.0f / total;
    for (int c = 0; c < cols; ++c) x[c] *= inverse;
    row_loss[r] = elementary::log(total) - row_loss[r];
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

static void causal_softmax(float* s, float factor, int n) {
  for (int i = 0; i < n; ++i) {
    float* row = s + int64_t{i} * n;
    const float top = lane_max(row, i + 1);
    // Future entries of the last 16 become -inf and exp(-inf) = 0; what follows them needs no exp.
    const int end = n < (i / 16 + 1) * 16 ? n : (i / 16 + 1) * 16;
    for (int j = i + 1; j < end; ++j) row[j] = -__builtin_inff();
    for (int j = 0; j < end; ++j) row[j] = elementary::exp(factor * (row[j] - top));
    for (int j = end; j < n; ++j) row[j] = 0.0f;
    const float inverse = 1.0f / lane_sum(n, [=](int64_t j) { return row[j]; });
    for (int j = 0; j < end; ++j) row[j] *= inverse;
  }
}
// ds = scale * p * (dp - sum_j dp p); p = 0 above the diagonal.
static void causal_softmax_backward(float* __restrict dp, const float* __restrict p, float factor, int n) {
  for (int i = 0; i < n; ++i) {
    float* d = dp + int64_t{i} * n;
    const float* q = p + int64_t{i} * n;
    const float mean = lane_sum(n, [=](int64_t j) { return d[j] * q[j]; });
    for (int j = 0; j < n; ++j) d[j] = factor * (q[j] * (d[j] - mean));
  }
}

// AdamW (Loshchilov and Hutter): decay outside the moments. weight_decay = 0 is Adam.
static void adam(float* __restrict w, float* __restrict m, float* __restrict v, const float* __restrict g, int64_t n,
                 const AdamStep& s) {
  const AdamStep p = s;
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] * p.gradient_scale;
    m[i] = p.beta1 * m[i] + (1.0f - p.beta1) * d;
    v[i] = p.beta2 * v[i] + (1.0f - p.beta2) * (d * d);
    const float step = (m[i] * p.correction1) / (__builtin_sqrtf(v[i] * p.correction2) + p.eps);
    w[i] = w[i] - p.lr * (step + p.weight_decay * w[i]);
  }
}
static void sgd(float* __restrict w, float* __restrict m, const float* __restrict g, int64_t n, float lr,
                float momentum, float weight_decay, float gradient_scale) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = momentum * m[i] + (g[i] * gradient_scale + weight_decay * w[i]);
    w[i] = w[i] - lr * m[i];
  }
}

// Payloads of one run of elements, each rounded once, as saved_payload (fp4/estimator.h) defines them.
static bool payloads(float* __restrict u, const float* __restrict x, int n, const SlopeRule& r) {
  const float factor = r.factor, prescale = r.prescale;
  switch (r.payload) {
    case SlopeRule::Payload::times:
      for (int i = 0; i < n; ++i) u[i] = (x[i] * factor) * prescale;
      return true;
    case SlopeRule::Payload::over:
      for (int i = 0; i < n; ++i) u[i] = (x[i] / factor) * prescale;
      return true;
    case SlopeRule::Payload::wide: break;
  }
  const double numerator = r.numerator, denominator = r.denominator;
  uint64_t ambiguous = 0;
  for (int i = 0; i < n; ++i) {
    const double q = static_cast<double>(x[i]) * numerator / denominator;
    u[i] = static_cast<float>(q);
    // A quotient that fp64 puts exactly between two floats may have been rounded onto that place.
    ambiguous |= static_cast<uint64_t>((__builtin_bit_cast(uint64_t, q) & 0x1FFFFFFFu) == 0x10000000u);
  }
  return ambiguous == 0;
}

// The bucket of w in [0, M] on the element grid, by truncating the mantissa (bucket_of in fp4/estimator.h).
struct BucketOf {
  float below_largest;
  int32_t least_field, mantissa_bits;
  inline __attribute__((always_inline)) Bucket operator()(float w) const {
    const float v = w < below_largest ? w : below_largest;
    const int32_t field = static_cast<int32_t>(bits_of(v) >> 23);
    const int32_t step_field = (field > least_field ? field : least_field) - mantissa_bits;
    const float delta = float_of(static_cast<uint32_t>(step_field) << 23);
    const float low = static_cast<float>(static_cast<int32_t>(v / delta)) * delta;
    return {low, delta, low + 0.5f * delta};
  }
};

static bool slopes(float* __restrict out, const float* __restrict upstream, const float* __restrict x, int n,
                   const SlopeRule& r) {
  float u[256], slope[256];
  if (!payloads(u, x, n, r)) return false;
  const EstimatorSpec e = r.estimator;
  const float largest = r.largest;
  const BucketOf bucket = {float_of(bits_of(largest) - 1u), r.least_exponent + 127, r.mantissa_bits};
  const auto clamped = [=](float v) { return magnitude(v) < largest ? magnitude(v) : largest; };
  switch (e.estimator) {
    case Estimator::ste:
      for (int i = 0; i < n; ++i) slope[i] = 1.0f;
      break;
    case Estimator::clipped_ste:
      for (int i = 0; i < n; ++i) slope[i] = magnitude(u[i]) <= largest ? 1.0f : 0.0f;
      break;
    case Estimator::dge:
      for (int i = 0; i < n; ++i) {
        const Bucket b = bucket(clamped(u[i]));
        const float base = magnitude(2.0f * (clamped(u[i]) - b.low) / b.delta - 1.0f);
        const float s = 1.0f / e.estimator_k * elementary::pow(base, 1.0f / e.estimator_k - 1.0f);
        slope[i] = base == 0.0f || e.estimator_cap < s ? e.estimator_cap : s;
      }
      break;
    case Estimator::dge_raw:
    case Estimator::dge_raw_as_published:
      for (int i = 0; i < n; ++i) {
        const Bucket b = bucket(clamped(u[i]));
        const float away = magnitude(clamped(u[i]) - b.middle);
        const float s = b.delta / 2.0f * (1.0f / e.estimator_k) * elementary::pow(away, 1.0f / e.estimator_k - 1.0f);
        slope[i] = away == 0.0f ? 0.0f : s;
      }
      break;
    case Estimator::sigmoid:
    case Estimator::sigmoid_as_published:
      for (int i = 0; i < n; ++i) {
        const Bucket b = bucket(clamped(u[i]));
        const float sg = elementary::sigmoid((clamped(u[i]) - b.middle) * 12.0f / b.delta / e.temperature);
        const float s = sg * (1.0f - sg) * 12.0f / e.temperature;
        slope[i] = s < e.lb ? e.lb : (s > e.ub ? e.ub : s);
      }
      break;
    case Estimator::spline:
    case Estimator::spline_as_published: {
      const float step = 2.0f * largest / 39.0f;
      for (int i = 0; i < n; ++i) {
        const float position = (clamped(u[i]) + largest) / step;
        const float s = r.spline[position >= 38.0f ? 38 : static_cast<int>(position)];
        slope[i] = s < e.lb ? e.lb : (s > e.ub ? e.ub : s);
      }
      break;
    }
  }
  if (e.estimator >= Estimator::dge_raw_as_published)
    for (int i = 0; i < n; ++i) slope[i] = u[i] >= largest ? slope[i] : 1.0f;
  for (int i = 0; i < n; ++i) out[i] = upstream[i] * slope[i];
  return true;
}

// 32-bit words of Philox blocks first .. first + blocks - 1, rounded up to 16. Counter words as in rng.h; 16 blocks at
// a time, one register per word; widening_product is the instruction set's 32 x 32 -> 64.
static void philox_words(uint32_t* __restrict out, uint64_t first, int blocks, uint64_t seed, uint32_t stream,
                         uint32_t step) {
  for (int begin = 0; begin < blocks; begin += 16) {
    words16 c0, c1, c2, c3;
    for (int l = 0; l < 16; ++l) {
      const uint64_t block = first + static_cast<uint64_t>(begin + l);
      c0[l] = static_cast<uint32_t>(block), c1[l] = static_cast<uint32_t>(block >> 32), c2[l] = stream, c3[l] = step;
    }
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      words16 low0, high0, low1, high1;
      widening_product(c0, 0xD2511F53u, low0, high0);
      widening_product(c2, 0xCD9E8D57u, low1, high1);
      c0 = high1 ^ c1 ^ key0;
      c1 = low1;
      c2 = high0 ^ c3 ^ key1;
      c3 = low0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    uint32_t w0[16], w1[16], w2[16], w3[16];
    __builtin_memcpy(w0, &c0, sizeof w0), __builtin_memcpy(w1, &c1, sizeof w1);
    __builtin_memcpy(w2, &c2, sizeof w2), __builtin_memcpy(w3, &c3, sizeof w3);
    uint32_t* o = out + int64_t{4} * begin;
    for (int l = 0; l < 16; ++l) o[4 * l] = w0[l], o[4 * l + 1] = w1[l], o[4 * l + 2] = w2[l], o[4 * l + 3] = w3[l];
  }
}

// Uniform i = (word i >> 8) * 2^-24; 1,024 at a time through a buffer on the stack.
static void uniforms(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  uint32_t words[1024 + 64];
  for (int64_t done = 0; done < n;) {
    const int64_t at = first + done, block = at / 4;
    const int64_t skip = at - 4 * block;
    const int64_t count = n - done < 1024 - skip ? n - done : 1024 - skip;
    philox_words(words, static_cast<uint64_t>(block), static_cast<int>((skip + count + 3) / 4), seed, stream, step);
    for (int64_t i = 0; i < count; ++i)
      x[done + i] = static_cast<float>(static_cast<int32_t>(words[skip + i] >> 8)) * 0x1p-24f;
    done += count;
  }
}

// Normal i = sqrt(-2 ln(1 - u0)) cos(2 pi u1) of uniforms 2i, 2i + 1.
static void normals(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  float u[1024], u0[512], u1[512];
  for (int64_t done = 0; done < n; done += 512) {
    const int64_t count = n - done < 512 ? n - done : 512;
    uniforms(u, 2 * (first + done), 2 * count, seed, stream, step);
    for (int64_t i = 0; i < count; ++i) u0[i] = u[2 * i], u1[i] = u[2 * i + 1];
    for (int64_t i = 0; i < count; ++i)
      x[done + i] = __builtin_sqrtf(-2.0f * elementary::log(1.0f - u0[i])) * elementary::cos(6.28318548f * u1[i]);
  }
}
static void sin_cos(float* __restrict sine, float* __restrict cosine, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    sine[i] = elementary::sin(x[i]);
    cosine[i] = elementary::cos(x[i]);
  }
}

using tile_lanes = float __attribute__((vector_size(4 * LANES), aligned(4)));
constexpr int panel = 2 * LANES;

static void pack(float* __restrict packed, const float* __restrict b, int64_t b_row, int64_t b_col, int k, int n) {
  for (int j = 0; j < n; j += panel) {
    float* out = packed + int64_t{j} * k;
    const int width = n - j < panel ? n - j : panel;
    if (width < panel) __builtin_memset(out, 0, sizeof(float) * static_cast<size_t>(panel) * static_cast<size_t>(k));
    if (b_col == 1 && width == panel) {
      for (int i = 0; i < k; ++i) __builtin_memcpy(out + i * panel, b + i * b_row + j, sizeof(float) * panel);
    } else {
      // Columns of B are contiguous: 8 values of k at a time keep whole cache lines of source and target in use.
      for (int i0 = 0; i0 < k; i0 += 8) {
        const int end = k - i0 < 8 ? k : i0 + 8;
        for (int c = 0; c < width; ++c)
          for (int i = i0; i < end; ++i) out[i * panel + c] = b[i * b_row + (j + c) * b_col];
      }
    }
  }
}

template <int Rows>
static void tile(float* c, int64_t c_row, int width, const float* a, int64_t a_row, int64_t a_col, const float* packed,
                 int k) {
  tile_lanes low[Rows] = {}, high[Rows] = {};
  for (int i = 0; i < k; ++i) {
    tile_lanes b0, b1;
    __builtin_memcpy(&b0, packed + i * panel, sizeof b0);
    __builtin_memcpy(&b1, packed + i * panel + LANES, sizeof b1);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const float x = a[r * a_row + i * a_col];
      low[r] = fma_lanes(x, b0, low[r]);
      high[r] = fma_lanes(x, b1, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    // An exactly zero sum is +0 (numerics.md section 7).
    const tile_lanes lo = low[r] + 0.0f, hi = high[r] + 0.0f;
    if (width == panel) {
      __builtin_memcpy(c + r * c_row, &lo, sizeof lo);
      __builtin_memcpy(c + r * c_row + LANES, &hi, sizeof hi);
    } else {
      float edge[panel];
      __builtin_memcpy(edge, &lo, sizeof lo);
      __builtin_memcpy(edge + LANES, &hi, sizeof hi);
      for (int j = 0; j < width; ++j) c[r * c_row + j] = edge[j];
    }
  }
}

static void gemm(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* packed, int m,
                 int n, int k) {
  for (int j = 0; j < n; j += panel) {
    const float* b = packed + int64_t{j} * k;
    const int width = n - j < panel ? n - j : panel;
    int i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
      tile<TILE_ROWS>(c + i * c_row + j, c_row, width, a + i * a_row, a_row, a_col, b, k);
    for (; i < m; ++i) tile<1>(c + i * c_row + j, c_row, width, a + i * a_row, a_row, a_col, b, k);
  }
}

const Kernels table = {.name = ISA_NAME,
                       .add = add,
                       .multiply = multiply,
                       .scale = scale,
                       .add_bias = add_bias,
                       .column_sums = column_sums,
                       .relu = relu,
                       .relu_backward = relu_backward,
                       .silu = silu,
                       .silu_backward = silu_backward,
                       .swiglu = swiglu,
                       .swiglu_backward = swiglu_backward,
                       .softmax_loss = softmax_loss,
                       .softmax_loss_backward = softmax_loss_backward,
                       .square_loss = square_loss,
                       .square_loss_backward = square_loss_backward,
                       .rmsnorm = rmsnorm,
                       .rmsnorm_backward = rmsnorm_backward,
                       .rope = rope,
                       .causal_softmax = causal_softmax,
                       .causal_softmax_backward = causal_softmax_backward,
                       .sum = sum,
                       .dot = dot,
                       .all_finite = all_finite,
                       .adam = adam,
                       .sgd = sgd,
                       .slopes = slopes,
                       .normals = normals,
                       .uniforms = uniforms,
                       .sin_cos = sin_cos,
                       .panel_width = panel,
                       .pack = pack,
                       .gemm = gemm};
