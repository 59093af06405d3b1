// Recommender after DLRM (1906.00091): dense features through a small MLP, tables of embedding bags, the products of
// all pairs of these vectors, an MLP on top with an fp32 head of two classes. The linear layers follow the recipe; the
// words `row_format`, `update` and `order` say how the tables are stored, updated and summed (sim/net/row_tables.h).
// Data: clicks.h. Loss: cross-entropy of clicks; further metrics: normalised entropy, area under the ROC curve, bytes
// of the tables.
#include <cmath>

#include "sim/engine/quantized_linear.h"
#include "sim/net/row_tables.h"
#include "src/text/named_rows.h"
#include "tasks/clicks.h"
#include "tasks/task_data.h"

namespace fp4::tasks {
namespace {

using namespace sim;

template <class Row, size_t N>
auto word(const Row (&table)[N], const Json& config, const char* key) {
  return find_row(table, config.at("task").at(key).get<std::string>())->id;
}

TableRules rules_of(const Json& config) {
  return {word(row_format_table, config, "row_format"), word(row_update_table, config, "update"),
          static_cast<float>(number(config, "table_rate"))};
}

// Wide layers of the two MLPs.
struct Widths {
  int bottom, embedding, interaction, top, last;
};
Widths widths_of(const Json& config) {
  const int width = integer(config, "width"), embedding = integer(config, "embedding"),
            tables = integer(config, "tables");
  return {width, embedding, embedding + tables * (tables + 1) / 2, width, width / 2};
}

class RecommenderModel : public Model {
 public:
  RecommenderModel(Builder& build, const Json& config, uint64_t seed)
      : data_(clicks(config, build.stop)),
        backend_(&build.engine.backend()),
        dense_(integer(config, "dense")),
        tables_(integer(config, "tables")),
        batch_(batch_of(config)),
        rules_(rules_of(config)),
        order_(word(bag_order_table, config, "order")),
        bytes_(static_cast<double>(row_bytes(rules_.format, integer(config, "embedding"))) * tables_ *
               integer(config, "rows")),
        walk_(config.at("task").at("clicks") == "" ? examples_of(config) : data_->train.count(), batch_, seed),
        parameters_(&build.parameters) {
    const Widths w = widths_of(config);
    const auto layer = [&](std::vector<Linear>& to, const char* name, int in, int out) {
      to.emplace_back(build, name, Linear::Shape{.in = in, .out = out, .gain = 1.4f});
    };
    layer(bottom_, "bottom0", dense_, w.bottom);
    layer(bottom_, "bottom1", w.bottom, w.embedding);
    layer(top_, "top0", w.interaction, w.top);
    layer(top_, "top1", w.top, w.last);
    head_ = std::make_unique<Linear>(build, "head", Linear::Shape{.in = w.last, .out = 2, .quantisable = false});
    const float scale = 1.0f / std::sqrt(static_cast<float>(w.embedding));
    table_ =
        build.parameters.declare_table("tables", tables_ * integer(config, "rows"), w.embedding, {0.0f, scale}, rules_);
  }

  Var training_loss(Tape& tape, int step) override {
    const auto [begin, count] = part_of(tape.pass, batch_);
    const int32_t* index = walk_.batch(step) + begin;
    const int32_t* labels = gather(tape.arena, data_->train.labels.data(), index, count);
    const float* weights = data_->weights.empty() ? nullptr : gather(tape.arena, data_->weights.data(), index, count);
    return cross_entropy(tape, logits(tape, data_->train, index, count), labels, weights);
  }

  double validation_loss(Tape& tape, int examples) override {
    const ClickSet& set = data_->validation;
    const int count = examples > 0 ? std::min(examples, set.count()) : set.count();
    scores_.clear();
    std::vector<int32_t> index(static_cast<size_t>(batch_));
    return mean_over_batches(tape, count, batch_, [&](int begin, int n) {
      for (int i = 0; i < n; ++i) index[static_cast<size_t>(i)] = begin + i;
      const Var y = logits(tape, set, index.data(), n);
      for (int i = 0; i < n; ++i) scores_.push_back(y->value.row(i)[1] - y->value.row(i)[0]);
      return cross_entropy(tape, y, set.labels.data() + begin, nullptr);
    });
  }

  void metrics(Tape&, std::map<std::string, double>& out) override {
    out["normalised_entropy"] = out.at("loss") / trivial_loss();
    out["auc"] = area_under_curve(scores_, data_->validation.labels);
    out["table_bytes"] = bytes_;
    if (data_->irreducible > 0) out["irreducible_loss"] = data_->irreducible;
  }

  // The entropy of the click rate, by which normalised entropy divides (He et al., ADKDD 2014).
  double trivial_loss() const override {
    double rate = 0;
    for (const int32_t label : data_->validation.labels) rate += label;
    return entropy_of(rate / data_->validation.count());
  }

