// See rollout.h; words stand in rollout_words.cpp.
#include "sweeps/judge/rollout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/tape/forward_log.h"
#include "src/text/error.h"
#include "tasks/run.h"

namespace fp4::sweeps {

namespace {

// exp(d) - 1 - d, never below 0 and exact to 1e-11 also where d is small.
double excess(double d) {
  if (std::fabs(d) < 1e-3) return d * d * (0.5 + d * (1.0 / 6 + d * (1.0 / 24 + d / 120)));
  return std::expm1(d) - d;
}

// ln sum exp of a row.
double log_sum_of(const float* logits, int classes) {
  const auto top = static_cast<double>(*std::max_element(logits, logits + classes));
  double sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[c]) - top);
  return top + std::log(sum);
}

// KL of a token; nothing where a logit is not finite. With d = ln q - ln p it is sum p (exp(d) - 1 - d), since p and q
// both add up to 1: no term is negative, so that nothing cancels where the two are close. Where a class moves by more
// than 30 nats, -sum p d.
std::optional<double> kl_of_token(const float* mine, const float* other, int classes, std::vector<double>& p) {
  const auto is_finite = [](float x) { return std::isfinite(x); };
  if (!std::all_of(mine, mine + classes, is_finite) || !std::all_of(other, other + classes, is_finite)) return {};
  p.resize(static_cast<size_t>(classes));
  const auto moved = [&](int c) { return static_cast<double>(other[c]) - static_cast<double>(mine[c]); };
  const auto share = [&](int c) -> double& { return p[static_cast<size_t>(c)]; };
  const double log_sum = log_sum_of(mine, classes);
  double mean = 0, farthest = 0, rest = 0, kl = 0;
  for (int c = 0; c < classes; ++c) {
    share(c) = std::exp(static_cast<double>(mine[c]) - log_sum);
    mean += share(c) * moved(c);
  }
  for (int c = 0; c < classes; ++c) farthest = std::max(farthest, std::fabs(moved(c) - mean));
  if (farthest > 30) return std::max(0.0, log_sum_of(other, classes) - log_sum - mean);
  for (int c = 0; c < classes; ++c) rest += share(c) * std::expm1(moved(c) - mean);
  const double shift = mean + std::log1p(rest);  // ln of the other's sum over mine
  for (int c = 0; c < classes; ++c) kl += share(c) * excess(moved(c) - shift);
  return kl;
}

std::string operand_of(const std::array<uint64_t, 4>& first, const std::array<uint64_t, 4>& second) {
  using Log = sim::ForwardLog;
  if (first[Log::x] != second[Log::x]) return "input";
  const bool a = first[Log::a] != second[Log::a], b = first[Log::b] != second[Log::b];
  return a && b ? "a and b" : a ? "a" : b ? "b" : "sum";
}

size_t matrix_of(const std::string& operand) {
  using Log = sim::ForwardLog;
  return operand == "input" ? Log::x : operand == "b" ? Log::b : operand == "sum" ? Log::y : Log::a;
}

}  // namespace

Divergence divergence(const std::vector<float>& outputs, const std::vector<float>& reference, int classes,
                      int per_example) {
  Divergence out;
  const auto tokens = static_cast<int64_t>(outputs.size()) / classes;
  std::vector<double> shares, kls, flips;
  for (int64_t first = 0; first < tokens; first += per_example) {
    const int64_t end = std::min(tokens, first + per_example);
    double kl = 0, flipped = 0;
    int64_t counted = 0;
    for (int64_t t = first; t < end; ++t) {
      const float *mine = outputs.data() + t * classes, *other = reference.data() + t * classes;
      const std::optional<double> of_token = kl_of_token(mine, other, classes, shares);
      if (!of_token) {
        ++out.not_finite;
        continue;
      }
      kl += *of_token;
      out.largest = std::max(out.largest, *of_token);
      flipped += std::max_element(mine, mine + classes) - mine != std::max_element(other, other + classes) - other;
      ++counted;
    }
    if (counted == 0) continue;
    kls.push_back(kl / static_cast<double>(counted));
    flips.push_back(flipped / static_cast<double>(counted));
  }
  out.kl = summarise(kls);
  out.flipped = summarise(flips);
  for (Summary* s : {&out.kl, &out.flipped})
    if (s->interval) s->interval->low = std::max(0.0, s->interval->low);
  return out;
}

