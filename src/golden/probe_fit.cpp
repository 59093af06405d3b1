// The adder behind a probe's words: every named row is tried; without an equal one the best of them are changed one
// parameter at a time, as long as a change gives more of the words.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "src/golden/probe_dump.h"

namespace fp4::golden {
namespace {

constexpr size_t first_sample = 48;
constexpr size_t last_sample = 1024;
constexpr size_t sample = 384;  // sums that candidates are ranked by
constexpr size_t seeds = 6;     // best named rows that are changed
constexpr int rounds = 6;       // changes in a row

// A parameter: where it stands and its values. They keep a model within what accumulate.h defines.
struct Parameter {
  const char* name;
  std::variant<int Accumulator::*, Rounding Accumulator::*, bool Accumulator::*, int ProbeModel::*, bool ProbeModel::*>
      field;
  std::vector<int> values;

  int of(ProbeModel m) const {
    return std::visit([&](auto f) { return static_cast<int>(place(m, f)); }, field);
  }
  void set(ProbeModel& m, int v) const {
    std::visit([&](auto f) { place(m, f) = static_cast<std::decay_t<decltype(place(m, f))>>(v); }, field);
  }

 private:
  template <class T>
  static T& place(ProbeModel& m, T Accumulator::*f) {
    return m.row.*f;
  }
  template <class T>
  static T& place(ProbeModel& m, T ProbeModel::*f) {
    return m.*f;
  }
};

std::vector<int> range(int from, int to) {
  std::vector<int> out;
  for (int v = from; v <= to; ++v) out.push_back(v);
  return out;
}

std::vector<int> with(int first, std::vector<int> others) {
  others.insert(others.begin(), first);
  return others;
}

const std::vector<Parameter>& parameters() {
  static const std::vector<int> powers = {1, 2, 4, 8, 16, 32, 64, 128};
  static const std::vector<int> both = {0, 1}, roundings = {static_cast<int>(Rounding::nearest_even),
                                                            static_cast<int>(Rounding::toward_zero)};
  static const std::vector<Parameter> list = {
      {"group", &Accumulator::group, powers},
      {"inner", &Accumulator::inner, powers},
      {"fraction_bits", &Accumulator::fraction_bits, range(4, 56)},
      {"rounding", &Accumulator::rounding, roundings},
      {"group_rounding", &Accumulator::group_rounding, roundings},
      {"zero_exponent", &Accumulator::zero_exponent, with(no_zero_exponent, range(-160, -1))},
      {"result_bits", &Accumulator::result_bits, range(8, fp32_result_bits)},
      {"scale_bits", &Accumulator::scale_bits, range(8, 56)},
      {"carried_bits", &Accumulator::carried_bits, range(8, 56)},
      {"carried_inner", &Accumulator::carried_inner, powers},
      {"cuts_outranked", &Accumulator::cuts_outranked, both},
      {"subnormal_floor", &Accumulator::subnormal_floor, with(no_subnormal_floor, range(-190, -150))},
      {"stride", &ProbeModel::stride, {1, 2, 4, 8, 16}},
      {"descending", &ProbeModel::descending, both},
      {"c_last", &ProbeModel::adds_c_last, both},
  };
  return list;
}

std::string text_of(const Parameter& p, int value) {
  if (std::string(p.name).ends_with("rounding")) return row_of(rounding_table, static_cast<Rounding>(value)).name;
  return value == no_zero_exponent ? "none" : std::to_string(value);
}

// Whether a parameter says anything under a kind.
bool is_alive(const std::string& name, const Accumulator& a, bool has_scale) {
  const bool aligned = a.kind == AccumulatorKind::aligned, windowed = a.kind == AccumulatorKind::windowed;
  const bool floor = a.kind == AccumulatorKind::floor_aligned || a.kind == AccumulatorKind::floor_aligned_pairs;
  if (name == "stride" || name == "descending" || name == "c_last") return true;
  if (name == "group") return aligned || windowed || floor || a.kind == AccumulatorKind::group;
  if (name == "inner") return windowed || (aligned && has_scale);
  if (name == "fraction_bits") return aligned || windowed || floor;
  if (name == "rounding") return !windowed && !floor;
  if (name == "group_rounding") return a.kind == AccumulatorKind::group || a.kind == AccumulatorKind::sequential;
  if (name == "zero_exponent" || name == "result_bits") return aligned && (name[0] == 'z' || !a.is_half);
  return windowed;
}

bool fits(const ProbeModel& m, const ProbeSection& s) {
  const bool is_floor =
      m.row.kind == AccumulatorKind::floor_aligned || m.row.kind == AccumulatorKind::floor_aligned_pairs;
  if (is_floor && m.row.fraction_bits > 28) return false;
  const bool reordered = m.stride > 1 || m.descending;  // scales stay where they are: blocks would be torn
  return !reordered || !s.has_scale();
}

// The sums of a section. Those that candidates are ranked by are decoded once.
class Sums {
 public:
  explicit Sums(const ProbeSection& s) : section(s) {
    for (size_t i = 0; i < std::min(last_sample, s.sums.size()); ++i) first_.push_back(decoded(s, s.sums[i]));
  }
  size_t size() const { return section.sums.size(); }
  bool has_word(size_t i, const ProbeModel& m) const {
    const ProbeSum& sum = section.sums[i];
    return (i < first_.size() ? probe_word(section, first_[i], m) : probe_word(section, sum, m)) == sum.d;
  }
  const ProbeSection& section;