 private:
  Var logits(Tape& tape, const ClickSet& set, const int32_t* index, int count) {
    Var x = tape.constant(gather(tape.arena, set.dense.data(), dense_, index, count));
    for (const Linear& l : bottom_) x = l(tape, x, Activation::relu);
    x = interaction(tape, x, bags(tape, set, index, count));
    for (const Linear& l : top_) x = l(tape, x, Activation::relu);
    return (*head_)(tape, x);
  }

  // [count, tables * embedding]
  Var bags(Tape& tape, const ClickSet& set, const int32_t* index, int count) {
    int32_t* first = tape.arena.take<int32_t>(int64_t{count} * tables_ + 1);
    int64_t total = 0;
    const auto begin_of = [&](int example) { return set.bags[static_cast<size_t>(int64_t{index[example]} * tables_)]; };
    const auto end_of = [&](int example) {
      return set.bags[static_cast<size_t>(int64_t{index[example] + 1} * tables_)];
    };
    for (int n = 0; n < count; ++n) total += end_of(n) - begin_of(n);
    int32_t* ids = tape.arena.take<int32_t>(total + 1);
    int32_t at = 0, bag = 0;
    for (int n = 0; n < count; ++n) {
      const int64_t from = begin_of(n);
      for (int t = 0; t < tables_; ++t)
        first[bag++] = at + static_cast<int32_t>(set.bags[static_cast<size_t>(int64_t{index[n]} * tables_ + t)] - from);
      for (int64_t i = from; i < end_of(n); ++i) ids[at++] = set.ids[static_cast<size_t>(i)];
    }
    first[bag] = at;
    const Var table = parameters_->variable(tape, table_);
    return embedding_bags(tape, *backend_, order_, rules_, {ids, first, bag}, tables_, table);
  }

  std::shared_ptr<const Clicks> data_;
  const Dispatcher* backend_;
  int dense_, tables_, batch_;
  TableRules rules_;
  BagOrder order_;
  double bytes_;
  Walk walk_;
  Parameters* parameters_;
  int table_;
  std::vector<Linear> bottom_, top_;
  std::unique_ptr<Linear> head_;
  std::vector<float> scores_;  // of the last validation: the logits' differences
};

class Recommender : public Task {
 public:
  std::string name() const override { return "recommender"; }
  std::string doc() const override { return "DLRM-like click model with embedding tables, fp32 head"; }
  Schema schema(const Json&) const override {
    Schema s = common_schema(0.5, 0.0);
    s.insert(s.end(),
             {{"row_format", "fp32", "how table rows are stored", names_of(row_format_table)},
              {"update", "stochastic",
               "master: fp32 table, rows rounded when read; else stored in row_format, updated by this rounding",
               names_of(row_update_table)},
              {"table_rate", 20.0, "learning rate of the tables' row-wise Adagrad, times lr", {}, 0, 1e6},
              {"order", "sequential", "how the rows of a bag are summed", {"sequential", "exact"}},
              {"dense", 13, "dense features", {}, 1, 8192},
              {"tables", 8, "embedding tables, a bag each in every example", {}, 1, 1024},
              {"rows", 1000, "of each table", {}, 1, 1 << 24},
              {"embedding", 32, "numbers in a row", {}, 1, 8192},
              {"pooling", 4, "ids in a bag", {}, 1, 1024},
              {"zipf", 1.05, "P(id = i) ~ (i + 1)^-zipf", {}, 0, 10},
              {"width", 64, "of the hidden layers; the last one has half", {}, 2, 8192},
              {"clicks", "", "file of clicks instead of the formula: CSV or tabs, click, dense, bags"}});
    return s;
  }
  std::vector<std::string> file_parameters() const override { return {"clicks"}; }
  Json train_defaults(const Json&, const Json&) const override {
    return {{"steps", 600}, {"batch", 128}, {"lr", 0.0113}, {"warmup", 30}};  // results/embedding
  }
  std::string invalid_reason(const Json& config) const override {
    const double numbers = number(config, "tables") * number(config, "rows") * number(config, "embedding");
    return numbers > 1e9 ? "recommender: tables x rows x embedding must be at most 1e9" : "";
  }
  std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const override {
    return std::make_unique<RecommenderModel>(build, config, seed);
  }
  double multiply_adds(const Json& config) const override {
    const Widths w = widths_of(config);
    const double first = 2.0 * integer(config, "dense") * w.bottom;  // no dgrad
    const double others = 3.0 * (double{1} * w.bottom * w.embedding + double{1} * w.interaction * w.top +
                                 double{1} * w.top * w.last + 2.0 * w.last);
    const double bags = 2.0 * integer(config, "tables") * integer(config, "pooling") * w.embedding;
    return batch_of(config) * (first + others + bags + 3.0 * (w.interaction - w.embedding) * w.embedding);
  }
};

}  // namespace

const sim::Task& recommender() {
  static const Recommender task;
  return task;
}

}  // namespace fp4::tasks