namespace {

tasks::Evaluated evaluated(const std::string& checkpoint, const Json& recipe, sim::RunOptions options,
                           sim::ForwardLog* log = nullptr) {
  options.keeps_outputs = true;
  options.measures_afresh = true;  // or one of the two would have scales that the other lacks
  options.forward_log = log;
  return tasks::evaluate(checkpoint, recipe, options);
}

FirstDifference described(const sim::ForwardLog::Product& p, const std::string& operand,
                          const sim::ForwardLog::Matrix& against, const sim::ForwardLog::Matrix& recipe) {
  FirstDifference out = {p.layer, p.part, operand, 0, static_cast<int64_t>(recipe.values.size()), 0, 0, 0, 0};
  if (against.rows != recipe.rows || against.cols != recipe.cols) {  // one of them in a rotated, padded basis
    out.differing = out.count;
    return out;
  }
  for (size_t i = 0; i < recipe.values.size(); ++i) {
    const float x = against.values[i], y = recipe.values[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (out.differing++ > 0) continue;
    out.row = static_cast<int64_t>(i) / recipe.cols;
    out.column = static_cast<int64_t>(i) % recipe.cols;
    out.against = x, out.recipe = y;
  }
  return out;
}

constexpr size_t most_paired = 8;  // words: 28 pairs

// KL that is left without a word; what cannot be judged comes last.
double left_of(const std::optional<Divergence>& without) {
  return without && without->kl.n > 0 ? without->kl.mean : std::numeric_limits<double>::infinity();
}
double made_by(const Turn& turn) { return turn.alone && turn.alone->kl.n > 0 ? turn.alone->kl.mean : -1; }

// A recipe against the outputs under the other, and how many evaluations that took.
struct Comparer {
  const std::string& checkpoint;
  const sim::RunOptions& options;
  const sim::Answers& reference;
  int per_example;
  const std::function<void(size_t done, size_t all)>& progress;
  size_t done = 0, all = 0;

  void step() {
    if (progress) progress(++done, all);
  }
  Divergence against_reference(const sim::Answers& a) const {
    return divergence(a.outputs, reference.outputs, reference.classes, per_example);
  }
  // Nothing where the recipe cannot run; `reason` says why.
  std::optional<Divergence> under(const std::function<Json()>& recipe, std::string& reason) {
    std::optional<Divergence> left;
    try {
      left = against_reference(evaluated(checkpoint, recipe(), options).result.answers);
    } catch (const Error& error) {
      reason = error.what();
    }
    step();
    return left;
  }
};

// Each word turned alone, and all but it.
void turn_words(Rollout& out, Comparer& c) {
  for (Turn& turn : out.turns) {
    if (out.turns.size() == 1) {
      turn.alone = out.all;
      turn.without = c.against_reference(c.reference);
      continue;
    }
    turn.alone = c.under([&] { return with_word(out.against, turn.word, turn.recipe); }, turn.reason);
    turn.without = c.under([&] { return with_word(out.recipe, turn.word, turn.against); }, turn.reason);
  }
  std::stable_sort(out.turns.begin(), out.turns.end(), [](const Turn& a, const Turn& b) {
    const double left_a = left_of(a.without), left_b = left_of(b.without);
    return left_a != left_b ? left_a < left_b : made_by(a) > made_by(b);
  });
}

// Where no word is the cause: pairs of those that leave least.
void turn_pairs(Rollout& out, Comparer& c) {
  for (size_t second = 1; second < std::min(out.turns.size(), most_paired); ++second)
    for (size_t first = 0; first < second; ++first) out.pairs.push_back({first, second, {}});
  c.all += out.pairs.size();
  for (PairTurn& pair : out.pairs) {
    const Turn &one = out.turns[pair.first], &two = out.turns[pair.second];
    std::string unsaid;
    pair.without =
        c.under([&] { return with_word(with_word(out.recipe, one.word, one.against), two.word, two.against); }, unsaid);
  }
  std::stable_sort(out.pairs.begin(), out.pairs.end(),
                   [](const PairTurn& a, const PairTurn& b) { return left_of(a.without) < left_of(b.without); });
}

}  // namespace

Rollout compare_rollout(const std::string& checkpoint, const Json& against, const Json& recipe,
                        const sim::RunOptions& options, const std::function<void(size_t done, size_t all)>& progress) {
  sim::ForwardLog first_log, second_log;
  const tasks::Evaluated first = evaluated(checkpoint, against, options, &first_log);
  const tasks::Evaluated second = evaluated(checkpoint, recipe, options, &second_log);
  Rollout out;
  out.against = first.config.at("recipe"), out.recipe = second.config.at("recipe");
  out.turns = different_words(out.against, out.recipe);
  const sim::Answers &reference = first.result.answers, &answers = second.result.answers;
  const size_t turned = out.turns.size() == 1 ? 0 : 2 * out.turns.size();
  Comparer c = {checkpoint, options, reference, tasks::sequence_of(first.config), progress, 1, 4 + turned};
  c.step();
  if (reference.classes == 0)
    throw Error("--against: task " + first.config.at("task").at("name").get<std::string>() +
                " has no classes, and so no probabilities; accepted: a checkpoint of classifier, lm or recommender");
  out.tokens = static_cast<int64_t>(answers.labels.size());
  out.examples = (out.tokens + c.per_example - 1) / c.per_example;
  out.against_metrics = first.result.metrics, out.recipe_metrics = second.result.metrics;
  out.all = c.against_reference(answers);

  if (const auto pair = sim::first_difference(first_log, second_log)) {
    const sim::ForwardLog::Product& p = second_log.products()[static_cast<size_t>(pair->second)];
    const std::string operand = operand_of(first_log.products()[static_cast<size_t>(pair->first)].hashes, p.hashes);
    sim::ForwardLog kept_first(pair->first), kept_second(pair->second);
    evaluated(checkpoint, against, options, &kept_first);
    c.step();
    evaluated(checkpoint, recipe, options, &kept_second);
    const size_t which = matrix_of(operand);
    out.first = described(p, operand, kept_first.kept()[which], kept_second.kept()[which]);
  } else {
    c.step();
  }
  c.step();

  turn_words(out, c);
  if (out.all.kl.n > 0 && out.all.kl.mean != 0 && cause_of(out).words.empty()) turn_pairs(out, c);
  return out;
}

Cause cause_of(const Rollout& r) {
  if (r.all.kl.n == 0 || r.all.kl.mean == 0 || r.turns.empty()) return {};
  if (r.turns.size() == 1) return {{0}, 0};
  const double most = cause_leaves * r.all.kl.mean;
  if (const double left = left_of(r.turns.front().without); left <= most) return {{0}, left};
  if (r.pairs.empty()) return {};
  const PairTurn& pair = r.pairs.front();
  if (const double left = left_of(pair.without); left <= most) return {{pair.first, pair.second}, left};
  return {};
}

}  // namespace fp4::sweeps
