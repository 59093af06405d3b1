// Regression on a teacher network of the student's shape.
//   default   MLP 128-128-128-64 SiLU, every layer quantised; x ~ N(0,1); target sd 1
//   control   256-256-64 SiLU without bias, the student starts near the teacher (2609.02846)
//   linear    y = x w, 1024 inputs (2509.17791)
// Loss: mean squared error.
#include <cmath>

#include "tasks/task_data.h"

namespace fp4::tasks {
namespace {

using namespace sim;

// What a variant fixes; sizes and outliers are parameters.
struct Variant {
  float teacher_gain;  // weights gain * N(0,1)/sqrt(in)
  bool bias;
  int pool, validation;    // examples; pool 0: steps * batch, never repeated
  bool with_replacement;   // batches drawn from the pool at random
  float student_distance;  // student = teacher + distance * N(0,1)/sqrt(in); 0: fresh weights
  bool unit_target;        // targets scaled to standard deviation 1
};

Variant variant_of(const Json& config) {
  const std::string word = config.at("task").at("variant");
  if (word == "control") return {1.0f, false, 2048, 1024, true, 0.25f, false};
  if (word == "linear") return {1.0f, false, 20000, 4096, false, 0.0f, true};
  return {1.5f, true, 0, 4096, false, 0.0f, true};
}

// inputs, width .. width, outputs
std::vector<int> layer_sizes(const Json& config) {
  std::vector<int> sizes = {integer(config, "inputs")};
  for (int i = 0; i < integer(config, "depth"); ++i) sizes.push_back(integer(config, "width"));
  sizes.push_back(integer(config, "outputs"));
  return sizes;
}

struct Examples {
  std::vector<float> x, y;  // [n, inputs], [n, outputs]
};

struct RegressionTeacher {
  std::vector<int> sizes;
  std::vector<std::vector<float>> weights;  // per layer [out, in]
  float output_scale = 1.0f;

  RegressionTeacher(const Json& config, float gain) : sizes(layer_sizes(config)) {
    for (size_t l = 0; l + 1 < sizes.size(); ++l) {
      weights.push_back(source(data_seed(config), DataSet::teacher, static_cast<uint32_t>(l))
                            .normals(int64_t{sizes[l]} * sizes[l + 1]));
      const float scale = gain / std::sqrt(static_cast<float>(sizes[l]));
      for (float& w : weights.back()) w *= scale;
    }
  }

