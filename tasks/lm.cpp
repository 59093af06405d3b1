// Language model on bytes, Llama-like: RMSNorm, RoPE, causal attention, SwiGLU; seven quantised linear layers a block
// and an fp32 head that is not tied. Text: a grammar by formula, or the user's files (text.h). Loss: cross-entropy in
// nats per byte.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "sim/net/attention.h"
#include "sim/net/experts.h"
#include "src/text/named_rows.h"
#include "tasks/record_file.h"
#include "tasks/task_data.h"
#include "tasks/text.h"

namespace fp4::tasks {
namespace {

using namespace sim;

constexpr int bytes = 256;
constexpr int validation_windows = 128;
constexpr int curve_windows = 16;
constexpr double warmup_share = 0.03;  // of the steps, where a size sets the training

// The ladder of sizes, one row each: shape, tokens of a step, learning rate. `size` of a task gives the shape's
// defaults, `tokens_per_weight` the steps; every setting can still be given.
// Weights are those of the quantised layers, 4 d^2 + 3 d ffn a block; embedding, norms and head are not counted.
struct LmSize {
  const char* name;
  int width, layers, heads, ffn, context;
  int batch;  // sequences of a step
  double lr;  // 50k: bf16's best of a ladder of factor sqrt(2) at 20 tokens a weight; from there as N^(-1/4)
};

// "" is the model of the sweeps over recipes, with the training of its own that train_defaults states.
constexpr std::array<LmSize, 8> lm_sizes = {{
    // name   width layers heads ffn context batch lr
    {"", 128, 2, 4, 352, 64, 16, 2.8e-3},
    {"20k", 32, 2, 1, 64, 128, 4, 7.4e-3},
    {"50k", 64, 2, 2, 64, 128, 16, 5.7e-3},
    {"100k", 64, 4, 2, 64, 128, 16, 4.8e-3},
    {"200k", 96, 2, 3, 256, 128, 16, 4e-3},
    {"400k", 128, 2, 4, 352, 128, 16, 3.4e-3},
    {"800k", 128, 4, 4, 352, 128, 32, 2.8e-3},
    {"3200k", 256, 4, 8, 704, 128, 64, 2e-3},
}};

// The row of this name; the first one for a name that is none (the field's words refuse it).
const LmSize& lm_size(std::string_view name) {
  const auto found = std::find_if(lm_sizes.begin(), lm_sizes.end(), [&](const LmSize& s) { return name == s.name; });
  return found == lm_sizes.end() ? lm_sizes.front() : *found;
}

// Weights of the quantised layers.
constexpr double lm_weights(double width, double layers, double ffn) {
  return layers * (4 * width * width + 3 * width * ffn);
}

// Steps of `batch` x `context` bytes that read `ratio` bytes for each weight, to nearest.
int lm_steps(double weights, double ratio, double batch, int context) {
  return std::max(1, static_cast<int>(std::lround(weights * ratio / (batch * context))));
}

// Weights of the quantised layers that a token meets, and all of them.
double weights_of(const Json& config, const char* experts = "top") {
  return lm_weights(integer(config, "width"), integer(config, "layers"),
                    static_cast<double>(integer(config, "ffn")) * integer(config, experts));
}

struct Text {
  std::shared_ptr<const SplitText> bytes;
  double entropy = 0;  // of the bytes of the validation text
  std::vector<float> weights;
};

// One copy of the user's text in memory, whatever the seeds and shapes that read it.
std::shared_ptr<const SplitText> user_text(const std::string& path, int64_t context) {
  static PoolCache<SplitText> cache;
  return cache.get(path, 20 * (context + 1),
                   [&](int64_t least) { return std::make_shared<const SplitText>(text_of_path(path, least)); });
}

std::shared_ptr<const Text> text_pool(const Json& config, const std::function<bool()>& stop) {
  static PoolCache<Text> cache;
  const int64_t context = integer(config, "context");
  return cache.get(pool_key(config), examples_of(config) * context + 1, [&](int64_t count) {
    const uint64_t seed = data_seed(config);
    const std::string path = config.at("task").at("text");
    const int64_t held = validation_windows * context + 1;
    auto t = std::make_shared<Text>();
    if (path.empty()) check_room(config, examples_of(config), context * (1 + weight_bytes(config)));
    t->bytes = path.empty()
                   ? std::make_shared<const SplitText>(SplitText{grammar_text(seed, count, 0, stop),
                                                                 grammar_text(seed, held, uint64_t{1} << 40, stop)})
                   : user_text(path, context);
    t->entropy = unigram_entropy(t->bytes->validation);
    t->weights = loss_weights(config, static_cast<int64_t>(t->bytes->train.size()), stop);
    return t;
  });
}

struct Block {
  RmsNorm attention_norm;
  Linear q, k, v, o;
  RmsNorm ffn_norm;
  std::unique_ptr<SwiGlu> ffn;  // one of the two
  std::unique_ptr<Experts> experts;
  std::vector<const Linear*> readers() const {
    return ffn ? std::vector<const Linear*>{&ffn->gate, &ffn->up} : experts->readers();
  }
};

class LmModel : public Model {
 public:
  LmModel(Builder& build, const Json& config, uint64_t seed)
      : data_(text_pool(config, build.stop)),
        context_(integer(config, "context")),
        heads_(integer(config, "heads")),
        batch_(batch_of(config)),
        channel_(number(config, "outliers.channel")),
        data_seed_(data_seed(config)),
        // A grammar is never read twice, though the shared pool may be longer than this run needs.
        walk_(config.at("task").at("text") == "" ? examples_of(config)
                                                 : (static_cast<int64_t>(data_->bytes->train.size()) - 1) / context_,
              batch_, seed),
        weights_(weights_of(config)),
        all_weights_(weights_of(config, "experts")),
        tokens_(static_cast<double>(examples_of(config) * context_)) {
    const int d = integer(config, "width"), ffn = integer(config, "ffn"), layers = integer(config, "layers");
    const int experts = integer(config, "experts");
    const float residual = 1.0f / std::sqrt(2.0f * static_cast<float>(layers));
    if (const std::string text = config.at("task").at("text"); !text.empty() && build.files != FileReading::memory) {
      file_ = std::make_unique<RecordFile>(training_file(text), build.files);
      window_.resize(static_cast<size_t>(context_) + 1);
    }
    embedding_ = std::make_unique<Embedding>(build, "embedding", bytes, d, 0.1f);
    for (int i = 0; i < layers; ++i) {
      const std::string at = "block" + std::to_string(i) + ".";
      const auto linear = [&](const char* name, int in, int out, float gain) {
        return Linear(build, at + name, {.in = in, .out = out, .gain = gain, .bias = false});
      };
      // Braces evaluate in order, which numbers the layers.
      blocks_.push_back(Block{RmsNorm(build, at + "attention_norm", d), linear("q", d, d, 1), linear("k", d, d, 1),
                              linear("v", d, d, 1), linear("o", d, d, residual), RmsNorm(build, at + "ffn_norm", d),
                              nullptr, nullptr});
      if (experts == 1)
        blocks_.back().ffn = std::make_unique<SwiGlu>(build, at, d, ffn, residual);
      else
        blocks_.back().experts =
            std::make_unique<Experts>(build, at,
                                      Experts::Shape{d, ffn, experts, integer(config, "top"), residual,
                                                     static_cast<float>(number(config, "balance"))});
    }
    norm_ = std::make_unique<RmsNorm>(build, "norm", d);
    head_ = std::make_unique<Linear>(build, "head",
                                     Linear::Shape{.in = d, .out = bytes, .bias = false, .quantisable = false});
    embedding_->add_layer(build);
    for (int i = 0; i < layers; ++i) attention_.emplace_back(build, "block" + std::to_string(i), d, heads_, context_);
    rope_ = rope_table(memory_, kernels(), context_, d / heads_);
  }

