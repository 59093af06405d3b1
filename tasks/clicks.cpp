#include "tasks/clicks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "fp4/elementary.h"
#include "src/text/byte_source.h"
#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "tasks/task_data.h"

namespace fp4::tasks {

using namespace sim;

namespace {

constexpr int hidden = 4;  // of the teacher
constexpr int validation_clicks = 4096;
constexpr float click_bias = -1.2f;                           // about a quarter clicks, as in Criteo's data
constexpr float own_deviation = 1.6f, pair_deviation = 0.8f;  // of the logit's two sums

struct Sizes {
  int dense, tables, rows, pooling;
  int64_t ids() const { return int64_t{tables} * pooling; }  // of an example
};

Sizes sizes_of(const Json& config) {
  return {integer(config, "dense"), integer(config, "tables"), integer(config, "rows"), integer(config, "pooling")};
}

// Ids below `rows` by their uniform draws.
class Zipf {
 public:
  Zipf(int rows, float exponent) {
    double total = 0;
    for (int i = 0; i < rows; ++i)
      below_.push_back(total += static_cast<double>(elementary::pow(static_cast<float>(i + 1), -exponent)));
  }
  int32_t operator()(float uniform) const {
    const auto at = std::upper_bound(below_.begin(), below_.end(), static_cast<double>(uniform) * below_.back());
    return static_cast<int32_t>(std::min(at, below_.end() - 1) - below_.begin());
  }

 private:
  std::vector<double> below_;
};

class ClickTeacher {
 public:
  ClickTeacher(const Sizes& s, uint64_t seed)
      : sizes_(s),
        rows_(source(seed, DataSet::teacher).normals(int64_t{s.tables} * s.rows * hidden)),
        dense_(source(seed, DataSet::teacher, 1).normals(int64_t{s.dense} * hidden)),
        direction_(source(seed, DataSet::teacher, 2).normals(int64_t{s.tables} * hidden)) {
    // Both u . z of a bag and z . z of a pair have the variance `hidden`.
    const auto of = [](float deviation, int terms) {
      return deviation / std::sqrt(static_cast<float>(hidden * terms));
    };
    own_ = of(own_deviation, s.tables);
    pair_ = of(pair_deviation, s.tables * (s.tables + 1) / 2);
  }

  float logit(const float* dense, const int32_t* ids) const {
    std::vector<float> z(static_cast<size_t>((sizes_.tables + 1) * hidden), 0.0f);
    const float of_dense = 1.0f / std::sqrt(static_cast<float>(sizes_.dense));
    for (int h = 0; h < hidden; ++h) {
      float sum = 0;
      for (int i = 0; i < sizes_.dense; ++i) sum += dense_[static_cast<size_t>(i * hidden + h)] * dense[i];
      z[static_cast<size_t>(h)] = sum * of_dense;
    }
    const float of_bag = 1.0f / std::sqrt(static_cast<float>(sizes_.pooling));
    float own = 0, pairs = 0;
    for (int t = 0; t < sizes_.tables; ++t)
      for (int h = 0; h < hidden; ++h) {
        float sum = 0;
        for (int p = 0; p < sizes_.pooling; ++p)
          sum += rows_[static_cast<size_t>(ids[t * sizes_.pooling + p]) * hidden + static_cast<size_t>(h)];
        sum *= of_bag;
        z[static_cast<size_t>((t + 1) * hidden + h)] = sum;
        own += direction_[static_cast<size_t>(t * hidden + h)] * sum;
      }
    for (int i = 1; i <= sizes_.tables; ++i)
      for (int j = 0; j < i; ++j)
        for (int h = 0; h < hidden; ++h)
          pairs += z[static_cast<size_t>(i * hidden + h)] * z[static_cast<size_t>(j * hidden + h)];
    return click_bias + own_ * own + pair_ * pairs;
  }