  // n examples of a data set: inputs N(0,1), outputs of the teacher.
  Examples examples(int64_t n, DataSource inputs, const std::function<bool()>& stop) const {
    const Kernels& k = kernels();
    Examples e;
    e.x.reserve(static_cast<size_t>(n * sizes.front()));
    e.y.reserve(static_cast<size_t>(n * sizes.back()));
    std::vector<std::vector<float>> packed(weights.size());
    for (size_t l = 0; l < weights.size(); ++l) {
      const int64_t panels = (sizes[l + 1] + k.panel_width - 1) / k.panel_width;
      packed[l].resize(static_cast<size_t>(panels * k.panel_width * sizes[l]));
      k.pack(packed[l].data(), weights[l].data(), 1, sizes[l], sizes[l], sizes[l + 1]);
    }
    std::vector<float> in, out, slope;
    in_pieces(n, stop, [&](int64_t begin, int64_t count) {
      const int rows = static_cast<int>(count);
      e.x.resize(static_cast<size_t>((begin + rows) * sizes.front()));
      inputs.normals(e.x.data() + begin * sizes.front(), begin * sizes.front(), count * sizes.front());
      in.assign(e.x.begin() + begin * sizes.front(), e.x.end());
      for (size_t l = 0; l < weights.size(); ++l) {
        const int64_t size = int64_t{rows} * sizes[l + 1];
        out.resize(static_cast<size_t>(size));
        k.gemm(out.data(), sizes[l + 1], in.data(), sizes[l], 1, packed[l].data(), rows, sizes[l + 1], sizes[l]);
        if (l + 1 == weights.size()) break;
        in.resize(out.size());
        slope.resize(out.size());
        k.silu(in.data(), slope.data(), out.data(), size);
      }
      for (const float y : out) e.y.push_back(output_scale * y);
    });
    return e;
  }
};

// Mean over outputs of the variance over examples: the loss of the best constant.
double output_variance(const Examples& e, int outputs) {
  const size_t width = static_cast<size_t>(outputs), n = e.y.size() / width;
  double total = 0;
  for (size_t c = 0; c < width; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(e.y[i * width + c]);
      sum += v, squares += v * v;
    }
    total += squares / static_cast<double>(n) - sum * sum / (static_cast<double>(n) * static_cast<double>(n));
  }
  return total / outputs;
}

struct RegressionPool {
  Examples train, validation;
  std::vector<float> weights;  // of the training loss; empty: all 1
  double variance = 0;
};

std::shared_ptr<const RegressionPool> regression_pool(const Json& config, const std::function<bool()>& stop) {
  static PoolCache<RegressionPool> cache;
  const Variant v = variant_of(config);
  return cache.get(pool_key(config), v.pool > 0 ? v.pool : examples_of(config), [&](int64_t count) {
    const uint64_t seed = data_seed(config);
    const int inputs = integer(config, "inputs"), outputs = integer(config, "outputs");
    if (v.pool == 0) check_room(config, count, int64_t{sizeof(float)} * (inputs + outputs) + weight_bytes(config));
    RegressionTeacher teacher(config, v.teacher_gain);
    auto p = std::make_shared<RegressionPool>();
    p->validation = teacher.examples(v.validation, source(seed, DataSet::validation), stop);
    if (v.unit_target) {
      teacher.output_scale = static_cast<float>(1.0 / std::sqrt(output_variance(p->validation, outputs)));
      for (float& y : p->validation.y) y *= teacher.output_scale;
    }
    p->variance = output_variance(p->validation, outputs);
    p->train = teacher.examples(count, source(seed, DataSet::pool), stop);
    // The teacher has seen the inputs without their channel factors.
    const std::vector<float> factors =
        channel_factors(inputs, number(config, "outliers.channel"), source(seed, DataSet::channels));
    for (Examples* e : {&p->train, &p->validation}) scale_columns(e->x, factors, stop);
    p->weights = loss_weights(config, count, stop);
    return p;
  });
}

class RegressionModel : public Model {
 public:
  RegressionModel(Builder& build, const Json& config, uint64_t seed)
      : config_(config),
        variant_(variant_of(config)),
        seed_(seed),
        sizes_(layer_sizes(config)),
        data_(regression_pool(config, build.stop)),
        batch_(batch_of(config)),
        walk_(variant_.pool > 0 ? variant_.pool : examples_of(config), batch_, seed),
        roots_(gradient_roots(config, sizes_.back())) {
    for (size_t i = 0; i + 1 < sizes_.size(); ++i)
      layers_.emplace_back(build, "layer" + std::to_string(i),
                           Linear::Shape{.in = sizes_[i],
                                         .out = sizes_[i + 1],
                                         .gain = i + 2 < sizes_.size() ? 1.4f : 1.0f,
                                         .bias = variant_.bias});
  }

  void initialised(Parameters& parameters, const Kernels&) override {
    if (variant_.student_distance == 0) return;
    const RegressionTeacher teacher(config_, variant_.teacher_gain);
    for (size_t l = 0; l < layers_.size(); ++l) {
      const Tensor w = parameters.value(layers_[l].weight());  // holds N(0,1) * gain/sqrt(in)
      const float gain = l + 1 < layers_.size() ? 1.4f : 1.0f;
      for (int64_t i = 0; i < w.size(); ++i)
        w.data[i] = teacher.weights[l][static_cast<size_t>(i)] + variant_.student_distance / gain * w.data[i];
    }
  }

  Var training_loss(Tape& tape, int step) override {
    const auto [begin, count] = part_of(tape.pass, batch_);
    const int32_t* index = (variant_.with_replacement ? drawn(step) : walk_.batch(step)) + begin;
    Var x = tape.constant(gather(tape.arena, data_->train.x.data(), sizes_.front(), index, count));
    const Tensor y = gather(tape.arena, data_->train.y.data(), sizes_.back(), index, count);
    const float* weights = data_->weights.empty() ? nullptr : gather(tape.arena, data_->weights.data(), index, count);
    return mean_squared_error(tape, output(tape, x), y, weights, roots_.empty() ? nullptr : roots_.data());
  }

