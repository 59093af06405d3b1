// Diffusion in v-prediction: x = cos(a) x0 + sin(a) noise, v = cos(a) noise - sin(a) x0, a = pi/2 u, u = (k+.5)/50.
// Model: Fourier features of x and u -> fp32 -> width, residual layers h + silu(W h + b), fp32 head. Data: a spiral,
// 8 Gaussians, or glyph images. Loss: mean squared error of v; second metric: sliced Wasserstein distance of samples.
#include <algorithm>
#include <cmath>
#include <optional>

#include "fp4/elementary.h"
#include "tasks/pictures.h"
#include "tasks/task_data.h"
#include "tasks/wasserstein.h"

namespace fp4::tasks {
namespace {

using namespace sim;

constexpr int validation_points = 4096;
constexpr int levels = 50;
constexpr int sampling_stride = 7;  // k = 49, 42, .., 0: 8 deterministic steps keep evaluation near a tenth of a run
constexpr int directions = 64;
constexpr int x_frequencies = 8;  // 2^-1, 2^-0.5, .., 2^2.5
constexpr int u_frequencies = 6;  // 2^0, .., 2^5
constexpr float half_pi = 1.57079637f, pi = 3.14159274f;

struct DiffusionPool {
  int width = 0;                       // of x
  std::vector<float> x, validation_x;  // [n, width]
  std::vector<float> noise, time;      // of the validation set: [4096, width], [4096]
  std::vector<float> weights;          // of the training loss; empty: all 1
  SlicedDistance distance;             // to the validation set
};

// Examples first .. first + n - 1 of a data set.
void spiral(float* x, int64_t first, int64_t n, DataSource shape, DataSource noise) {
  std::vector<float> u(static_cast<size_t>(n));
  shape.uniforms(u.data(), first, n);
  noise.normals(x, 2 * first, 2 * n);
  for (int64_t i = 0; i < n; ++i) {
    const float angle = std::sqrt(u[static_cast<size_t>(i)]) * (3.0f * pi);
    x[2 * i] = angle * elementary::cos(angle) / 5.0f + 0.03f * x[2 * i];
    x[2 * i + 1] = angle * elementary::sin(angle) / 5.0f + 0.03f * x[2 * i + 1];
  }
}

void gaussians(float* x, int64_t first, int64_t n, DataSource shape, DataSource noise) {
  constexpr float radius = 1.5f, deviation = 0.15f;
  std::vector<float> u(static_cast<size_t>(n));
  shape.uniforms(u.data(), first, n);
  noise.normals(x, 2 * first, 2 * n);
  for (int64_t i = 0; i < n; ++i) {
    const float angle = static_cast<float>(static_cast<int>(u[static_cast<size_t>(i)] * 8.0f)) * (pi / 4.0f);
    x[2 * i] = radius * elementary::cos(angle) + deviation * x[2 * i];
    x[2 * i + 1] = radius * elementary::sin(angle) + deviation * x[2 * i + 1];
  }
}

void examples(std::vector<float>& x, const Json& config, int width, int64_t count, DataSet shape_set, DataSet noise_set,
              const std::function<bool()>& stop) {
  const uint64_t seed = data_seed(config);
  const std::string word = config.at("task").at("data");
  const DataSource shape = source(seed, shape_set), noise = source(seed, noise_set);
  std::optional<Glyphs> glyphs;
  if (word == "glyphs") glyphs.emplace(10, 8, seed);
  std::vector<int32_t> labels;
  x.reserve(static_cast<size_t>(count * width));
  in_pieces(count, stop, [&](int64_t first, int64_t n) {
    x.resize(static_cast<size_t>((first + n) * width));
    float* rows = x.data() + first * width;
    if (word == "spiral") return spiral(rows, first, n, shape, noise);
    if (word == "gaussians") return gaussians(rows, first, n, shape, noise);
    labels.resize(static_cast<size_t>(n));
    glyphs->examples(rows, labels.data(), first, n, shape, noise, 0.05f);
  });
}

std::shared_ptr<const DiffusionPool> diffusion_pool(const Json& config, const std::function<bool()>& stop) {
  static PoolCache<DiffusionPool> cache;
  return cache.get(pool_key(config), examples_of(config), [&](int64_t count) {
    const uint64_t seed = data_seed(config);
    auto p = std::make_shared<DiffusionPool>();
    p->width = config.at("task").at("data") == "glyphs" ? 64 : 2;
    check_room(config, count, int64_t{sizeof(float)} * p->width + weight_bytes(config));
    examples(p->x, config, p->width, count, DataSet::pool, DataSet::pool_noise, stop);
    examples(p->validation_x, config, p->width, validation_points, DataSet::validation, DataSet::validation_labels,
             stop);
    p->noise =
        source(seed, DataSet::validation_noise, 0, Purpose::noise).normals(int64_t{validation_points} * p->width);
    p->time = source(seed, DataSet::times, 0, Purpose::noise).uniforms(validation_points);
    p->distance = {p->validation_x, p->width, directions, source(seed, DataSet::samples, 1)};
    p->weights = loss_weights(config, count, stop);
    return p;
  });
}

class DiffusionModel : public Model {
 public:
  DiffusionModel(Builder& build, const Json& config, uint64_t seed)
      : seed_(seed),
        data_(diffusion_pool(config, build.stop)),
        batch_(batch_of(config)),
        walk_(examples_of(config), batch_, seed),
        factors_(channel_factors(features(), number(config, "outliers.channel"),
                                 source(data_seed(config), DataSet::channels))),
        roots_(gradient_roots(config, data_->width)),
        data_seed_(data_seed(config)) {
    const int width = integer(config, "width");
    in_ = std::make_unique<Linear>(build, "in", Linear::Shape{.in = features(), .out = width, .quantisable = false});
    for (int i = 0; i < integer(config, "depth"); ++i)
      layers_.emplace_back(build, "layer" + std::to_string(i), Linear::Shape{.in = width, .out = width, .gain = 1.4f});
    head_ = std::make_unique<Linear>(
        build, "head", Linear::Shape{.in = width, .out = data_->width, .gain = 0.1f, .quantisable = false});
    // Loss of predicting 0, the best constant: E v^2.
    Arena arena;
    const Noisy all =
        noisy(arena, data_->validation_x.data(), data_->noise.data(), data_->time.data(), validation_points);
    for (int64_t i = 0; i < all.v.size(); ++i)
      variance_ += static_cast<double>(all.v.data[i]) * static_cast<double>(all.v.data[i]);
    variance_ /= static_cast<double>(all.v.size());
  }

