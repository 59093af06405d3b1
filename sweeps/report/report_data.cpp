// Which columns the report page carries, and under which names: the C++ side of what sweeps/report/data.js reads.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/text/error.h"
#include "src/text/member_json.h"
#include "sweeps/report/report.h"
#include "sweeps/report/report_pack.h"

namespace fp4 {
namespace {

using nlohmann::json;

json parse(const std::string& text, const std::string& place) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) throw Error("report " + place + ": not JSON", Error::failed);
  return value;
}

// Leaves of nested objects by their path (the JSON text of the array of keys); an array is a leaf.
void flatten(const json& value, json& path, std::vector<std::pair<std::string, std::string>>& leaves) {
  constexpr auto replace = json::error_handler_t::replace;
  if (!value.is_object() || value.empty()) {
    leaves.emplace_back(path.dump(-1, ' ', false, replace), value.dump(-1, ' ', false, replace));
    return;
  }
  for (const auto& [key, child] : value.items()) {
    path.push_back(key);
    flatten(child, path, leaves);
    path.erase(path.size() - 1);
  }
}

template <class Rows, class Get>
auto collect(const Rows& rows, Get get) {
  std::vector<std::decay_t<decltype(get(*rows.begin()))>> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(get(row));
  return values;
}

json describe(const std::vector<ReportColumn>& columns) {
  return collect(columns, [](const auto& c) { return FP4_NAMED(c.name, c.unit, c.doc, c.lower_is_better); });
}

json describe(const std::vector<ReportAnswer>& answers) {
  return collect(answers, [](const auto& a) { return FP4_NAMED(a.context, a.text); });
}

// One column per name that occurs in some point's list (a cost term, a path of the configuration), in the order of
// first appearance; a point that lacks it keeps `absent`. A column that is the same everywhere costs a few bytes.
template <class Value>
class SparseColumns {
 public:
  SparseColumns(std::size_t rows, Value absent) : rows_(rows), absent_(absent) {}
  void set(std::size_t row, const std::string& name, const Value& value) {
    const auto [found, is_new] = place_.emplace(name, columns_.size());
    if (is_new) columns_.emplace_back(name, std::vector<Value>(rows_, absent_));
    columns_[found->second].second[row] = value;
  }
  const std::vector<std::pair<std::string, std::vector<Value>>>& columns() const { return columns_; }

 private:
  std::size_t rows_;
  Value absent_;
  std::vector<std::pair<std::string, std::vector<Value>>> columns_;
  std::unordered_map<std::string, std::size_t> place_;
};

// What depends on the chip: front and costs, and the estimates of the seeds that decided there.
void pack_judgement(ColumnPack& pack, const ReportInput& input, const std::vector<ReportPoint>& points) {
  pack.words("front", collect(points, [](const auto& p) { return p.front; }));
  pack.words("rival", collect(points, [](const auto& p) { return p.rival; }));
  pack.numbers("seeds", collect(points, [](const auto& p) { return static_cast<double>(p.seeds); }));
  for (std::size_t i = 0; i < input.cost_columns.size(); ++i)
    pack.numbers("mean " + input.cost_columns[i].name, collect(points, [i](const auto& p) { return p.costs[i]; }));
  pack.numbers("low overhead", collect(points, [](const auto& p) { return p.overhead_low; }));
  pack.numbers("high overhead", collect(points, [](const auto& p) { return p.overhead_high; }));
  for (std::size_t i = 0; i < input.quality_columns.size(); ++i) {
    const std::string& name = input.quality_columns[i].name;
    pack.numbers("mean " + name, collect(points, [i](const auto& p) { return p.qualities[i].mean; }));
    pack.numbers("low " + name, collect(points, [i](const auto& p) { return p.qualities[i].low; }));
    pack.numbers("high " + name, collect(points, [i](const auto& p) { return p.qualities[i].high; }));
  }
}

void pack_points(ColumnPack& pack, const ReportInput& input) {
  const auto& points = input.points;
  pack.table("points", points.size());
  pack.words("task", collect(points, [](const auto& p) { return p.task; }));
  pack.words("context", collect(points, [](const auto& p) { return p.context.empty() ? p.task : p.context; }));
  pack.hashes("config_hash", collect(points, [](const auto& p) { return p.config_hash; }));
  pack.words("name", collect(points, [](const auto& p) { return p.name; }));
  pack.words("reference_hash", collect(points, [](const auto& p) { return p.reference_hash; }));
  pack.sentences("command", collect(points, [](const auto& p) { return p.command; }));
  pack.numbers("baseline", collect(points, [](const auto& p) { return p.baseline ? 1.0 : 0.0; }));
  pack.numbers("diverged", collect(points, [](const auto& p) { return static_cast<double>(p.diverged); }));
  pack.numbers("failed", collect(points, [](const auto& p) { return static_cast<double>(p.failed); }));
  for (std::size_t i = 0; i < input.axes.size(); ++i)
    pack.words("axis " + input.axes[i].name, collect(points, [i](const auto& p) { return p.axis_values[i]; }));
  pack_judgement(pack, input, points);
}

