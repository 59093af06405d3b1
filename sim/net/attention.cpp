// Heads are copied out of [B*T, H*W] into contiguous operands and back; see attention.h.
#include "sim/net/attention.h"

#include <algorithm>
#include <cstring>

#include "fp4/elementary.h"
#include "sim/engine/quantized_linear.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

namespace {

// The operands of one head of one sequence.
struct Head {
  Var q, k, v_transposed, y;
};

// Rows of a head inside [B*T, H*W]: copied to `head` [T, W], or from it.
struct Place {
  int64_t corner;
  int cols, width, context;
  const float* row(const float* all, int t) const { return all + corner + int64_t{t} * cols; }
  float* row(float* all, int t) const { return all + corner + int64_t{t} * cols; }
};

void take(const Place& at, const float* all, float* head) {
  for (int t = 0; t < at.context; ++t)
    std::memcpy(head + int64_t{t} * at.width, at.row(all, t), sizeof(float) * static_cast<size_t>(at.width));
}

void put(const Place& at, const float* head, float* all) {
  for (int t = 0; t < at.context; ++t)
    std::memcpy(at.row(all, t), head + int64_t{t} * at.width, sizeof(float) * static_cast<size_t>(at.width));
}

void take_transposed(const Place& at, const float* all, float* head) {
  for (int t = 0; t < at.context; ++t)
    for (int w = 0; w < at.width; ++w) head[int64_t{w} * at.context + t] = at.row(all, t)[w];
}

void put_transposed(const Place& at, const float* head, float* all) {
  for (int t = 0; t < at.context; ++t)
    for (int w = 0; w < at.width; ++w) at.row(all, t)[w] = head[int64_t{w} * at.context + t];
}

// Every column minus its mean over the tokens; sums in ascending order.
void take_means_out(float* head, int context, int width) {
  for (int w = 0; w < width; ++w) {
    float sum = 0;
    for (int t = 0; t < context; ++t) sum += head[int64_t{t} * width + w];
    const float mean = sum / static_cast<float>(context);
    for (int t = 0; t < context; ++t) head[int64_t{t} * width + w] -= mean;
  }
}

// What the softmax's backward takes from every dP of a row (`delta`, never derived), and the row sums of dY times an
// output, which prepare() writes for the last two words before that backward runs.
struct RowTerm {
  SoftmaxDelta word;
  float* sums;
};

float row_sum(const float* a, const float* b, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

Var causal_softmax(Tape& tape, Var s, float factor, RowTerm term) {
  const int n = s->value.rows;
  Var p = tape.variable(n, n, true);
  const size_t bytes = sizeof(float) * static_cast<size_t>(s->value.size());
  std::memcpy(p->value.data, s->value.data, bytes);
  tape.k.causal_softmax(p->value.data, factor, n, 1);
  tape.record(p, {s}, [=](Tape& t, float* ds) {
    std::memcpy(ds, p->grad, bytes);
    if (term.word == SoftmaxDelta::of_scores) {
      t.k.causal_softmax_backward(ds, p->value.data, factor, n, 1);
    } else {
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
          float& d = ds[int64_t{i} * n + j];
          d = factor * (p->value.row(i)[j] * (d - term.sums[i]));
        }
    }
  });
  return p;
}

// The exponentials of a softmax before they are divided by their sum, as one tile of a kernel has them: exp(factor *
// (s - max)) [T, T], 0 above the diagonal, and the sums of its rows, ascending. `sum_gradient` is written by divided().
struct Tile {
  Var e;
  float* sums;
  float* sum_gradient;
};

Tile causal_exponentials(Tape& tape, Var s, float factor, RowTerm term) {
  const int n = s->value.rows;
  const Tile tile = {tape.variable(n, n, true), tape.arena.take<float>(n), tape.arena.take<float>(n)};
  for (int i = 0; i < n; ++i) {
    const float* in = s->value.row(i);
    float* out = tile.e->value.row(i);
    const float top = *std::max_element(in, in + i + 1);
    float sum = 0;
    for (int j = 0; j <= i; ++j) sum += out[j] = elementary::exp(factor * (in[j] - top));
    std::fill(out + i + 1, out + n, 0.0f);
    tile.sums[i] = sum;
  }
  tape.record(tile.e, {s}, [=](Tape&, float* ds) {
    for (int i = 0; i < n; ++i) {
      const float* const d = tile.e->grad + int64_t{i} * n;
      const float of_row = term.word == SoftmaxDelta::of_output   ? tile.sum_gradient[i]
                           : term.word == SoftmaxDelta::of_scores ? -row_sum(tile.e->value.row(i), d, n) / tile.sums[i]
                                                                  : -term.sums[i] / tile.sums[i];
      for (int j = 0; j < n; ++j) ds[int64_t{i} * n + j] = factor * (tile.e->value.row(i)[j] * (d[j] + of_row));
    }
  });
  return tile;
}

// The product of the tile with V over the row sums, each the exact one of that row.
Var divided(Tape& tape, Var product, const Tile& tile) {
  const int rows = product->value.rows, cols = product->value.cols;
  Var y = tape.variable(rows, cols, true);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) y->value.row(r)[c] = product->value.row(r)[c] / tile.sums[r];
  tape.record(y, {product}, [=](Tape&, float* d) {
    for (int r = 0; r < rows; ++r) {
      float sum = 0;
      for (int c = 0; c < cols; ++c) {
        const float dy = y->grad[int64_t{r} * cols + c];
        d[int64_t{r} * cols + c] = dy / tile.sums[r];
        sum += dy * y->value.row(r)[c];
      }
      tile.sum_gradient[r] = -sum / tile.sums[r];
    }
  });
  return y;
}

