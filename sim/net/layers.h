// Decides: what models are made of. Parameters live in one contiguous buffer (weights, gradients), so that the
// optimizer, the digest and a checkpoint are single loops. Layers are numbered in construction order; the number
// places their random bits (fp4/rng.h) and names them in policies and traces.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/net/row_tables.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

/// How a parameter starts: constant + scale * N(0,1); the stream is (number of the parameter, weights).
struct Init {
  float constant = 0.0f;
  float scale = 0.0f;
};

class Parameters {
 public:
  /// Declares a [rows, cols] parameter; returns its number. All declarations come before allocate().
  int declare(std::string name, int rows, int cols, Init init);
  /// A table of rows that are stored and updated one by one; after all other declarations.
  int declare_table(std::string name, int rows, int cols, Init init, const TableRules& rules);
  void allocate(const Kernels& k, uint64_t seed);

  int count() const { return static_cast<int>(rows_.size()); }
  const std::string& name(int i) const { return rows_[static_cast<size_t>(i)].name; }
  Tensor value(int i) const;
  float* gradient(int i) const;
  /// The variable of a parameter in this step; the same one however often it is used.
  Var variable(Tape& tape, int i);
  /// Gradients that no operation has written become 0, so that optimizers see every element.
  void finish_gradients(Tape& tape);
  /// From here on values and gradients lie in memory of the kernels' device, where they have one: values() and the
  /// others then give its addresses.
  void place(const Kernels& k);
  /// The whole buffer of values where the host can read it: itself, or a copy that the next call overwrites.
  float* host_values() const;
  void set_values(const float* host);

  // The whole buffer: `total()` floats, each parameter padded with zeros to 16.
  float* values() const { return values_.data; }
  float* gradients() const { return gradients_.data; }
  int64_t total() const { return total_; }
  /// Without the tables, which lie at the end.
  int64_t dense_total() const { return dense_total_; }
  /// Null for a parameter that is no table.
  const TableRules* table_rules(int i) const {
    const Row& row = rows_[static_cast<size_t>(i)];
    return row.table ? &*row.table : nullptr;
  }

 private:
  struct Row {
    std::string name;
    int rows, cols;
    Init init;
    int64_t offset;
    std::optional<TableRules> table = {};
    Var variable = nullptr;
    uint64_t generation = 0;  // of the tape that `variable` belongs to
  };
  std::vector<Row> rows_;
  Arena memory_;
  const DeviceKernels* device_ = nullptr;
  mutable std::vector<float> copy_;  // of the device's values
  Tensor values_, gradients_;
  int64_t total_ = 0, dense_total_ = 0;
};

class LinearEngine;  // sim/engine/quantized_linear.h: what a recipe does to linear layers

/// Where the batches of a task that reads files come from: all examples in memory (the file is read once, before the
/// first step), or from the file in every step, whose pages are in the cache or are dropped from it before each batch.
/// The values, and so the digest, are the same.
enum class FileReading : uint8_t { memory, cached, cold };

/// Collects layers while a model is built.
class Builder {
 public:
  Builder(Parameters& parameters, LinearEngine& engine) : parameters(parameters), engine(engine) {}
  Parameters& parameters;
  LinearEngine& engine;
  FileReading files = FileReading::memory;  // as RunOptions say
  std::function<bool()> stop = {};          // asked while examples are made (sim/train/example_pool.h: in_pieces)
};

enum class Activation : uint8_t { none, relu };

/// Y = X W^T (+ bias), then the activation; X [N, in], W [out, in]. `quantisable` layers follow the recipe, the others
/// stay fp32.
class Linear {
 public:
  struct Shape {
    int in, out;
    float gain = 1.0f;  // initial weights gain * N(0,1)/sqrt(in)
    bool bias = true;
    bool quantisable = true;
  };
  Linear(Builder& build, const std::string& name, Shape shape);
  Var operator()(Tape& tape, Var x, Activation activation = Activation::none) const;
  /// In place of operator() in a step in which the layer gets no rows: rules over weights count steps.
  void rest(Tape& tape) const;

  int weight() const { return weight_; }

 private:
  Parameters* parameters_;
  LinearEngine* engine_;
  int layer_;
  int weight_;
  int bias_ = -1;
};

/// down(silu(gate(x)) * up(x)), three layers without bias: `gate`, `up` [ffn, width] and `down` [width, ffn] under the
/// name `at`; `gain` is that of `down`.
struct SwiGlu {
  SwiGlu(Builder& build, const std::string& at, int width, int ffn, float gain);
  Var operator()(Tape& tape, Var x) const;
  Linear gate, up, down;
};

/// Rows of a table [rows, width]. A rule quantises it as the linear layer that it is, X the one-hot rows and W the
/// transposed table: blocks lie along the table's rows.
class Embedding {
 public:
  /// Declares the table, `scale` * N(0,1), and later the layer, after all linear ones of the model.
  Embedding(Builder& build, const std::string& name, int rows, int width, float scale);
  void add_layer(Builder& build);
  Var operator()(Tape& tape, const int32_t* tokens, int n) const;

 private:
  Parameters* parameters_;
  LinearEngine* engine_ = nullptr;
  std::string name_;
  int rows_, width_, table_;
  int layer_ = -1;
};

class RmsNorm {
 public:
  RmsNorm(Builder& build, const std::string& name, int width);
  Var operator()(Tape& tape, Var x) const { return rms_norm(tape, x, parameters_->variable(tape, gain_)); }
  int gain() const { return gain_; }

 private:
  Parameters* parameters_;
  int gain_;
};

}  // namespace fp4::sim