  // Outlier channels: the norm's gain times a factor, the columns of the weights that read it divided by it.
  void initialised(Parameters& parameters, const Kernels&) override {
    if (channel_ == 0) return;
    uint32_t norm = 0;
    const auto scale = [&](const RmsNorm& n, const std::vector<const Linear*>& readers) {
      const Tensor gain = parameters.value(n.gain());
      const std::vector<float> f = channel_factors(gain.cols, channel_, source(data_seed_, DataSet::channels, norm++));
      for (int c = 0; c < gain.cols; ++c) gain.data[c] *= f[static_cast<size_t>(c)];
      for (const Linear* l : readers) {
        const Tensor w = parameters.value(l->weight());
        for (int64_t i = 0; i < w.size(); ++i) w.data[i] /= f[static_cast<size_t>(i % w.cols)];
      }
    };
    for (const Block& b : blocks_) {
      scale(b.attention_norm, {&b.q, &b.k, &b.v});
      scale(b.ffn_norm, b.readers());
    }
    scale(*norm_, {head_.get()});
  }

  Var training_loss(Tape& tape, int step) override {
    const auto [begin, count] = part_of(tape.pass, batch_);
    const int32_t* window = walk_.batch(step) + begin;
    const int tokens = count * context_;
    int32_t* input = tape.arena.take<int32_t>(tokens);
    int32_t* target = tape.arena.take<int32_t>(tokens);
    if (file_) file_->begin_batch();
    float* weights = data_->weights.empty() ? nullptr : tape.arena.take<float>(tokens);
    for (int b = 0; b < count; ++b) {
      const int64_t at = int64_t{window[b]} * context_;
      if (file_) file_->read(at, window_.data(), window_.size());
      const char* text = file_ ? window_.data() : data_->bytes->train.data() + at;
      for (int t = 0; t < context_; ++t) {
        input[b * context_ + t] = byte(text, t);
        target[b * context_ + t] = byte(text, t + 1);
        if (weights) weights[b * context_ + t] = data_->weights[static_cast<size_t>(at + t)];
      }
    }
    return cross_entropy(tape, logits(tape, input, tokens), target, weights);
  }