 private:
  std::vector<DecodedSum> first_;
};

// How many of the first `count` words a model gives. A model that gives fewer than `wanted` is left at the word that
// shows it; the number is then below `wanted` and means no more.
uint64_t words_given(const Sums& s, const ProbeModel& m, size_t count, uint64_t wanted = 0,
                     int64_t* first_difference = nullptr) {
  const size_t asked = std::min(count, s.size());
  uint64_t possible = asked;
  for (size_t i = 0; i < asked && possible >= wanted; ++i) {
    if (s.has_word(i, m)) continue;
    --possible;
    if (first_difference != nullptr && *first_difference < 0) *first_difference = static_cast<int64_t>(i);
  }
  return possible;
}

bool takes_section(const Accumulator& row, const ProbeSection& s) {
  const bool takes_both = takes(row, s.has_scale(), format_of(s.a)) && takes(row, s.has_scale(), format_of(s.b));
  return takes_both && row.is_half == s.is_half && (row.tf32 || !s.tf32);
}

struct Climb {
  ProbeModel model;
  uint64_t equal = 0;
};

// The model after the one change that gives the most words, or the model itself.
Climb best_step(const Sums& s, const Climb& from, size_t count) {
  Climb best = from;
  for (const Parameter& p : parameters()) {
    if (!is_alive(p.name, from.model.row, s.section.has_scale())) continue;
    for (const int value : p.values) {
      ProbeModel changed = from.model;
      p.set(changed, value);
      if (changed == from.model || !fits(changed, s.section)) continue;
      const uint64_t equal = words_given(s, changed, count, best.equal + 1);
      if (equal > best.equal) best = {changed, equal};
    }
  }
  return best;
}

std::vector<std::string> changes_of(const ProbeModel& m, const AccumulatorInfo& from) {
  std::vector<std::string> changes;
  const ProbeModel start = {from.row};
  for (const Parameter& p : parameters())
    if (p.of(m) != p.of(start))
      changes.push_back(fmt::format("{}={} instead of {}", p.name, text_of(p, p.of(m)), text_of(p, p.of(start))));
  return changes;
}

}  // namespace

// long: the steps of one search, each from what the one before it found
ProbeVerdict judge_probe(const ProbeSection& section) {
  ProbeVerdict v;
  v.total = section.sums.size();
  if (section.sums.empty()) return v;
  const Sums s(section);
  const size_t count = std::min(sample, s.size());
  struct Start {
    Climb climb;
    const AccumulatorInfo* row;
  };
  std::vector<Start> ranked;
  for (const AccumulatorInfo& info : accumulator_table) {
    if (!takes_section(info.row, section)) continue;
    // As they are, and as units of narrower operands are built of them: other orders, C by an addition of its own.
    for (const int stride : {1, 2, 4})
      for (const bool adds_c_last : {false, true}) {
        const ProbeModel m = {info.row, stride, false, adds_c_last};
        if (fits(m, section)) ranked.push_back({{m, words_given(s, m, count)}, &info});
      }
    const ProbeModel plain = {info.row};
    if (words_given(s, plain, s.size(), v.total) < v.total) continue;
    if (v.equals.empty()) v.model = plain;
    v.equals.emplace_back(info.name);
  }
  if (!v.equals.empty() || ranked.empty()) {
    v.equal = v.equals.empty() ? 0 : v.total;
    return v;
  }
  // Each after its best single change, on few sums; those that then give most are looked at closely.
  const size_t few = std::min(first_sample, count);
  std::vector<Start> changed;
  for (const Start& start : ranked) {
    const uint64_t equal = words_given(s, start.climb.model, few);
    changed.push_back(
        {equal == few ? Climb{start.climb.model, equal} : best_step(s, {start.climb.model, equal}, few), start.row});
  }
  std::stable_sort(changed.begin(), changed.end(), [](const Start& x, const Start& y) {
    if (x.climb.equal != y.climb.equal) return x.climb.equal > y.climb.equal;
    return changes_of(x.climb.model, *x.row).size() < changes_of(y.climb.model, *y.row).size();
  });
  Start best = {{changed[0].climb.model, 0}, changed[0].row};
  for (size_t i = 0; i < std::min(seeds, changed.size()) && best.climb.equal < count; ++i) {
    Start start = {{changed[i].climb.model, words_given(s, changed[i].climb.model, count)}, changed[i].row};
    for (int round = 0; round < rounds && start.climb.equal < count; ++round) {
      const Climb next = best_step(s, start.climb, count);
      if (next.equal == start.climb.equal) break;
      start.climb = next;
    }
    if (start.climb.equal > best.climb.equal) best = start;
  }
  // What the sample left open.
  const size_t many = std::min(last_sample, s.size());
  Climb last = {best.climb.model, words_given(s, best.climb.model, many)};
  if (last.equal < many) last = best_step(s, last, many);
  v.model = last.model;
  v.nearest = best.row->name;
  v.equal = words_given(s, v.model, s.size(), 0, &v.first_difference);
  v.changes = changes_of(v.model, *best.row);
  return v;
}

}  // namespace fp4::golden