// `prefix` opens the names of the tables: "" or that of a further chip.
void pack_cost_lists(ColumnPack& pack, const std::string& prefix, const std::vector<ReportPoint>& points) {
  pack.table(prefix + "terms", points.size());
  SparseColumns<double> terms(points.size(), report_unknown);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const auto& [term, seconds] : points[i].cost_terms) terms.set(i, term, seconds);
  for (const auto& [name, values] : terms.columns()) pack.numbers(name, values);

  std::vector<double> point;
  std::vector<ReportSensitivity> rows;
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const ReportSensitivity& row : points[i].sensitivity) {
      point.push_back(static_cast<double>(i));
      rows.push_back(row);
    }
  pack.table(prefix + "sensitivity", rows.size());
  pack.numbers("point", point);
  pack.words("weight", collect(rows, [](const auto& r) { return r.weight; }));
  pack.numbers("low", collect(rows, [](const auto& r) { return r.low; }));
  pack.numbers("high", collect(rows, [](const auto& r) { return r.high; }));
}

void pack_configs(ColumnPack& pack, const ReportInput& input) {
  const auto& points = input.points;

  // 20,000 configurations of 170 leaves: each leaf is kept as a number into `words`, not as a string.
  std::vector<std::string> words = {""};
  std::unordered_map<std::string, std::uint32_t> code_of;
  SparseColumns<std::uint32_t> configs(points.size(), 0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<std::pair<std::string, std::string>> leaves;
    json path = json::array();
    if (!points[i].config.empty())
      flatten(parse(points[i].config, "configuration of " + points[i].config_hash), path, leaves);
    for (const auto& [name, value] : leaves) {
      const auto [found, is_new] = code_of.emplace(value, static_cast<std::uint32_t>(words.size()));
      if (is_new) words.push_back(value);
      configs.set(i, name, found->second);
    }
  }
  pack.table("configs", points.size());
  for (const auto& [name, codes] : configs.columns())
    pack.words(name, collect(codes, [&](std::uint32_t code) { return words[code]; }));
}

// The switch of chips, the comparison with another sweep, and the comparisons of a study.
void pack_beside(ColumnPack& pack, const ReportInput& input) {
  for (std::size_t k = 0; k < input.chips.size(); ++k) {
    const std::string prefix = "chip " + std::to_string(k) + " ";
    pack.table(prefix + "points", input.points.size());
    pack_judgement(pack, input, input.chips[k].points);
    pack_cost_lists(pack, prefix, input.chips[k].points);
  }
  const auto& matches = input.against.matches;
  pack.table("against", matches.size());
  pack.numbers("point", collect(matches, [](const auto& m) { return static_cast<double>(m.point); }));
  pack.words("front", collect(matches, [](const auto& m) { return m.front; }));
  pack.numbers("there", collect(matches, [](const auto& m) { return m.there.mean; }));
  pack.numbers("mean", collect(matches, [](const auto& m) { return m.difference.mean; }));
  pack.numbers("low", collect(matches, [](const auto& m) { return m.difference.low; }));
  pack.numbers("high", collect(matches, [](const auto& m) { return m.difference.high; }));
  pack.numbers("same", collect(matches, [](const auto& m) { return m.same_bits ? 1.0 : 0.0; }));
  const auto& rows = input.comparisons;
  pack.table("comparisons", rows.size());
  pack.words("group", collect(rows, [](const auto& r) { return r.group; }));
  pack.words("name", collect(rows, [](const auto& r) { return r.name; }));
  pack.words("task", collect(rows, [](const auto& r) { return r.task; }));
  pack.numbers("mean", collect(rows, [](const auto& r) { return r.difference.mean; }));
  pack.numbers("low", collect(rows, [](const auto& r) { return r.difference.low; }));
  pack.numbers("high", collect(rows, [](const auto& r) { return r.difference.high; }));
  pack.numbers("delta", collect(rows, [](const auto& r) { return r.delta; }));
}