  Var training_loss(Tape& tape, int step) override {
    const auto [begin, count] = part_of(tape.pass, batch_);
    const int32_t* index = walk_.batch(step) + begin;
    const Tensor x0 = gather(tape.arena, data_->x.data(), data_->width, index, count);
    // Noise and times by (seed, step): an example that returns meets new ones.
    DataSource noise = source(seed_, DataSet::pool_noise, 0, Purpose::noise);
    DataSource time = source(seed_, DataSet::times, 0, Purpose::noise);
    noise.step = time.step = static_cast<uint32_t>(step);
    float* e = tape.arena.take<float>(x0.size());
    float* u = tape.arena.take<float>(count);
    noise.normals(e, int64_t{begin} * data_->width, x0.size());
    time.uniforms(u, begin, count);
    const Noisy b = noisy(tape.arena, x0.data, e, u, count);
    const float* weights = data_->weights.empty() ? nullptr : gather(tape.arena, data_->weights.data(), index, count);
    return mean_squared_error(tape, velocity(tape, b.x, b.u), b.v, weights, roots_.empty() ? nullptr : roots_.data());
  }

  double validation_loss(Tape& tape, int count) override {
    return mean_over_batches(tape, count > 0 ? std::min(count, validation_points) : validation_points, batch_,
                             [&](int begin, int n) {
                               const int64_t at = int64_t{begin} * data_->width;
                               const Noisy b = noisy(tape.arena, data_->validation_x.data() + at,
                                                     data_->noise.data() + at, data_->time.data() + begin, n);
                               return mean_squared_error(tape, velocity(tape, b.x, b.u), b.v, nullptr);
                             });
  }

  void metrics(Tape& tape, std::map<std::string, double>& out) override {
    const int width = data_->width;
    const DataSource start = source(data_seed_, DataSet::samples, 0, Purpose::noise);
    std::vector<float> samples = start.normals(int64_t{validation_points} * width);
    for (int begin = 0; begin < validation_points; begin += batch_) {
      const int n = std::min(batch_, validation_points - begin);
      sample(tape, samples.data() + int64_t{begin} * width, n);
    }
    out["sliced_wasserstein"] = data_->distance(samples);
  }
  double trivial_loss() const override { return variance_; }

 private:
  struct Noisy {
    Tensor x, v;
    float* u;  // time of each row
  };

  int features() const {
    return data_->width == 2 ? 2 + 2 * 2 * x_frequencies + 2 * u_frequencies : data_->width + 2 * u_frequencies;
  }

  Noisy noisy(Arena& arena, const float* x0, const float* noise, const float* uniform, int n) const {
    const int width = data_->width;
    Noisy b = {arena.tensor(n, width), arena.tensor(n, width), arena.take<float>(n)};
    float *angle = arena.take<float>(n), *sine = arena.take<float>(n), *cosine = arena.take<float>(n);
    for (int i = 0; i < n; ++i) {
      const int k = static_cast<int>(uniform[i] * static_cast<float>(levels));
      b.u[i] = (static_cast<float>(k) + 0.5f) / static_cast<float>(levels);
      angle[i] = half_pi * b.u[i];
    }
    kernels().sin_cos(sine, cosine, angle, n);
    for (int i = 0; i < n; ++i) {
      const float c = cosine[i], s = sine[i];
      for (int64_t j = int64_t{i} * width; j < int64_t{i + 1} * width; ++j) {
        b.x.data[j] = c * x0[j] + s * noise[j];
        b.v.data[j] = c * noise[j] - s * x0[j];
      }
    }
    return b;
  }

