// Routing, the rows of each expert, and their weighted sum; see experts.h.
#include "sim/net/experts.h"

#include <algorithm>
#include <cstring>

#include "fp4/elementary.h"

namespace fp4::sim {

namespace {

struct ChosenExpert {
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

// Who takes which token.
struct Routing {
  int tokens, width, experts, top;
  Tensor p;               // [tokens, experts], the router's softmax
  ChosenExpert* choices;  // [tokens, top]
  Share* shares;          // [experts]
  ChosenExpert* of(int token) const { return choices + int64_t{token} * top; }
};

Routing route(Tape& tape, Tensor logits, int width, int top) {
  const int tokens = logits.rows, experts = logits.cols;
  Routing r = {.tokens = tokens, .width = width, .experts = experts, .top = top};
  r.p = tape.arena.tensor(tokens, experts);
  r.choices = tape.arena.take<ChosenExpert>(int64_t{tokens} * top);
  r.shares = tape.arena.take<Share>(experts);
  std::memcpy(r.p.data, logits.data, sizeof(float) * static_cast<size_t>(r.p.size()));
  for (int i = 0; i < experts; ++i) r.shares[i] = {tape.arena.take<int32_t>(tokens)};
  for (int t = 0; t < tokens; ++t) {
    float* row = r.p.data + int64_t{t} * experts;
    softmax(row, experts);
    ChosenExpert* chosen = r.of(t);
    chosen[0] = {static_cast<int32_t>(std::max_element(row, row + experts) - row)};
    if (top == 2) {
      chosen[1].expert = chosen[0].expert == 0 ? 1 : 0;
      for (int i = 0; i < experts; ++i)
        if (i != chosen[0].expert && row[i] > row[chosen[1].expert]) chosen[1].expert = i;
      if (chosen[1].expert < chosen[0].expert) std::swap(chosen[0], chosen[1]);
    }
    const float sum = top == 2 ? row[chosen[0].expert] + row[chosen[1].expert] : 1.0f;
    for (int c = 0; c < top; ++c) {
      Share& share = r.shares[chosen[c].expert];
      chosen[c].weight = row[chosen[c].expert] / sum;
      chosen[c].row = share.count;
      share.tokens[share.count++] = t;
    }
  }
  return r;
}

// The rows of each expert. Backward of all of them stands at the one with the most tokens, which has a gradient.
void share_out(Tape& tape, Var x, const Routing& r) {
  for (int i = 0; i < r.experts; ++i) {
    Share& share = r.shares[i];
    if (share.count == 0) continue;
    share.in = tape.variable(share.count, r.width, true);
    for (int k = 0; k < share.count; ++k)
      std::memcpy(share.in->value.row(k), x->value.row(share.tokens[k]), sizeof(float) * static_cast<size_t>(r.width));
  }
  const Share* fullest = std::max_element(r.shares, r.shares + r.experts,
                                          [](const Share& a, const Share& b) { return a.count < b.count; });
  tape.record(fullest->in, {x}, [=](Tape& t, float* dx) {
    std::memset(dx, 0, sizeof(float) * static_cast<size_t>(x->value.size()));
    for (int i = 0; i < r.experts; ++i)
      for (int k = 0; k < r.shares[i].count; ++k)
        t.k.add(dx + int64_t{r.shares[i].tokens[k]} * r.width, r.shares[i].in->grad + int64_t{k} * r.width, r.width);
  });
}

Var weighted_sum(Tape& tape, const Routing& r) {
  Var y = tape.variable(r.tokens, r.width, true);
  for (int t = 0; t < r.tokens; ++t) {
    float* sum = y->value.row(t);
    std::fill(sum, sum + r.width, 0.0f);
    for (int c = 0; c < r.top; ++c) {
      const ChosenExpert& chosen = r.of(t)[c];
      const float* out = r.shares[chosen.expert].out->value.row(chosen.row);
      for (int d = 0; d < r.width; ++d) sum[d] += chosen.weight * out[d];
    }
  }
  return y;
}

void outputs_backward(Tape& tape, const Routing& r, Var y) {
  for (int i = 0; i < r.experts; ++i) {
    const Share& share = r.shares[i];
    if (share.count == 0) continue;
    float* dout = tape.new_gradient(share.out);
    for (int k = 0; k < share.count; ++k) {
      const int token = share.tokens[k];
      const ChosenExpert* chosen = r.of(token);
      const float weight = (chosen[0].expert == i ? chosen[0] : chosen[r.top - 1]).weight;
      tape.k.scale(dout + int64_t{k} * r.width, y->grad + int64_t{token} * r.width, weight, r.width);
    }
    tape.add_gradient(share.out, dout);
  }
}

// `push` balances the experts: what the share of tokens of each adds to its probability's gradient.
void router_backward(Tape& tape, const Routing& r, Var y, Var logits, float push) {
  float* dlogits = tape.new_gradient(logits);
  const auto choices_made = static_cast<float>(int64_t{r.tokens} * r.top);
  for (int token = 0; token < r.tokens; ++token) {
    const ChosenExpert* chosen = r.of(token);
    const float* row = r.p.data + int64_t{token} * r.experts;
    float* dp = dlogits + int64_t{token} * r.experts;
    for (int i = 0; i < r.experts; ++i) dp[i] = push * static_cast<float>(r.shares[i].count) / choices_made;
    float dw[2] = {0, 0};
    for (int c = 0; c < r.top; ++c)
      dw[c] = tape.k.dot(y->grad + int64_t{token} * r.width, r.shares[chosen[c].expert].out->value.row(chosen[c].row),
                         r.width);
    if (r.top == 1) {
      dp[chosen[0].expert] += dw[0];
    } else {  // w_0 = p_0 / (p_0 + p_1), w_1 = 1 - w_0
      const float sum = row[chosen[0].expert] + row[chosen[1].expert];
      dp[chosen[0].expert] += (dw[0] - dw[1]) * chosen[1].weight / sum;
      dp[chosen[1].expert] += (dw[1] - dw[0]) * chosen[0].weight / sum;
    }
    float mean = 0;
    for (int i = 0; i < r.experts; ++i) mean += row[i] * dp[i];
    for (int i = 0; i < r.experts; ++i) dp[i] = row[i] * (dp[i] - mean);
  }
  tape.add_gradient(logits, dlogits);
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
  const Var logits = router_(tape, x);
  const Routing r = route(tape, logits->value, shape_.width, shape_.top);
  share_out(tape, x, r);
  for (int i = 0; i < r.experts; ++i) {
    const SwiGlu& e = experts_[static_cast<size_t>(i)];
    if (r.shares[i].count == 0) {
      for (const Linear* l : {&e.gate, &e.up, &e.down}) l->rest(tape);
      continue;
    }
    r.shares[i].out = e(tape, r.shares[i].in);
  }
  const Var y = weighted_sum(tape, r);
  const float push = shape_.balance * static_cast<float>(r.experts) / static_cast<float>(r.tokens);
  tape.record(y, [=](Tape& t) {
    outputs_backward(t, r, y);
    router_backward(t, r, y, logits, push);
  });
  return y;
}

}  // namespace fp4::sim