// exp(factor (s - top)) of the scores of Q and K as they are, with the tops of the forward's rows, and over their sums
// where `divides`: what `recompute` full has in place of the forward's P, or exponentials.
void recompute_in_place(Tape& tape, Tensor p, Tensor scores, Tensor q, Tensor k, float factor, bool divides) {
  const int n = p.rows;
  const Tensor full = tape.arena.tensor(n, n);
  multiply(tape, full.data, n, {q.data, q.cols, 1}, {k.data, 1, k.cols}, n, n, q.cols);
  for (int i = 0; i < n; ++i) {
    const float* const s = scores.row(i);
    const float top = *std::max_element(s, s + i + 1);
    float sum = 0;
    for (int j = 0; j <= i; ++j) sum += elementary::exp(factor * (s[j] - top));
    for (int j = 0; j <= i; ++j) {
      const float e = elementary::exp(factor * (full.row(i)[j] - top));
      p.row(i)[j] = divides ? e / sum : e;
    }
  }
}

}  // namespace

Attention::Attention(Builder& build, const std::string& name, int width, int heads, int context)
    : engine_(&build.engine), heads_(heads), context_(context) {
  const double multiply_adds = static_cast<double>(context) * width;
  qk_ = engine_->add_product(name + ".qk", width / heads, context, multiply_adds);
  pv_ = engine_->add_product(name + ".pv", context, width / heads, multiply_adds);
}