  // Windows spread evenly over the validation text.
  double validation_loss(Tape& tape, int windows) override {
    const int64_t room = static_cast<int64_t>(data_->bytes->validation.size()) - 1 - context_;
    const int all = static_cast<int>(std::min<int64_t>(validation_windows, room + 1));
    const int count = windows > 0 ? std::min(windows, all) : all;
    return mean_over_batches(tape, count, batch_, [&](int begin, int n) {
      int32_t* input = tape.arena.take<int32_t>(n * context_);
      int32_t* target = tape.arena.take<int32_t>(n * context_);
      for (int b = 0; b < n; ++b) {
        const int64_t at = count > 1 ? room * (begin + b) / (count - 1) : 0;
        for (int t = 0; t < context_; ++t) {
          input[b * context_ + t] = byte(data_->bytes->validation.data(), at + t);
          target[b * context_ + t] = byte(data_->bytes->validation.data(), at + t + 1);
        }
      }
      return cross_entropy(tape, logits(tape, input, n * context_), target, nullptr);
    });
  }

  double trivial_loss() const override { return data_->entropy; }

  // N and D of scaling laws, and how often the run has read each byte of the training text.
  void metrics(Tape&, std::map<std::string, double>& out) override {
    out["bits_per_byte"] = out.at("loss") / std::numbers::ln2;
    out["weights"] = weights_;
    if (all_weights_ > weights_) out["all_weights"] = all_weights_;
    out["tokens"] = tokens_;
    out["passes"] = tokens_ / static_cast<double>(data_->bytes->train.size());
  }

 private:
  static int32_t byte(const char* text, int64_t at) { return static_cast<unsigned char>(text[at]); }

  Var logits(Tape& tape, const int32_t* tokens, int n) {
    Var x = (*embedding_)(tape, tokens, n);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& b = blocks_[i];
      Var h = b.attention_norm(tape, x);
      Var q = rope(tape, b.q(tape, h), heads_, rope_);
      Var k = rope(tape, b.k(tape, h), heads_, rope_);
      x = add(tape, x, b.o(tape, attention_[i](tape, q, k, b.v(tape, h))));
      h = b.ffn_norm(tape, x);
      x = add(tape, x, b.experts ? (*b.experts)(tape, h) : (*b.ffn)(tape, h));
    }
    return (*head_)(tape, (*norm_)(tape, x));
  }

