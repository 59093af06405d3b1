// Decides: how gradients flow. A tape records, during the forward pass, one closure per operation; backward()
// calls them in reverse. Variables, closures and buffers live in an arena that is reset every step. A gradient
// is written by its first user and added to by the others, in tape order, so the order of every sum is fixed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/kernels/train_kernels.h"
#include "sim/tape/tensor.h"

namespace fp4::sim {

class Trace;
class ForwardLog;

/// A network whose outputs a training follows, beside the labels. Losses keep its outputs while it `records` and mix
/// them into their targets afterwards; sim/train/train.cpp lets it speak before each step.
struct Teacher {
  float share = 0;  // of the loss, the labels having the rest
  bool records = false;
  std::vector<float> outputs;  // logits or values of the batch
};

/// What a network answers: for each row that cross_entropy sees, the class of the largest logit (of equals the first)
/// and the right one.
struct Answers {
  std::vector<int32_t> chosen, labels;
  bool keeps_outputs = false;
  int classes = 0;
  std::vector<float> outputs;  // logits, row by row, where they are kept
};

/// What an operation may need to know about the run it is part of.
struct Pass {
  uint64_t seed = 0;
  uint32_t step = 0;     // 1, 2, ..: the step being trained; validation uses the last one
  bool training = true;  // false: nothing is recorded and no state (held amax) changes
  bool quantise = true;  // false: loss_hp, every layer in high precision
  int threads = 1;
  int rank = 0, ranks = 1;  // a batch is shared by `ranks` processes, this one takes part `rank` (sim/train/ranks.h)
  Trace* trace = nullptr;
  Teacher* teacher = nullptr;
  Answers* answers = nullptr;  // where losses note them
  ForwardLog* log = nullptr;   // where layers note their forward products (forward_log.h)
};

struct Variable {
  Tensor value;
  float* grad = nullptr;  // same shape; valid once has_grad
  bool has_grad = false;
  bool needs_grad = false;
};
using Var = Variable*;

class Tape {
 public:
  Tape(Arena& arena, const Kernels& kernels, Pass& pass) : Tape(arena, arena, kernels, pass) {}
  /// `floats`: where values and gradients lie, in memory that the kernels reach; `arena` is the host's.
  Tape(Arena& arena, Arena& floats, const Kernels& kernels, Pass& pass)
      : arena(arena), floats(floats), k(kernels), pass(pass) {}

  Arena& arena;
  Arena& floats;
  const Kernels& k;
  Pass& pass;

  /// A variable over existing memory, or over fresh, uninitialised memory.
  Var variable(Tensor value, bool needs_grad);
  Var variable(int rows, int cols, bool needs_grad) { return variable(floats.tensor(rows, cols), needs_grad); }
  /// Numbers of the host that no gradient reaches.
  Var constant(Tensor value) { return variable(placed(value), false); }

  /// Numbers of the host where the kernels reach them: themselves, or a copy on the device for this step.
  template <class T>
  const T* placed(const T* host, int64_t n) {
    if (k.device == nullptr || host == nullptr) return host;
    T* const copy = floats.take<T>(n);
    k.device->upload(copy, host, static_cast<int64_t>(sizeof(T)) * n);
    return copy;
  }
  Tensor placed(Tensor host) { return {const_cast<float*>(placed(host.data, host.size())), host.rows, host.cols}; }
  /// The same of numbers that stay as they are while the tape lives: copied once.
  const float* placed_once(const float* host, int64_t n);
  /// The way back: the tensor itself, or a copy in the host's arena. On a device this waits for its kernels.
  Tensor on_host(Tensor t);
  void copy(float* to, const float* from, int64_t n);
  void zero(float* x, int64_t n);

  /// Records `step(tape)`, to be called in reverse order if `result` has received a gradient by then.
  template <class Step>
  void record(Var result, Step step) {
    static_assert(std::is_trivially_destructible_v<Step>, "closures are dropped with the arena");
    if (!pass.training || !result->needs_grad) return;
    Entry* entry = arena.take<Entry>(1);
    Step* stored = new (arena.take<Step>(1)) Step(std::move(step));
    *entry = {[](void* s, Tape& tape) { (*static_cast<Step*>(s))(tape); }, stored, result, last_};
    last_ = entry;
  }

  /// The same where every input has a gradient: `write(tape, g..)` writes a contribution to each.
  template <size_t count, class Write>
  void record(Var result, const Var (&inputs)[count], Write write) {
    record(result, [write, of = std::to_array(inputs)](Tape& tape) {
      std::array<float*, count> g;
      for (size_t i = 0; i < count; ++i) g[i] = tape.new_gradient(of[i]);
      std::apply([&](auto... each) { write(tape, each...); }, g);
      for (size_t i = 0; i < count; ++i) tape.add_gradient(of[i], g[i]);
    });
  }

  /// Where an operation writes its contribution to x's gradient: the gradient itself the first time, a
  /// temporary afterwards. add_gradient(x, p) completes it. Call the two in pairs, only if x->needs_grad.
  float* new_gradient(Var x);
  void add_gradient(Var x, float* contribution);

  /// Sets d(loss)/d(loss) = seed and runs the tape backwards.
  void backward(Var loss, float seed = 1.0f);
  /// Forgets everything recorded and every variable; a new generation begins.
  void reset();
  uint64_t generation() const { return generation_; }

 private:
  struct Entry {
    void (*call)(void*, Tape&);
    void* step;
    Var result;
    Entry* previous;
  };
  Entry* last_ = nullptr;
  uint64_t generation_ = 1;
  std::optional<Arena> lasting_;  // of placed_once
  std::map<const float*, const float*> copies_;
};

}  // namespace fp4::sim
