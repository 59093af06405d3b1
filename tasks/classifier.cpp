// Classifier: an MLP side*side - width - .. - classes with ReLU on small pictures (glyphs by formula, or IDX files such
// as MNIST); the output head stays fp32. Loss: cross-entropy; second metric: accuracy.
#include <cmath>

#include "tasks/pictures.h"
#include "tasks/record_file.h"
#include "tasks/task_data.h"

namespace fp4::tasks {
namespace {

using namespace sim;

constexpr int validation_size = 4096;
constexpr float noise_sd = 0.3f;

struct Pictures {
  int pixels = 0, classes = 0;
  std::vector<float> images, validation_images;  // [n, pixels]
  std::vector<int32_t> labels, validation_labels;
  std::vector<float> weights;      // of the training loss; empty: all 1
  std::vector<float> factors;      // of the pixels
  double mean = 0, deviation = 1;  // of a file's bytes
};

// The batches of an IDX file, read and prepared in their step: the values of file_pictures.
class FileBatches {
 public:
  FileBatches(const std::string& path, FileReading how, std::shared_ptr<const Pictures> pictures)
      : file_(path, how), pictures_(std::move(pictures)), bytes_(static_cast<size_t>(pictures_->pixels)) {}

  Tensor batch(Tape& tape, const int32_t* index, int count) {
    const Tensor t = tape.arena.tensor(count, pictures_->pixels);
    file_.begin_batch();
    for (int i = 0; i < count; ++i) {
      file_.read(idx_image_bytes + int64_t{index[i]} * t.cols, bytes_.data(), bytes_.size());
      float* row = t.row(i);
      for (size_t p = 0; p < bytes_.size(); ++p)
        row[p] = standardised(bytes_[p], pictures_->mean, pictures_->deviation);
      kernels().multiply(row, pictures_->factors.data(), t.cols);
    }
    return t;
  }

 private:
  RecordFile file_;
  std::shared_ptr<const Pictures> pictures_;
  std::vector<uint8_t> bytes_;
};

std::shared_ptr<Pictures> glyph_pictures(const Json& config, int64_t count, const std::function<bool()>& stop) {
  const uint64_t seed = data_seed(config);
  auto p = std::make_shared<Pictures>();
  const Glyphs glyphs(integer(config, "classes"), integer(config, "size"), seed);
  p->pixels = glyphs.pixels();
  p->classes = integer(config, "classes");
  check_room(config, count, int64_t{sizeof(float)} * p->pixels + int64_t{sizeof(int32_t)} + weight_bytes(config));
  const auto make = [&](int64_t n, DataSet choices, DataSet noise, auto& images, auto& labels) {
    images.reserve(static_cast<size_t>(n * p->pixels));
    labels.resize(static_cast<size_t>(n));
    in_pieces(n, stop, [&](int64_t first, int64_t some) {
      images.resize(static_cast<size_t>((first + some) * p->pixels));
      glyphs.examples(images.data() + first * p->pixels, labels.data() + first, first, some, source(seed, choices),
                      source(seed, noise), noise_sd);
    });
  };
  make(count, DataSet::pool_labels, DataSet::pool_noise, p->images, p->labels);
  make(validation_size, DataSet::validation_labels, DataSet::validation_noise, p->validation_images,
       p->validation_labels);
  return p;
}

// The last tenth of the files, at most 4,096 examples, validates.
std::shared_ptr<Pictures> file_pictures(const Json& config) {
  const IdxImages all = read_idx(config.at("task").at("images"), config.at("task").at("labels"));
  auto p = std::make_shared<Pictures>();
  p->pixels = all.pixels;
  p->mean = all.mean, p->deviation = all.deviation;
  p->classes = all.classes;
  const int64_t held = std::min<int64_t>(validation_size, all.count / 10), train = all.count - held;
  p->images.assign(all.images.begin(), all.images.begin() + train * all.pixels);
  p->validation_images.assign(all.images.begin() + train * all.pixels, all.images.end());
  p->labels.assign(all.labels.begin(), all.labels.begin() + train);
  p->validation_labels.assign(all.labels.begin() + train, all.labels.end());
  return p;
}

std::shared_ptr<const Pictures> pictures(const Json& config, const std::function<bool()>& stop) {
  static PoolCache<Pictures> cache;
  return cache.get(pool_key(config), examples_of(config), [&](int64_t count) {
    const uint64_t seed = data_seed(config);
    const bool from_files = !config.at("task").at("images").get<std::string>().empty();
    const std::shared_ptr<Pictures> p = from_files ? file_pictures(config) : glyph_pictures(config, count, stop);
    p->factors = channel_factors(p->pixels, number(config, "outliers.channel"), source(seed, DataSet::channels));
    for (auto* images : {&p->images, &p->validation_images}) scale_columns(*images, p->factors, stop);
    p->weights = loss_weights(config, static_cast<int64_t>(p->labels.size()), stop);
    return p;
  });
}

class ClassifierModel : public Model {
 public:
  ClassifierModel(Builder& build, const Json& config, uint64_t seed)
      : data_(pictures(config, build.stop)),
        batch_(batch_of(config)),
        walk_(config.at("task").at("images") == "" ? examples_of(config) : static_cast<int64_t>(data_->labels.size()),
              batch_, seed) {
    if (const std::string images = config.at("task").at("images");
        !images.empty() && build.files != FileReading::memory)
      file_ = std::make_unique<FileBatches>(images, build.files, data_);
    int in = data_->pixels;
    for (int i = 0; i < integer(config, "depth"); ++i) {
      const int width = integer(config, "width");
      hidden_.emplace_back(build, "hidden" + std::to_string(i), Linear::Shape{.in = in, .out = width, .gain = 1.4f});
      in = width;
    }
    head_ =
        std::make_unique<Linear>(build, "head", Linear::Shape{.in = in, .out = data_->classes, .quantisable = false});
  }