// long: one pass over the heads, recorded in the order in which it runs backward
Var Attention::operator()(Tape& tape, Var q, Var k, Var v) const {
  const AttentionRules& rules = engine_->attention();
  if (!engine_->is_quantised(qk_) && !engine_->is_quantised(pv_) && !rules.stores())
    return causal_attention(tape, q, k, v, heads_, context_);
  const int rows = q->value.rows, cols = q->value.cols, width = cols / heads_, context = context_;
  const int count = rows / context * heads_, per_sequence = heads_;
  const float factor = elementary::rsqrt(static_cast<float>(width));
  const auto place = [=](int i) {
    return Place{int64_t{i / per_sequence} * context * cols + int64_t{i % per_sequence} * width, cols, width, context};
  };
  const bool centers = engine_->centers_keys() && engine_->is_quantised(qk_);
  Head* heads = tape.arena.take<Head>(count);
  for (int i = 0; i < count; ++i) {
    heads[i] = {tape.variable(context, width, true), tape.variable(context, width, true),
                tape.variable(width, context, true), nullptr};
    take(place(i), q->value.data, heads[i].q->value.data);
    take(place(i), k->value.data, heads[i].k->value.data);
    engine_->store_in_cache(tape, qk_, heads[i].k->value, rules.keys == CacheAxis::channel, i);
    if (centers) take_means_out(heads[i].k->value.data, context, width);
    take_transposed(place(i), v->value.data, heads[i].v_transposed->value.data);
    engine_->store_in_cache(tape, pv_, heads[i].v_transposed->value, rules.values == CacheAxis::token, i);
  }
  // Runs after the products of all heads.
  tape.record(heads[0].q, {q, k, v}, [=](Tape&, float* dq, float* dk, float* dv) {
    for (int i = 0; i < count; ++i) {
      if (centers) take_means_out(heads[i].k->grad, context, width);
      put(place(i), heads[i].q->grad, dq);
      put(place(i), heads[i].k->grad, dk);
      put_transposed(place(i), heads[i].v_transposed->grad, dv);
    }
  });
  Var y = tape.variable(rows, cols, true);
  const bool before_sum = rules.tile == SoftmaxTile::before_sum && engine_->is_quantised(pv_) && tape.pass.quantise;
  const SoftmaxDelta derived = before_sum ? SoftmaxDelta::of_output : SoftmaxDelta::of_scores;
  const SoftmaxDelta delta = rules.delta == SoftmaxDelta::derived ? derived : rules.delta;
  const bool recomputes = rules.recompute == Recompute::full;
  for (int i = 0; i < count; ++i) {
    Head& h = heads[i];
    const RowTerm term = {delta, tape.arena.take<float>(context)};
    const Var s = engine_->forward(tape, qk_, h.q, h.k, nullptr, false, i);
    Var p;
    Tile tile = {};
    if (before_sum) {
      tile = causal_exponentials(tape, s, factor, term);
      p = tile.e;
      h.y = divided(tape, engine_->forward(tape, pv_, p, h.v_transposed, nullptr, false, i), tile);
    } else {
      p = causal_softmax(tape, s, factor, term);
      h.y = engine_->forward(tape, pv_, p, h.v_transposed, nullptr, false, i);
    }
    put(place(i), h.y->value.data, y->value.data);
    if (delta == derived && !recomputes) continue;
    Tensor output = h.y->value;
    if (delta == SoftmaxDelta::of_full_output && tape.pass.training) {
      const Tensor quantised = engine_->multiplied_b(tape, pv_, h.v_transposed->value, i);
      const Tensor v = quantised.data != nullptr ? quantised : h.v_transposed->value;
      output = tape.arena.tensor(context, width);
      multiply(tape, output.data, width, {p->value.data, context, 1}, {v.data, 1, v.cols}, context, width, context);
      for (int r = 0; before_sum && r < context; ++r)
        for (int c = 0; c < width; ++c) output.row(r)[c] /= tile.sums[r];
    }
    // Before the backward passes of this head's pv and softmax.
    tape.record(h.y, [=](Tape& t) {
      for (int r = 0; r < context; ++r)
        term.sums[r] = row_sum(heads[i].y->grad + int64_t{r} * width, output.row(r), width);
      if (recomputes)
        recompute_in_place(t, p->value, s->value, heads[i].q->value, heads[i].k->value, factor, !before_sum);
    });
  }
  tape.record(y, [=](Tape& t) {
    for (int i = 0; i < count; ++i) {
      float* dy = t.new_gradient(heads[i].y);
      take(place(i), y->grad, dy);
      t.add_gradient(heads[i].y, dy);
    }
  });
  return y;
}

}  // namespace fp4::sim