 private:
  Sizes sizes_;
  std::vector<float> rows_, dense_, direction_;
  float own_, pair_;
};

// Data sets of the features, the ids and the clicks.
struct Streams {
  DataSet dense, ids, labels;
};

// Examples by formula; their entropies add up in `entropy`.
ClickSet formula_clicks(const Sizes& s, const Zipf& zipf, const ClickTeacher& teacher, int64_t count, uint64_t seed,
                        const Streams& from, double& entropy, const std::function<bool()>& stop) {
  ClickSet set;
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  set.dense.reserve(size(count * s.dense));
  set.ids.reserve(size(count * s.ids()));
  set.bags.reserve(size(count * s.tables + 1));
  set.bags.push_back(0);
  set.labels.reserve(size(count));
  std::vector<float> draws, chances;
  in_pieces(count, stop, [&](int64_t first, int64_t some) {
    const int64_t end = first + some;
    set.dense.resize(size(end * s.dense));
    source(seed, from.dense).normals(set.dense.data() + first * s.dense, first * s.dense, some * s.dense);
    draws.resize(size(some * s.ids()));
    source(seed, from.ids).uniforms(draws.data(), first * s.ids(), some * s.ids());
    chances.resize(size(some));
    source(seed, from.labels).uniforms(chances.data(), first, some);
    for (size_t i = 0; i < draws.size(); ++i) {
      const auto table = static_cast<int32_t>(static_cast<int64_t>(i) % s.ids() / s.pooling);
      set.ids.push_back(table * s.rows + zipf(draws[i]));
    }
    for (int64_t b = first * s.tables + 1; b <= end * s.tables; ++b) set.bags.push_back(b * s.pooling);
    for (int64_t n = first; n < end; ++n) {
      const float logit = teacher.logit(set.dense.data() + n * s.dense, set.ids.data() + n * s.ids());
      const float p = 1.0f / (1.0f + elementary::exp(-logit));
      set.labels.push_back(chances[size(n - first)] < p ? 1 : 0);
      entropy += entropy_of(static_cast<double>(p));
    }
  });
  return set;
}

std::shared_ptr<Clicks> clicks_by_formula(const Json& config, int64_t count, const std::function<bool()>& stop) {
  const uint64_t seed = data_seed(config);
  const Sizes s = sizes_of(config);
  check_room(config, count,
             int64_t{sizeof(float)} * s.dense + int64_t{sizeof(int32_t)} * (s.ids() + 1) +
                 int64_t{sizeof(int64_t)} * s.tables + weight_bytes(config));
  const Zipf zipf(s.rows, static_cast<float>(number(config, "zipf")));
  const ClickTeacher teacher(s, seed);
  auto c = std::make_shared<Clicks>();
  double unused = 0, entropy = 0;
  c->train = formula_clicks(s, zipf, teacher, count, seed, {DataSet::pool, DataSet::pool_noise, DataSet::pool_labels},
                            unused, stop);
  c->validation =
      formula_clicks(s, zipf, teacher, validation_clicks, seed,
                     {DataSet::validation, DataSet::validation_noise, DataSet::validation_labels}, entropy, stop);
  c->irreducible = entropy / validation_clicks;
  return c;
}

// Examples begin .. end - 1 of a set.
ClickSet part(const ClickSet& all, int begin, int end, int dense, int tables) {
  ClickSet p;
  p.dense.assign(all.dense.begin() + int64_t{begin} * dense, all.dense.begin() + int64_t{end} * dense);
  p.labels.assign(all.labels.begin() + begin, all.labels.begin() + end);
  const auto bags = all.bags.begin();
  const int64_t first = bags[int64_t{begin} * tables], last = bags[int64_t{end} * tables];
  for (int64_t b = int64_t{begin} * tables; b <= int64_t{end} * tables; ++b) p.bags.push_back(bags[b] - first);
  p.ids.assign(all.ids.begin() + first, all.ids.begin() + last);
  return p;
}

std::shared_ptr<Clicks> clicks_of_file(const Json& config, const std::string& path) {
  const Sizes s = sizes_of(config);
  const ClickSet all = read_clicks(path, s.dense, s.tables, s.rows);
  const int held = std::min(validation_clicks, all.count() / 10), train = all.count() - held;
  auto c = std::make_shared<Clicks>();
  c->train = part(all, 0, train, s.dense, s.tables);
  c->validation = part(all, train, all.count(), s.dense, s.tables);
  return c;
}

uint32_t fnv1a(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

double entropy_of(double p) {
  if (p <= 0 || p >= 1) return 0;
  const auto ln = [](double x) { return static_cast<double>(elementary::log(static_cast<float>(x))); };
  return -(p * ln(p) + (1 - p) * ln(1 - p));
}

double area_under_curve(const std::vector<float>& scores, const std::vector<int32_t>& labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double area = 0, others = 0, clicks = 0;  // pairs of a click above another example; those seen so far
  for (size_t i = 0; i < order.size();) {
    double tied_clicks = 0, tied_others = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) (labels[order[i]] != 0 ? tied_clicks : tied_others) += 1;
    area += tied_clicks * (others + tied_others / 2);
    others += tied_others, clicks += tied_clicks;
  }
  return clicks > 0 && others > 0 ? area / (clicks * others) : 0.5;
}

ClickSet read_clicks(const std::string& path, int dense, int tables, int rows) {
  std::istringstream in(read_file(path));
  ClickSet set;
  set.bags.push_back(0);
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    const std::string place = path + ": line " + std::to_string(number);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool has_tabs = line.find('\t') != std::string::npos;
    const std::vector<std::string> fields = has_tabs ? split(line, '\t') : csv_fields(line);
    const size_t wanted = static_cast<size_t>(1 + dense + tables);
    if (fields.size() != wanted)
      throw Error(place + ": " + std::to_string(fields.size()) + " columns; accepted: " + std::to_string(wanted) +
                  ", a click, " + std::to_string(dense) + " numbers (dense) and " + std::to_string(tables) +
                  " bags (tables)");
    if (fields[0] != "0" && fields[0] != "1")
      throw Error(place + ", column 1: '" + fields[0] + "' is no click; accepted: 0, 1");
    set.labels.push_back(fields[0] == "1");
    for (int i = 0; i < dense; ++i) {
      const std::string& text = fields[static_cast<size_t>(1 + i)];
      const float x = text.empty() ? 0 : real_from_text<float>(text).value_or(NAN);
      if (!std::isfinite(x)) throw Error(place + ", column " + std::to_string(2 + i) + ": '" + text + "' is no number");
      set.dense.push_back(elementary::log(1.0f + std::max(x, 0.0f)));
    }
    for (int t = 0; t < tables; ++t) {
      const std::string_view bag = fields[static_cast<size_t>(1 + dense + t)];
      for (size_t at = 0; at < bag.size();) {
        const size_t end = std::min(bag.find('|', at), bag.size());
        const uint32_t row = fnv1a(bag.substr(at, end - at)) % static_cast<uint32_t>(rows);
        set.ids.push_back(t * rows + static_cast<int32_t>(row));
        at = end + 1;
      }
      set.bags.push_back(static_cast<int64_t>(set.ids.size()));
    }
  }
  if (set.count() < 20) throw Error(path + ": " + std::to_string(set.count()) + " lines; accepted: 20 or more");
  return set;
}

std::shared_ptr<const Clicks> clicks(const Json& config, const std::function<bool()>& stop) {
  static PoolCache<Clicks> cache;
  return cache.get(pool_key(config), examples_of(config), [&](int64_t count) {
    const uint64_t seed = data_seed(config);
    const std::string path = config.at("task").at("clicks");
    const std::shared_ptr<Clicks> c =
        path.empty() ? clicks_by_formula(config, count, stop) : clicks_of_file(config, path);
    const std::vector<float> factors =
        channel_factors(integer(config, "dense"), number(config, "outliers.channel"), source(seed, DataSet::channels));
    for (ClickSet* set : {&c->train, &c->validation}) scale_columns(set->dense, factors, stop);
    c->weights = loss_weights(config, c->train.count(), stop);
    return c;
  });
}

}  // namespace fp4::tasks