  Var training_loss(Tape& tape, int step) override {
    const auto [begin, count] = part_of(tape.pass, batch_);
    const int32_t* index = walk_.batch(step) + begin;
    Var x = tape.constant(file_ ? file_->batch(tape, index, count)
                                : gather(tape.arena, data_->images.data(), data_->pixels, index, count));
    const int32_t* labels = gather(tape.arena, data_->labels.data(), index, count);
    const float* weights = data_->weights.empty() ? nullptr : gather(tape.arena, data_->weights.data(), index, count);
    return cross_entropy(tape, logits(tape, x), labels, weights);
  }

  double validation_loss(Tape& tape, int examples) override {
    const int all = static_cast<int>(data_->validation_labels.size());
    const int count = examples > 0 ? std::min(examples, all) : all;
    correct_ = 0;
    return mean_over_batches(tape, count, batch_, [&](int begin, int n) {
      float* images = const_cast<float*>(data_->validation_images.data()) + int64_t{begin} * data_->pixels;
      const int32_t* labels = data_->validation_labels.data() + begin;
      Var y = logits(tape, tape.constant({images, n, data_->pixels}));
      const Tensor outputs = tape.on_host(y->value);
      for (int i = 0; i < n; ++i) {
        const float* row = outputs.row(i);
        correct_ += std::max_element(row, row + data_->classes) - row == labels[i];
      }
      return cross_entropy(tape, y, labels, nullptr);
    });
  }

  void metrics(Tape&, std::map<std::string, double>& out) override {
    out["accuracy"] = static_cast<double>(correct_) / static_cast<double>(data_->validation_labels.size());
  }
  double trivial_loss() const override { return std::log(static_cast<double>(data_->classes)); }

 private:
  Var logits(Tape& tape, Var x) {
    for (const Linear& layer : hidden_) x = layer(tape, x, Activation::relu);
    return (*head_)(tape, x);
  }

  std::shared_ptr<const Pictures> data_;
  int batch_;
  Walk walk_;
  std::unique_ptr<FileBatches> file_;  // where batches are read while training
  std::vector<Linear> hidden_;
  std::unique_ptr<Linear> head_;
  int64_t correct_ = 0;  // of the last validation
};

class Classifier : public Task {
 public:
  std::string name() const override { return "classifier"; }
  std::string doc() const override { return "MLP with ReLU on 8x8 glyphs or IDX images, fp32 head"; }
  std::string reason_against_device(const Json&) const override { return ""; }
  Schema schema(const Json&) const override {
    Schema s = common_schema(0.5, 0.0);
    s.insert(s.end(), {{"depth", 2, "hidden layers", {}, 1, 64},
                       {"width", 128, "of the hidden layers", {}, 1, 8192},
                       {"size", 8, "side of the glyphs in pixels", {}, 4, 64},
                       {"classes", 10, "of the glyphs", {}, 2, 1000},
                       {"images", "", "IDX file of images instead of glyphs"},
                       {"labels", "", "IDX file of labels"}});
    return s;
  }
  std::vector<std::string> file_parameters() const override { return {"images", "labels"}; }
  Json train_defaults(const Json&, const Json&) const override {
    return {{"steps", 600}, {"batch", 128}, {"lr", 0.016}, {"warmup", 30}};  // results/defaults
  }
  std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const override {
    return std::make_unique<ClassifierModel>(build, config, seed);
  }
  double multiply_adds(const Json& config) const override {
    const double width = integer(config, "width"), depth = integer(config, "depth");
    const double in = number(config, "size") * number(config, "size"), classes = number(config, "classes");
    // The first layer has no dgrad.
    return batch_of(config) * (2 * in * width + 3 * ((depth - 1) * width * width + width * classes));
  }
};

}  // namespace

const sim::Task& classifier() {
  static const Classifier task;
  return task;
}

}  // namespace fp4::tasks
