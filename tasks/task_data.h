// Decides: what the tasks share: numbers of data sets, outlier parameters, walking a pool in a run's own order.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/rules/config.h"
#include "sim/tape/autograd.h"
#include "sim/tape/tensor.h"
#include "sim/train/example_pool.h"
#include "sim/train/task.h"

namespace fp4::tasks {

using sim::DataSource;
using sim::Json;

/// Numbers of data sets (fp4/rng.h: `layer` of a data stream). Drawn with data_seed, but `order`.
enum class DataSet : uint32_t {
  teacher = 0,  // + parameter number
  pool = 16,
  pool_labels,
  pool_noise,
  pool_weights,
  validation,
  validation_labels,
  validation_noise,
  channels,      // outlier factors; + norm number (lm)
  outputs = 48,  // factors of the loss's gradient
  shapes = 64,
  order,
  times,
  samples,
};

inline DataSource source(uint64_t seed, DataSet set, uint32_t offset = 0, Purpose purpose = Purpose::data) {
  return {seed, static_cast<uint32_t>(set) + offset, purpose};
}

/// Of a configuration whose data_seed was settled (tasks/run.cpp): from 0.
inline uint64_t data_seed(const Json& config) { return config.at("task").at("data_seed").get<uint64_t>(); }
inline double number(const Json& config, const char* path) {
  return sim::at_path(config.at("task"), path)->get<double>();
}
inline int integer(const Json& config, const char* key) { return config.at("task").at(key).get<int>(); }
inline int batch_of(const Json& config) { return config.at("train").at("batch").get<int>(); }
inline int64_t examples_of(const Json& config) {
  return config.at("train").at("steps").get<int64_t>() * batch_of(config);
}

/// Bytes that programs may still take from this machine's memory; none where it does not say (only Linux does).
std::optional<double> free_memory();

/// Throws NoRoom (tasks/run.h) where the examples of a run, `bytes` each, and the order in which it walks through them
/// take more than `room`, and Error where they are more than a run can number.
void check_room(const Json& config, int64_t examples, int64_t bytes, std::optional<double> room = free_memory());

/// The parameters that every task has.
inline sim::Schema common_schema(double channel, double token) {
  return {
      {"data_seed", -1, "moves teacher, pool, outlier factors and validation set; -1: the run's seed", {}, -1, 9e15},
      {"outliers.channel", channel, "factors exp(c*N(0,1)) per channel, rms 1", {}, 0, 10},
      {"outliers.token", token, "weights exp(t*N(0,1) - t*t/2) per example on the training loss", {}, 0, 10}};
}

/// The parameter of tasks whose loss is a squared error.
inline sim::Field gradient_field() {
  return {"outliers.gradient", 0.0, "factors exp(g*N(0,1)) per output, rms 1, on the gradient of the loss", {}, 0, 10};
}
/// Square roots of those factors, for mean_squared_error; empty for g = 0.
inline std::vector<float> gradient_roots(const Json& config, int outputs) {
  const double g = number(config, "outliers.gradient");
  if (g == 0) return {};
  std::vector<float> roots = sim::channel_factors(outputs, g, source(data_seed(config), DataSet::outputs));
  for (float& root : roots) root = std::sqrt(root);
  return roots;
}

/// The examples of a batch of `batch` that a training step of this process takes: all of them without ranks.
struct BatchPart {
  int begin, count;
};
inline BatchPart part_of(const sim::Pass& pass, int batch) {
  return {pass.rank * (batch / pass.ranks), batch / pass.ranks};
}

/// The key of a pool: everything that its content depends on.
inline std::string pool_key(const Json& config) { return config.at("task").dump(); }

/// Rows of factors.size() numbers, each column times its factor.
inline void scale_columns(std::vector<float>& rows, const std::vector<float>& factors,
                          const std::function<bool()>& stop) {
  const int64_t cols = static_cast<int64_t>(factors.size());
  sim::in_pieces(static_cast<int64_t>(rows.size()) / cols, stop, [&](int64_t first, int64_t n) {
    for (int64_t row = first; row < first + n; ++row)
      sim::kernels().multiply(rows.data() + row * cols, factors.data(), cols);
  });
}

/// Weights of the training loss of n examples (lm: bytes); none where all are 1.
inline std::vector<float> loss_weights(const Json& config, int64_t n, const std::function<bool()>& stop) {
  const double t = number(config, "outliers.token");
  if (t == 0) return {};
  return sim::token_weights(n, t, source(data_seed(config), DataSet::pool_weights), stop);
}
/// Bytes of them for each example.
inline int64_t weight_bytes(const Json& config) { return number(config, "outliers.token") > 0 ? sizeof(float) : 0; }

/// The batches of a run: a permutation of the pool, a new one each time it has been walked through.
class Walk {
 public:
  Walk(int64_t pool, int batch, uint64_t seed) : pool_(static_cast<int>(pool)), batch_(batch), seed_(seed) {}

  /// Indices of the examples of step 1, 2, ..; a pure function of (seed, step).
  const int32_t* batch(int step) {
    indices_.resize(static_cast<size_t>(batch_));
    const int64_t first = int64_t{step - 1} * batch_;
    uint32_t epoch = static_cast<uint32_t>(first / pool_);
    size_t at = static_cast<size_t>(first % pool_);
    for (int32_t& index : indices_) {
      if (order_.empty() || epoch != epoch_) {
        DataSource s = source(seed_, DataSet::order);
        s.step = epoch;
        order_ = sim::permutation(pool_, s);
        epoch_ = epoch;
      }
      index = order_[at];
      if (++at == order_.size()) at = 0, ++epoch;
    }
    return indices_.data();
  }

 private:
  int pool_, batch_;
  uint64_t seed_;
  uint32_t epoch_ = 0;
  std::vector<int32_t> order_, indices_;
};

/// Rows `index` of [.., cols] data as one batch.
inline sim::Tensor gather(sim::Arena& arena, const float* data, int cols, const int32_t* index, int n) {
  sim::Tensor t = arena.tensor(n, cols);
  constexpr int ahead = 8;  // rows of a large pool come from far away
  for (int i = 0; i < n; ++i) {
    if (i + ahead < n)
      for (int c = 0; c < cols; c += 16) __builtin_prefetch(data + int64_t{index[i + ahead]} * cols + c);
    std::memcpy(t.row(i), data + int64_t{index[i]} * cols, sizeof(float) * static_cast<size_t>(cols));
  }
  return t;
}
template <class T>
T* gather(sim::Arena& arena, const T* data, const int32_t* index, int n) {
  T* out = arena.take<T>(n);
  for (int i = 0; i < n; ++i) out[i] = data[index[i]];
  return out;
}

/// The explicit list of tasks. A new one is a file tasks/<name>.cpp and one word in tasks.cpp.
const std::vector<const sim::Task*>& all_tasks();
/// Throws Error with the accepted names.
const sim::Task& task(const std::string& name);

}  // namespace fp4::tasks