  // x (2-D: and sin, cos of x at 8 frequencies), sin and cos of u at 6 frequencies, times the channel factors.
  Var feature_rows(Tape& tape, Tensor x, const float* u) const {
    const int n = x.rows, width = x.cols, fourier = width == 2 ? width * x_frequencies : 0;
    const int angles = fourier + u_frequencies;
    Tensor angle = tape.arena.tensor(n, angles), sine = tape.arena.tensor(n, angles),
           cosine = tape.arena.tensor(n, angles);
    constexpr float root2 = 1.41421354f;
    for (int i = 0; i < n; ++i) {
      float* a = angle.row(i);
      float f = 0.5f;
      for (int k = 0; k < fourier / width; ++k, f *= root2)
        for (int c = 0; c < width; ++c) *a++ = f * x.row(i)[c];
      f = 1.0f;
      for (int k = 0; k < u_frequencies; ++k, f *= 2.0f) *a++ = f * u[i];
    }
    kernels().sin_cos(sine.data, cosine.data, angle.data, angle.size());
    Tensor rows = tape.arena.tensor(n, features());
    for (int i = 0; i < n; ++i) {
      float* r = rows.row(i);
      r = std::copy(x.row(i), x.row(i) + width, r);
      r = std::copy(sine.row(i), sine.row(i) + angles, r);
      std::copy(cosine.row(i), cosine.row(i) + angles, r);
      kernels().multiply(rows.row(i), factors_.data(), features());
    }
    return tape.constant(rows);
  }

  Var velocity(Tape& tape, Tensor x, const float* u) {
    Var h = (*in_)(tape, feature_rows(tape, x, u));
    for (const Linear& layer : layers_) h = add(tape, h, silu(tape, layer(tape, h)));
    return (*head_)(tape, h);
  }

  // From noise to data along the probability flow: x0 and noise as predicted, mixed at the next time.
  void sample(Tape& tape, float* x, int n) {
    const int64_t size = int64_t{n} * data_->width;
    std::vector<float> u(static_cast<size_t>(n));
    for (int k = levels - 1; k >= 0; k -= sampling_stride) {
      const float time = (static_cast<float>(k) + 0.5f) / static_cast<float>(levels);
      const float next = std::max(0.0f, time - static_cast<float>(sampling_stride) / static_cast<float>(levels));
      std::fill(u.begin(), u.end(), time);
      tape.reset();
      const float* v = tape.on_host(velocity(tape, {x, n, data_->width}, u.data())->value).data;
      const float c = elementary::cos(half_pi * time), s = elementary::sin(half_pi * time);
      const bool last = k - sampling_stride < 0;
      const float nc = last ? 1.0f : elementary::cos(half_pi * next),
                  ns = last ? 0.0f : elementary::sin(half_pi * next);
      for (int64_t i = 0; i < size; ++i) {
        const float x0 = c * x[i] - s * v[i], noise = s * x[i] + c * v[i];
        x[i] = nc * x0 + ns * noise;
      }
    }
  }

  uint64_t seed_;
  std::shared_ptr<const DiffusionPool> data_;
  int batch_;
  Walk walk_;
  std::vector<float> factors_;
  std::vector<float> roots_;  // of the gradient's factors per output
  uint64_t data_seed_;
  std::unique_ptr<Linear> in_, head_;
  std::vector<Linear> layers_;
  double variance_ = 0;
};

class Diffusion : public Task {
 public:
  std::string name() const override { return "diffusion"; }
  std::string doc() const override {
    return "v-prediction of a spiral, 8 Gaussians or glyphs by a residual SiLU network";
  }
  std::string reason_against_device(const Json&) const override { return ""; }
  Schema schema(const Json&) const override {
    Schema s = common_schema(0.0, 0.0);
    s.push_back(gradient_field());
    s.insert(s.end(), {{"data", "spiral", "what is learned", {"spiral", "gaussians", "glyphs"}},
                       {"width", 128, "of the residual layers", {}, 1, 8192},
                       {"depth", 3, "residual layers", {}, 1, 64}});
    return s;
  }
  Json train_defaults(const Json&, const Json&) const override {
    return {{"steps", 600}, {"batch", 256}, {"lr", 4e-3}, {"clip", 1.0}};  // results/defaults
  }
  std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const override {
    return std::make_unique<DiffusionModel>(build, config, seed);
  }
  double multiply_adds(const Json& config) const override {
    const double width = integer(config, "width"), depth = integer(config, "depth");
    const bool glyphs = config.at("task").at("data") == "glyphs";
    return batch_of(config) *
           (2 * (glyphs ? 76 : 46) * width + 3 * (depth * width * width + width * (glyphs ? 64 : 2)));
  }
};

}  // namespace

const sim::Task& diffusion() {
  static const Diffusion task;
  return task;
}

}  // namespace fp4::tasks
