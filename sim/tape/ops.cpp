// Forward beside backward for every unquantised operation; see ops.h.
#include "sim/tape/ops.h"

#include <algorithm>
#include <cstring>

#include "fp4/elementary.h"
#include "src/threads/parallel.h"

namespace fp4::sim {

Var add(Tape& tape, Var x, Var y) {
  const int64_t n = x->value.size();
  Var z = tape.variable(x->value.rows, x->value.cols, x->needs_grad || y->needs_grad);
  tape.k.sum_of(z->value.data, x->value.data, y->value.data, n);
  tape.record(z, [=](Tape& t) {
    for (Var input : {x, y}) {
      if (!input->needs_grad) continue;
      // y may take z's gradient as its own: nobody reads that any more. Parameters have memory of their own.
      if (input->has_grad || (input == y && !y->grad)) {
        t.add_gradient(input, z->grad);
        continue;
      }
      float* g = t.new_gradient(input);
      t.copy(g, z->grad, n);
      t.add_gradient(input, g);
    }
  });
  return z;
}

Var relu(Tape& tape, Var x) {
  Var y = tape.variable(x->value.rows, x->value.cols, x->needs_grad);
  tape.k.relu(y->value.data, x->value.data, x->value.size());
  tape.record(y, {x}, [=](Tape& t, float* g) { t.k.relu_backward(g, y->grad, y->value.data, x->value.size()); });
  return y;
}

Var silu(Tape& tape, Var x) {
  const int64_t n = x->value.size();
  Var y = tape.variable(x->value.rows, x->value.cols, x->needs_grad);
  float* s = tape.floats.take<float>(n);
  tape.k.silu(y->value.data, s, x->value.data, n);
  tape.record(y, {x}, [=](Tape& t, float* g) { t.k.silu_backward(g, y->grad, y->value.data, s, n); });
  return y;
}

Var swiglu(Tape& tape, Var gate, Var up) {
  const int64_t n = gate->value.size();
  Var y = tape.variable(gate->value.rows, gate->value.cols, true);
  float* s = tape.floats.take<float>(n);
  tape.k.swiglu(y->value.data, s, gate->value.data, up->value.data, n);
  tape.record(y, {gate, up}, [=](Tape& t, float* dgate, float* dup) {
    t.k.swiglu_backward(dgate, dup, y->grad, gate->value.data, up->value.data, s, n);
  });
  return y;
}

Var rms_norm(Tape& tape, Var x, Var gain) {
  const int rows = x->value.rows, cols = x->value.cols;
  Var y = tape.variable(rows, cols, true);
  float* r = tape.floats.take<float>(rows);
  tape.k.rmsnorm(y->value.data, r, x->value.data, gain->value.data, 1e-5f, rows, cols);
  tape.record(y, {x, gain}, [=](Tape& t, float* dx, float* dgain) {
    t.k.rmsnorm_backward(dx, dgain, y->grad, x->value.data, r, gain->value.data, rows, cols);
  });
  return y;
}

Var transposed(Tape& tape, Var x) {
  const int rows = x->value.rows, cols = x->value.cols;
  const auto flip = [](const float* from, float* to, int r, int c) {
    for (int i = 0; i < r; ++i)
      for (int j = 0; j < c; ++j) to[int64_t{j} * r + i] = from[int64_t{i} * c + j];
  };
  Var y = tape.variable(cols, rows, x->needs_grad);
  flip(x->value.data, y->value.data, rows, cols);
  tape.record(y, {x}, [=](Tape&, float* g) { flip(y->grad, g, cols, rows); });
  return y;
}

namespace {

// For each row of a table the places where tokens name it, ascending: first[r] .. first[r + 1] of `places`.
struct Occurrences {
  int32_t *first, *places;
};
Occurrences occurrences(Arena& arena, const int32_t* tokens, int n, int rows) {
  const Occurrences all = {arena.take<int32_t>(rows + 2), arena.take<int32_t>(n)};
  int32_t* const next = all.first + 1;  // ends one further on than it begins
  std::fill(all.first, all.first + rows + 2, 0);
  for (int i = 0; i < n; ++i) ++next[tokens[i] + 1];
  for (int r = 0; r < rows; ++r) next[r + 1] += next[r];
  for (int i = 0; i < n; ++i) all.places[next[tokens[i]]++] = i;
  return all;
}

Var embedding_on_device(Tape& tape, const int32_t* tokens, int n, Var table) {
  const int rows = table->value.rows, cols = table->value.cols;
  Var y = tape.variable(n, cols, true);
  tape.k.device->gather_rows(y->value.data, table->value.data, tape.placed(tokens, n), n, cols);
  tape.record(y, {table}, [=](Tape& t, float* g) {
    const Occurrences of = occurrences(t.arena, tokens, n, rows);
    t.k.device->scatter_rows(g, y->grad, t.placed(of.first, rows + 1), t.placed(of.places, n), rows, cols);
  });
  return y;
}

}  // namespace

Var embedding(Tape& tape, const int32_t* tokens, int n, Var table) {
  if (tape.k.device != nullptr) return embedding_on_device(tape, tokens, n, table);
  const int cols = table->value.cols;
  const size_t bytes = sizeof(float) * static_cast<size_t>(cols);
  Var y = tape.variable(n, cols, true);
  for (int i = 0; i < n; ++i) std::memcpy(y->value.row(i), table->value.row(tokens[i]), bytes);
  tape.record(y, {table}, [=](Tape& t, float* g) {
    std::memset(g, 0, sizeof(float) * static_cast<size_t>(table->value.size()));
    // Ascending tokens: the order in which occurrences of one row are added.
    for (int i = 0; i < n; ++i) t.k.add(g + int64_t{tokens[i]} * cols, y->grad + int64_t{i} * cols, cols);
  });
  return y;
}

RopeTable rope_table(Arena& arena, const Kernels& k, int context, int width) {
  const int half = width / 2;
  Tensor angle = arena.tensor(context, half);
  for (int t = 0; t < context; ++t)
    for (int i = 0; i < half; ++i) {
      const float frequency = elementary::pow(10000.0f, -static_cast<float>(2 * i) / static_cast<float>(width));
      angle.row(t)[i] = static_cast<float>(t) * frequency;
    }
  RopeTable table{arena.tensor(context, half), arena.tensor(context, half)};
  k.sin_cos(table.sine.data, table.cosine.data, angle.data, angle.size());
  return table;
}

Var rope(Tape& tape, Var x, int heads, const RopeTable& table) {
  const int rows = x->value.rows, width = x->value.cols / heads, context = table.cosine.rows;
  const float* cosine = tape.placed_once(table.cosine.data, table.cosine.size());
  const float* sine = tape.placed_once(table.sine.data, table.sine.size());
  Var y = tape.variable(rows, x->value.cols, x->needs_grad);
  tape.k.rope(y->value.data, x->value.data, cosine, sine, 1.0f, rows, heads, width, context);
  tape.record(y, {x},
              [=](Tape& t, float* g) { t.k.rope(g, y->grad, cosine, sine, -1.0f, rows, heads, width, context); });
  return y;
}

// All tiles in one launch a product.
static Var attention_on_device(Tape& tape, Var q, Var k, Var v, int heads, int context) {
  const int rows = q->value.rows, cols = q->value.cols, width = cols / heads, tiles = rows / context * heads;
  const float factor = elementary::rsqrt(static_cast<float>(width));
  const int64_t square = int64_t{context} * context, sequence = int64_t{context} * cols;
  // A head [context, width] of q, k, v or y as it lies or transposed, and its square of scores.
  const Products::Place head = {cols, 1, sequence, width}, turned = {1, cols, sequence, width};
  const Products::Place scores = {context, 1, heads * square, square}, flipped = {1, context, heads * square, square};
  Var y = tape.variable(rows, cols, true);
  float* p = tape.floats.take<float>(tiles * square);
  const DeviceKernels& device = *tape.k.device;
  device.products({p, scores, q->value.data, head, k->value.data, turned, context, context, width, tiles, heads});
  tape.k.causal_softmax(p, factor, context, tiles);
  device.products({y->value.data, head, p, scores, v->value.data, head, context, width, context, tiles, heads});
  tape.record(y, {q, k, v}, [=](Tape& t, float* dq, float* dk, float* dv) {
    float* ds = t.floats.take<float>(tiles * square);
    const DeviceKernels& own = *t.k.device;
    own.products({dv, head, p, flipped, y->grad, head, context, width, context, tiles, heads});
    own.products({ds, scores, y->grad, head, v->value.data, turned, context, context, width, tiles, heads});
    t.k.causal_softmax_backward(ds, p, factor, context, tiles);
    own.products({dq, head, ds, scores, k->value.data, head, context, width, context, tiles, heads});
    own.products({dk, head, ds, flipped, q->value.data, head, context, width, context, tiles, heads});
  });
  return y;
}

Var causal_attention(Tape& tape, Var q, Var k, Var v, int heads, int context) {
  if (tape.k.device != nullptr) return attention_on_device(tape, q, k, v, heads, context);
  const int rows = q->value.rows, cols = q->value.cols, width = cols / heads, tiles = rows / context * heads;
  const float factor = elementary::rsqrt(static_cast<float>(width));
  const int64_t square = int64_t{context} * context;
  // Tile i = (sequence, head): the head's columns of the sequence's rows.
  const auto corner = [=](int i) { return int64_t{i / heads} * context * cols + int64_t{i % heads} * width; };
  Var y = tape.variable(rows, cols, true);
  float* p = tape.arena.take<float>(tiles * square);
  float* packed = tape.arena.take<float>(tape.k.packed_size(context, context) + tape.k.packed_size(context, width) +
                                         tape.k.packed_size(width, context));
  for (int i = 0; i < tiles; ++i) {
    const int64_t at = corner(i);
    float* s = p + i * square;
    tape.k.pack(packed, k->value.data + at, 1, cols, width, context);  // S = Q K^T
    tape.k.gemm(s, context, q->value.data + at, cols, 1, packed, context, context, width);
    tape.k.causal_softmax(s, factor, context, 1);
    tape.k.pack(packed, v->value.data + at, cols, 1, context, width);  // Y = P V
    tape.k.gemm(y->value.data + at, cols, s, context, 1, packed, context, width, context);
  }
  tape.record(y, {q, k, v}, [=](Tape& t, float* dq, float* dk, float* dv) {
    float* ds = t.arena.take<float>(square);
    for (int i = 0; i < tiles; ++i) {
      const int64_t at = corner(i);
      const float *s = p + i * square, *dy = y->grad + at;
      t.k.pack(packed, dy, cols, 1, context, width);  // dV = P^T dY
      t.k.gemm(dv + at, cols, s, 1, context, packed, context, width, context);
      t.k.pack(packed, v->value.data + at, 1, cols, width, context);  // dP = dY V^T
      t.k.gemm(ds, context, dy, cols, 1, packed, context, context, width);
      t.k.causal_softmax_backward(ds, s, factor, context, 1);
      t.k.pack(packed, k->value.data + at, cols, 1, context, width);  // dQ = dS K
      t.k.gemm(dq + at, cols, ds, context, 1, packed, context, width, context);
      t.k.pack(packed, q->value.data + at, cols, 1, context, width);  // dK = dS^T Q
      t.k.gemm(dk + at, cols, ds, 1, context, packed, context, width, context);
    }
  });
  return y;
}

// sum over rows of weight * row_loss, divided by the number of rows: a number of the host.
static Var weighted_mean(Tape& tape, float* row_loss, const float* weights, int rows, bool needs_grad) {
  Var loss = tape.variable(tape.arena.tensor(1, 1), needs_grad);
  const float total = weights ? tape.k.dot(row_loss, weights, rows) : tape.k.sum(row_loss, rows);
  loss->value.data[0] = total / static_cast<float>(rows);
  return loss;
}

// While the teacher records, its outputs are kept; null then and without one.
static const Teacher* heard(Tape& tape, Tensor outputs) {
  Teacher* teacher = tape.pass.teacher;
  if (teacher == nullptr) return nullptr;
  if (!teacher->records) return tape.pass.training ? teacher : nullptr;
  teacher->outputs.assign(outputs.data, outputs.data + outputs.size());
  return nullptr;
}

// Cross-entropy with targets t = (1 - share) * onehot + share * softmax(teacher): the mix of the two losses, whose
// gradient is p - t.
static Var followed_cross_entropy(Tape& tape, Var logits, const int32_t* labels, const float* weights,
                                  const Teacher& teacher) {
  const int rows = logits->value.rows, cols = logits->value.cols;
  float* p = tape.arena.take<float>(logits->value.size());
  float* target = tape.arena.take<float>(logits->value.size());
  float* row_loss = tape.arena.take<float>(rows);
  tape.k.softmax_loss(target, row_loss, teacher.outputs.data(), labels, rows, cols);
  tape.k.softmax_loss(p, row_loss, logits->value.data, labels, rows, cols);
  for (int r = 0; r < rows; ++r) {
    float* t = target + int64_t{r} * cols;
    const float* y = logits->value.row(r);
    float mean = 0;  // of the logits under the teacher's probabilities
    for (int c = 0; c < cols; ++c) mean += t[c] * y[c];
    // -ln p[label] + share * (y[label] - mean): logits of both terms have the same normaliser
    row_loss[r] += teacher.share * (y[labels[r]] - mean);
    for (int c = 0; c < cols; ++c) t[c] = teacher.share * t[c] + (c == labels[r] ? 1.0f - teacher.share : 0.0f);
  }
  Var loss = weighted_mean(tape, row_loss, weights, rows, logits->needs_grad);
  tape.record(loss, {logits}, [=](Tape&, float* g) {
    const float factor = loss->grad[0] / static_cast<float>(rows);
    for (int r = 0; r < rows; ++r) {
      const float of_row = weights ? factor * weights[r] : factor;
      for (int64_t i = int64_t{r} * cols; i < int64_t{r + 1} * cols; ++i) g[i] = (p[i] - target[i]) * of_row;
    }
  });
  return loss;
}

Var cross_entropy(Tape& tape, Var logits, const int32_t* labels, const float* weights) {
  const int rows = logits->value.rows, cols = logits->value.cols;
  if (Answers* answers = tape.pass.answers) {
    const Tensor outputs = tape.on_host(logits->value);
    for (int r = 0; r < rows; ++r) {
      const float* y = outputs.row(r);
      answers->chosen.push_back(static_cast<int32_t>(std::max_element(y, y + cols) - y));
      answers->labels.push_back(labels[r]);
    }
    if (answers->keeps_outputs) {
      answers->classes = cols;
      answers->outputs.insert(answers->outputs.end(), outputs.data, outputs.data + outputs.size());
    }
  }
  if (const Teacher* teacher = heard(tape, logits->value))
    return followed_cross_entropy(tape, logits, labels, weights, *teacher);
  labels = tape.placed(labels, rows);
  weights = tape.placed(weights, rows);
  float* p = tape.floats.take<float>(logits->value.size());
  float* row_loss = tape.floats.take<float>(rows);
  tape.k.softmax_loss(p, row_loss, logits->value.data, labels, rows, cols);
  Var loss = weighted_mean(tape, row_loss, weights, rows, logits->needs_grad);
  tape.record(loss, {logits}, [=](Tape& t, float* g) {
    const float factor = loss->grad[0] / static_cast<float>(rows);
    t.k.softmax_loss_backward(g, p, labels, weights, factor, rows, cols);
  });
  return loss;
}

static void scale_columns(const Tape& tape, float* y, const float* factors, int rows, int cols) {
  if (tape.k.device != nullptr) return tape.k.device->scale_columns(y, factors, rows, cols);
  for (int r = 0; r < rows; ++r) tape.k.multiply(y + int64_t{r} * cols, factors, cols);
}

// A copy of x with column c times factors[c].
static float* scaled_columns(Tape& tape, Tensor x, const float* factors) {
  float* copy = tape.floats.take<float>(x.size());
  tape.copy(copy, x.data, x.size());
  scale_columns(tape, copy, factors, x.rows, x.cols);
  return copy;
}

Var mean_squared_error(Tape& tape, Var y, Tensor target, const float* weights, const float* roots) {
  const int rows = y->value.rows, cols = y->value.cols;
  float* row_loss = tape.floats.take<float>(rows);
  if (const Teacher* teacher = heard(tape, y->value)) {
    const Tensor mixed = tape.arena.tensor(rows, cols);
    for (int64_t i = 0; i < mixed.size(); ++i)
      mixed.data[i] =
          (1.0f - teacher->share) * target.data[i] + teacher->share * teacher->outputs[static_cast<size_t>(i)];
    target = mixed;
  }
  target = tape.placed(target);
  weights = tape.placed(weights, rows);
  roots = tape.placed(roots, cols);
  const float* own = roots == nullptr ? y->value.data : scaled_columns(tape, y->value, roots);
  const float* wanted = roots == nullptr ? target.data : scaled_columns(tape, target, roots);
  tape.k.square_loss(row_loss, own, wanted, rows, cols);
  Var loss = weighted_mean(tape, row_loss, weights, rows, y->needs_grad);
  tape.record(loss, {y}, [=](Tape& t, float* g) {
    const float factor = loss->grad[0] / static_cast<float>(rows);
    t.k.square_loss_backward(g, own, wanted, weights, factor, rows, cols);
    if (roots != nullptr) scale_columns(t, g, roots, rows, cols);
  });
  return loss;
}

namespace {

// Vector i of example n; gradients have the shapes of their values.
struct Vectors {
  float *x, *y;
  int width, parts;
  float* of(int n, int i) const { return i == 0 ? x + int64_t{n} * width : y + (int64_t{n} * parts + (i - 1)) * width; }
};

void add_scaled(float* to, const float* from, float factor, int n) {
  for (int c = 0; c < n; ++c) to[c] += from[c] * factor;
}

}  // namespace

Var interaction(Tape& tape, Var x, Var y) {
  const int rows = x->value.rows, width = x->value.cols, parts = y->value.cols / width;
  const Vectors z = {x->value.data, y->value.data, width, parts};
  Var out = tape.variable(rows, width + parts * (parts + 1) / 2, true);
  for (int n = 0; n < rows; ++n) {
    float* row = out->value.row(n);
    std::copy_n(z.of(n, 0), width, row);
    float* next = row + width;
    for (int i = 1; i <= parts; ++i)
      for (int j = 0; j < i; ++j) *next++ = tape.k.dot(z.of(n, i), z.of(n, j), width);
  }
  const int cols = out->value.cols;
  tape.record(out, {x, y}, [=](Tape& t, float* dx, float* dy) {
    const Vectors g = {dx, dy, width, parts};
    std::fill_n(dx, x->value.size(), 0.0f);
    std::fill_n(dy, y->value.size(), 0.0f);
    for (int n = 0; n < rows; ++n) {
      const float* upstream = out->grad + int64_t{n} * cols;
      t.k.add(g.of(n, 0), upstream, width);
      const float* next = upstream + width;
      for (int i = 1; i <= parts; ++i)
        for (int j = 0; j < i; ++j, ++next) {
          add_scaled(g.of(n, i), z.of(n, j), *next, width);
          add_scaled(g.of(n, j), z.of(n, i), *next, width);
        }
    }
  });
  return out;
}

float* pack(Tape& tape, Matrix b, int k, int n) {
  float* packed = tape.arena.take<float>(tape.k.packed_size(k, n));
  tape.k.pack(packed, b.data, b.row, b.col, k, n);
  return packed;
}

void multiply_packed(Tape& tape, float* c, int64_t c_row, Matrix a, const float* packed, int m, int n, int k) {
  // Rows are independent, so any split over threads gives the same bits; below 64^3 * 8 a fork costs more.
  const int threads = int64_t{m} * n * k < int64_t{1} << 21 ? 1 : tape.pass.threads;
  if (threads == 1) return tape.k.gemm(c, c_row, a.data, a.row, a.col, packed, m, n, k);
  const int share = ((m + threads - 1) / threads + 7) / 8 * 8;
  parallel_for(0, m, share, threads, 1, [&](int64_t begin) {
    const int rows = static_cast<int>(std::min<int64_t>(share, m - begin));
    tape.k.gemm(c + begin * c_row, c_row, a.data + begin * a.row, a.row, a.col, packed, rows, n, k);
  });
}

void multiply(Tape& tape, float* c, int64_t c_row, Matrix a, Matrix b, int m, int n, int k) {
  if (tape.k.device != nullptr)
    return tape.k.device->products({c, {c_row, 1}, a.data, {a.row, a.col}, b.data, {b.row, b.col}, m, n, k});
  constexpr int few = 16;  // rows of A that do not repay packing B
  if (b.col == 1 && m <= few && n % tape.k.panel_width == 0)
    return tape.k.gemm_in_place(c, c_row, a.data, a.row, a.col, b.data, b.row, m, n, k);
  multiply_packed(tape, c, c_row, a, pack(tape, b, k, n), m, n, k);
}

}  // namespace fp4::sim
