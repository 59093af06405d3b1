// Routing, the rows of each expert, and their weighted sum; see experts.h.
#include "sim/net/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fp4/elementary.h"

namespace fp4::sim {

namespace {

struct Choice {
  int32_t expert = 0;
  int32_t row = 0;  // in the expert's input
  float weight = 0;
};

// Of an expert: its tokens, its input and its output.
struct Share {
  int32_t* tokens = nullptr;
  int count = 0;
  Var in = nullptr, out = nullptr;
};

void softmax(float* p, int n) {
  const float largest = *std::max_element(p, p + n);
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += p[i] = elementary::exp(p[i] - largest);
  for (int i = 0; i < n; ++i) p[i] /= sum;
}

}  // namespace

Experts::Experts(Builder& build, const std::string& block, Shape shape)
    : shape_(shape),
      router_(build, block + "router", {.in = shape.width, .out = shape.experts, .bias = false, .quantisable = false}) {
  for (int i = 0; i < shape.experts; ++i)
    experts_.emplace_back(build, block + "expert" + std::to_string(i) + ".", shape.width, shape.ffn, shape.gain);
}

std::vector<const Linear*> Experts::readers() const {
  std::vector<const Linear*> all = {&router_};
  for (const SwiGlu& e : experts_) all.insert(all.end(), {&e.gate, &e.up});
  return all;
}

Var Experts::operator()(Tape& tape, Var x) const {
  const int tokens = x->value.rows, width = shape_.width, experts = shape_.experts, top = shape_.top;
  const Var logits = router_(tape, x);
  const Tensor p = tape.arena.tensor(tokens, experts);
  std::memcpy(p.data, logits->value.data, sizeof(float) * static_cast<size_t>(p.size()));
  Choice* const choices = tape.arena.take<Choice>(int64_t{tokens} * top);
  Share* const shares = tape.arena.take<Share>(experts);
  for (int i = 0; i < experts; ++i) shares[i] = {tape.arena.take<int32_t>(tokens)};
  for (int t = 0; t < tokens; ++t) {
    float* row = p.row(t);
    softmax(row, experts);
    Choice* chosen = choices + int64_t{t} * top;
    chosen[0] = {static_cast<int32_t>(std::max_element(row, row + experts) - row)};
    if (top == 2) {
      chosen[1].expert = chosen[0].expert == 0 ? 1 : 0;
      for (int i = 0; i < experts; ++i)
        if (i != chosen[0].expert && row[i] > row[chosen[1].expert]) chosen[1].expert = i;
      if (chosen[1].expert < chosen[0].expert) std::swap(chosen[0], chosen[1]);
    }
    const float sum = top == 2 ? row[chosen[0].expert] + row[chosen[1].expert] : 1.0f;
    for (int c = 0; c < top; ++c) {
      Share& share = shares[chosen[c].expert];
      chosen[c].weight = row[chosen[c].expert] / sum;
      chosen[c].row = share.count;
      share.tokens[share.count++] = t;
    }
  }

  // The rows of each expert. Backward of all of them stands at the one with the most tokens, which has a gradient.
  for (int i = 0; i < experts; ++i) {
    if (shares[i].count == 0) continue;
    shares[i].in = tape.variable(shares[i].count, width, true);
    for (int r = 0; r < shares[i].count; ++r)
      std::memcpy(shares[i].in->value.row(r), x->value.row(shares[i].tokens[r]),
                  sizeof(float) * static_cast<size_t>(width));
  }
  const Share* fullest =
      std::max_element(shares, shares + experts, [](const Share& a, const Share& b) { return a.count < b.count; });
  tape.record(fullest->in, [=](Tape& t) {
    float* dx = t.new_gradient(x);
    std::memset(dx, 0, sizeof(float) * static_cast<size_t>(x->value.size()));
    for (int i = 0; i < experts; ++i)
      for (int r = 0; r < shares[i].count; ++r)
        t.k.add(dx + int64_t{shares[i].tokens[r]} * width, shares[i].in->grad + int64_t{r} * width, width);
    t.add_gradient(x, dx);
  });
  for (int i = 0; i < experts; ++i) {
    const SwiGlu& e = experts_[static_cast<size_t>(i)];
    if (shares[i].count == 0) {
      for (const Linear* l : {&e.gate, &e.up, &e.down}) l->rest(tape);
      continue;
    }
    shares[i].out = e(tape, shares[i].in);
  }

  Var y = tape.variable(tokens, width, true);
  for (int t = 0; t < tokens; ++t) {
    float* sum = y->value.row(t);
    std::fill(sum, sum + width, 0.0f);
    for (int c = 0; c < top; ++c) {
      const Choice& chosen = choices[int64_t{t} * top + c];
      const float* out = shares[chosen.expert].out->value.row(chosen.row);
      for (int d = 0; d < width; ++d) sum[d] += chosen.weight * out[d];
    }
  }
  const float push = shape_.balance * static_cast<float>(experts) / static_cast<float>(tokens);
  tape.record(y, [=](Tape& t) {
    for (int i = 0; i < experts; ++i) {
      if (shares[i].count == 0) continue;
      float* dout = t.new_gradient(shares[i].out);
      for (int r = 0; r < shares[i].count; ++r) {
        const int token = shares[i].tokens[r];
        const Choice* chosen = choices + int64_t{token} * top;
        const float weight = (chosen[0].expert == i ? chosen[0] : chosen[top - 1]).weight;
        t.k.scale(dout + int64_t{r} * width, y->grad + int64_t{token} * width, weight, width);
      }
      t.add_gradient(shares[i].out, dout);
    }
    float* dlogits = t.new_gradient(logits);
    for (int token = 0; token < tokens; ++token) {
      const Choice* chosen = choices + int64_t{token} * top;
      const float* row = p.data + int64_t{token} * experts;
      float* dp = dlogits + int64_t{token} * experts;
      const auto choices_made = static_cast<float>(int64_t{tokens} * top);
      for (int i = 0; i < experts; ++i) dp[i] = push * static_cast<float>(shares[i].count) / choices_made;
      float dw[2] = {0, 0};
      for (int c = 0; c < top; ++c)
        dw[c] =
            t.k.dot(y->grad + int64_t{token} * width, shares[chosen[c].expert].out->value.row(chosen[c].row), width);
      if (top == 1) {
        dp[chosen[0].expert] += dw[0];
      } else {  // w_0 = p_0 / (p_0 + p_1), w_1 = 1 - w_0
        const float sum = row[chosen[0].expert] + row[chosen[1].expert];
        dp[chosen[0].expert] += (dw[0] - dw[1]) * chosen[1].weight / sum;
        dp[chosen[1].expert] += (dw[1] - dw[0]) * chosen[0].weight / sum;
      }
      float mean = 0;
      for (int i = 0; i < experts; ++i) mean += row[i] * dp[i];
      for (int i = 0; i < experts; ++i) dp[i] = row[i] * (dp[i] - mean);
    }
    t.add_gradient(logits, dlogits);
  });
  return y;
}

}  // namespace fp4::sim