void pack_runs(ColumnPack& pack, const ReportInput& input) {
  std::unordered_map<std::string, double> place;
  for (std::size_t i = 0; i < input.points.size(); ++i) place[input.points[i].config_hash] = static_cast<double>(i);
  std::vector<ReportRun> runs;
  for (const ReportRun& run : input.runs)
    if (place.contains(run.config_hash)) runs.push_back(run);
  pack.table("runs", runs.size());
  pack.numbers("point", collect(runs, [&](const auto& r) { return place[r.config_hash]; }));
  pack.numbers("seed", collect(runs, [](const auto& r) { return static_cast<double>(r.seed); }));
  pack.words("status", collect(runs, [](const auto& r) { return r.status; }));
  pack.words("role", collect(runs, [](const auto& r) { return r.role; }));
  pack.hashes("digest", collect(runs, [](const auto& r) { return r.digest; }));
  pack.numbers("seconds", collect(runs, [](const auto& r) { return r.seconds; }));
  for (std::size_t i = 0; i < input.quality_columns.size(); ++i)
    pack.numbers(input.quality_columns[i].name, collect(runs, [i](const auto& r) { return r.qualities[i]; }));
}

void pack_effects(ColumnPack& pack, const ReportInput& input) {
  const auto& rows = input.effects;
  pack.table("effects", rows.size());
  pack.words("task", collect(rows, [](const auto& r) { return r.task; }));
  pack.words("axis", collect(rows, [](const auto& r) { return r.axis; }));
  pack.words("value", collect(rows, [](const auto& r) { return r.value; }));
  pack.words("reference", collect(rows, [](const auto& r) { return r.reference; }));
  pack.words("verdict", collect(rows, [](const auto& r) { return r.verdict; }));
  pack.numbers("mean", collect(rows, [](const auto& r) { return r.effect.mean; }));
  pack.numbers("low", collect(rows, [](const auto& r) { return r.effect.low; }));
  pack.numbers("high", collect(rows, [](const auto& r) { return r.effect.high; }));
  pack.numbers("q10", collect(rows, [](const auto& r) { return r.q10; }));
  pack.numbers("q90", collect(rows, [](const auto& r) { return r.q90; }));
  pack.numbers("share", collect(rows, [](const auto& r) { return r.share; }));
}

void pack_curves(ColumnPack& pack, const ReportInput& input) {
  const std::set<std::string> kept = report_curve_hashes(input);
  std::vector<std::string> hash;
  std::vector<double> seed, length, step, train, validation;
  for (const ReportCurve& curve : input.curves) {
    if (!kept.contains(curve.config_hash)) continue;
    hash.push_back(curve.config_hash);
    seed.push_back(static_cast<double>(curve.seed));
    length.push_back(static_cast<double>(curve.step.size()));
    step.insert(step.end(), curve.step.begin(), curve.step.end());
    // Four decimal digits are more than a screen shows; float32 halves the largest section of the page.
    for (const double loss : curve.train_loss) train.push_back(static_cast<double>(static_cast<float>(loss)));
    for (const double loss : curve.validation_loss) validation.push_back(static_cast<double>(static_cast<float>(loss)));
  }
  pack.table("curves", hash.size());
  pack.words("config_hash", hash);
  pack.numbers("seed", seed);
  pack.numbers("length", length);
  pack.table("curve_points", step.size());
  pack.numbers("step", step);
  pack.numbers("train", train);
  pack.numbers("validation", validation);
}

}  // namespace

std::string report_data(const ReportInput& input) {
  const json axes = collect(input.axes, [](const auto& a) { return FP4_NAMED(a.name, a.doc, a.reference); });
  const json terms = collect(input.cost_terms, [](const auto& t) { return FP4_NAMED(t.name, t.doc); });
  json head = {{"schema", 1},
               {"name", input.name},
               {"workload", input.workload},
               {"answers", describe(input.answers)},
               {"cost_terms", terms},
               {"notes", input.notes},
               {"x", input.x},
               {"y", input.y},
               {"axes", axes},
               {"cost_columns", describe(input.cost_columns)},
               {"quality_columns", describe(input.quality_columns)},
               {"chip", input.chip},
               {"chips", json::array()},
               {"against", {{"name", input.against.name}, {"only_there", input.against.only_there}}},
               {"reload_seconds", input.reload_seconds},
               {"provenance", parse(input.provenance, "provenance")}};
  for (const ReportChip& chip : input.chips)
    head["chips"].push_back(
        {{"name", chip.name}, {"workload", chip.workload}, {"answers", describe(chip.answers)}, {"notes", chip.notes}});
  ColumnPack pack;
  pack_points(pack, input);
  pack_cost_lists(pack, "", input.points);
  pack_configs(pack, input);
  pack_beside(pack, input);
  pack_runs(pack, input);
  pack_effects(pack, input);
  pack_curves(pack, input);
  return pack.finish(std::move(head));
}

}  // namespace fp4