  std::shared_ptr<const Text> data_;
  int context_, heads_, batch_;
  double channel_;
  uint64_t data_seed_;
  Walk walk_;
  std::unique_ptr<RecordFile> file_;  // where windows are read while training
  std::vector<char> window_;
  double weights_, all_weights_, tokens_;
  std::unique_ptr<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::vector<Attention> attention_;
  std::unique_ptr<RmsNorm> norm_;
  std::unique_ptr<Linear> head_;
  Arena memory_;
  RopeTable rope_;
};

class Lm : public Task {
 public:
  std::string name() const override { return "lm"; }
  std::string doc() const override { return "Llama-like byte model on a grammar or on your text"; }
  std::string reason_against_device(const Json& config) const override {
    return integer(config, "experts") > 1 ? "task lm: experts" : "";
  }
  Schema schema(const Json& given) const override {
    const Json* word = at_path(given, "size");
    const LmSize& size = lm_size(word && word->is_string() ? word->get<std::string>() : "");
    Schema s = common_schema(0.5, 0.0);
    s.insert(s.end(),
             {{"size", "", "sets the fields below, batch and lr: weights of the quantised layers", names_of(lm_sizes)},
              {"tokens_per_weight", 0.0, "sets steps and warm-up (3 %); 0: steps as given", {}, 0, 1e6},
              {"width", size.width, "of the model", {}, 8, 8192},
              {"layers", size.layers, "blocks", {}, 1, 64},
              {"heads", size.heads, "of attention; divides width", {}, 1, 256},
              {"ffn", size.ffn, "width of SwiGLU, of each expert", {}, 1, 32768},
              {"experts", 1, "feed-forward networks that tokens choose from; 1: no router", {}, 1, 128},
              {"top", 1, "experts that a token chooses: 1 or 2", {}, 1, 2},
              {"balance", 0.01, "gradient towards equal use of the experts", {}, 0, 1},
              {"context", size.context, "bytes per sequence", {}, 2, 4096},
              {"text", "", "file or folder instead of the grammar"}});
    return s;
  }
  std::vector<std::string> file_parameters() const override { return {"text"}; }
  Json train_defaults(const Json& parameters, const Json& given) const override {
    const LmSize& size = lm_size(parameters.at("size").get<std::string>());
    Json train = {{"steps", 300}, {"batch", size.batch}, {"lr", size.lr},
                  {"warmup", 15}, {"weight_decay", 0.1}, {"clip", 1.0}};
    if (const double ratio = parameters.at("tokens_per_weight"); ratio > 0) {
      const double ffn = parameters.at("ffn").get<double>() * parameters.at("top").get<double>();
      const double weights = lm_weights(parameters.at("width"), parameters.at("layers"), ffn);
      const Json batch = given.value("batch", Json(size.batch));  // one out of range is refused with its section
      const double sequences = batch.is_number() ? std::clamp(batch.get<double>(), 1.0, 1e9) : size.batch;
      const int steps = lm_steps(weights, ratio, sequences, parameters.at("context"));
      train["steps"] = steps;
      train["warmup"] = static_cast<int>(std::lround(warmup_share * steps));
    }
    return train;
  }
  std::string invalid_reason(const Json& config) const override {
    const int width = integer(config, "width"), heads = integer(config, "heads");
    if (width % heads != 0 || width / heads % 2 != 0) return "lm: width must be heads times an even number";
    const int experts = integer(config, "experts"), top = integer(config, "top");
    if (top > experts) return "lm: top must be at most experts";
    if (integer(config, "layers") * (3 * experts + 7) > 1000)
      return "lm: layers x (3 experts + 7) must be at most 1000";
    return "";
  }
  std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const override {
    return std::make_unique<LmModel>(build, config, seed);
  }
  double multiply_adds(const Json& config) const override {
    const double d = integer(config, "width"), ffn = integer(config, "ffn"), context = integer(config, "context");
    const int experts = integer(config, "experts"), top = integer(config, "top");
    const double block = 4 * d * d + 3 * d * ffn * top + (experts > 1 ? d * experts : 0) + 2 * context * d;
    return batch_of(config) * context * 3 * (integer(config, "layers") * block + d * bytes);
  }
  int curve_validation_examples() const override { return curve_windows; }
};

}  // namespace

const sim::Task& lm() {
  static const Lm task;
  return task;
}

}  // namespace fp4::tasks