  double validation_loss(Tape& tape, int examples) override {
    const int count = examples > 0 ? std::min(examples, variant_.validation) : variant_.validation;
    const auto rows = [](const std::vector<float>& v, int begin, int n, int cols) {
      return Tensor{const_cast<float*>(v.data()) + int64_t{begin} * cols, n, cols};
    };
    return mean_over_batches(tape, count, batch_, [&](int begin, int n) {
      Var y = output(tape, tape.constant(rows(data_->validation.x, begin, n, sizes_.front())));
      return mean_squared_error(tape, y, rows(data_->validation.y, begin, n, sizes_.back()), nullptr);
    });
  }

  double trivial_loss() const override { return data_->variance; }

 private:
  Var output(Tape& tape, Var x) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i](tape, x);
      if (i + 1 < layers_.size()) x = silu(tape, x);
    }
    return x;
  }

  const int32_t* drawn(int step) {
    std::vector<float> u(static_cast<size_t>(batch_));
    source(seed_, DataSet::order).uniforms(u.data(), int64_t{step - 1} * batch_, batch_);
    indices_.resize(u.size());
    for (size_t i = 0; i < u.size(); ++i) indices_[i] = static_cast<int32_t>(u[i] * static_cast<float>(variant_.pool));
    return indices_.data();
  }

  Json config_;
  Variant variant_;
  uint64_t seed_;
  std::vector<int> sizes_;
  std::shared_ptr<const RegressionPool> data_;
  int batch_;
  Walk walk_;
  std::vector<float> roots_;  // of the gradient's factors per output
  std::vector<Linear> layers_;
  std::vector<int32_t> indices_;
};

class Regression : public Task {
 public:
  std::string name() const override { return "regression"; }
  std::string doc() const override { return "teacher-student MLP with SiLU; variants control and linear"; }
  std::string reason_against_device(const Json&) const override { return ""; }
  Schema schema(const Json& given) const override {
    const Json* word = at_path(given, "variant");
    const std::string variant = word && word->is_string() ? word->get<std::string>() : "teacher";
    Schema s = variant == "teacher" ? common_schema(0.5, 0.0) : common_schema(0.0, 0.0);
    s.push_back(gradient_field());
    const auto [inputs, width, depth, outputs] = variant == "control"  ? std::array{256, 256, 1, 64}
                                                 : variant == "linear" ? std::array{1024, 128, 0, 1}
                                                                       : std::array{128, 128, 2, 64};
    s.insert(s.end(), {{"variant",
                        "teacher",
                        "teacher: the default task; control: 2609.02846; linear: 2509.17791",
                        {"teacher", "control", "linear"}},
                       {"inputs", inputs, "width of x", {}, 1, 8192},
                       {"width", width, "of the hidden layers", {}, 1, 8192},
                       {"depth", depth, "hidden layers", {}, 0, 64},
                       {"outputs", outputs, "width of y", {}, 1, 8192}});
    return s;
  }
  Json train_defaults(const Json& parameters, const Json&) const override {
    const std::string variant = parameters.at("variant");
    if (variant == "control") return {{"steps", 500}, {"batch", 128}, {"lr", 2e-3}, {"schedule", "constant"}};
    if (variant == "linear") return {{"steps", 480}, {"batch", 512}, {"lr", 1e-2}, {"schedule", "constant"}};
    return {{"steps", 600}, {"batch", 128}, {"lr", 0.0226}, {"warmup", 30}, {"clip", 0.3}};  // results/defaults
  }
  std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const override {
    return std::make_unique<RegressionModel>(build, config, seed);
  }
  double multiply_adds(const Json& config) const override {
    const std::vector<int> sizes = layer_sizes(config);
    double total = 0;
    for (size_t l = 0; l + 1 < sizes.size(); ++l)
      total += (l == 0 ? 2.0 : 3.0) * sizes[l] * sizes[l + 1];  // the first layer has no dgrad
    return batch_of(config) * total;
  }
};

}  // namespace

const sim::Task& regression() {
  static const Regression task;
  return task;
}

}  // namespace fp4::tasks
