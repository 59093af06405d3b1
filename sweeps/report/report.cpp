// Puts the page of a sweep together: checks the input, packs it column-wise, and fills template.html (page.h); reads
// the effects.csv that goes into it. All looks and behaviour are in the files of this folder, none here.
#include "sweeps/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/report/page.h"

namespace fp4 {
namespace {

std::vector<std::string> column_names(const ReportInput& input) {
  std::vector<std::string> names = names_of(input.cost_columns);
  for (const ReportColumn& column : input.quality_columns) names.push_back(column.name);
  return names;
}

// The value of a column by its place in column_names().
double column_value(const ReportInput& input, const ReportPoint& point, std::size_t column) {
  const std::size_t costs = input.cost_columns.size();
  return column < costs ? point.costs[column] : point.qualities[column - costs].mean;
}

std::size_t find_column(const ReportInput& input, const std::string& name, const char* which) {
  return accepted_index(std::string("report ") + which, name, column_names(input));
}

void check_length(const std::string& place, std::size_t got, std::size_t wanted) {
  if (got != wanted)
    throw Error("report " + place + ": " + std::to_string(got) + " values, expected " + std::to_string(wanted),
                Error::failed);
}

void check_chips(const ReportInput& input) {
  for (const ReportChip& chip : input.chips) {
    check_length("chip " + chip.name + " points", chip.points.size(), input.points.size());
    for (const ReportPoint& point : chip.points) {
      check_length("chip " + chip.name + " costs", point.costs.size(), input.cost_columns.size());
      check_length("chip " + chip.name + " qualities", point.qualities.size(), input.quality_columns.size());
    }
  }
}

void check(const ReportInput& input) {
  check_chips(input);
  find_column(input, input.x, "x");
  find_column(input, input.y, "y");
  for (const ReportPoint& point : input.points) {
    const std::string place = "point " + point.config_hash;
    check_length(place + " axis_values", point.axis_values.size(), input.axes.size());
    check_length(place + " costs", point.costs.size(), input.cost_columns.size());
    check_length(place + " qualities", point.qualities.size(), input.quality_columns.size());
    static const std::vector<std::string> states = {"on", "tied", "off", "undecided", "screening"};
    if (!point.front.empty()) accepted_index("report " + place + " front", point.front, states);
  }
  for (const ReportRun& run : input.runs)
    check_length("run " + run.config_hash + " qualities", run.qualities.size(), input.quality_columns.size());
  for (const ReportCurve& curve : input.curves) {
    check_length("curve " + curve.config_hash + " train_loss", curve.train_loss.size(), curve.step.size());
    check_length("curve " + curve.config_hash + " validation_loss", curve.validation_loss.size(), curve.step.size());
  }
}

// A point with both its coordinates.
struct Placed {
  const ReportPoint* point;
  double x;
  double y;
};

// Those that no other point beats in both coordinates; the points are sorted by x on the way.
std::vector<Placed> front_by_means(std::vector<Placed>& points) {
  std::sort(points.begin(), points.end(),
            [](const Placed& a, const Placed& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<Placed> front;
  for (const Placed& placed : points)
    if (placed.point->diverged == 0 && (front.empty() || placed.y < front.back().y)) front.push_back(placed);
  return front;
}

double spread_below_median(const std::vector<Placed>& points, double Placed::*coordinate) {
  std::vector<double> values;
  for (const Placed& placed : points) values.push_back(placed.*coordinate);
  std::sort(values.begin(), values.end());
  const double width = values[values.size() / 2] - values.front();
  return width > 0 ? width : 1;
}

}  // namespace

std::set<std::string> report_curve_hashes(const ReportInput& input, std::size_t nearest) {
  const std::size_t x = find_column(input, input.x, "x");
  const std::size_t y = find_column(input, input.y, "y");
  std::map<std::string, std::vector<Placed>> contexts;
  std::set<std::string> kept;
  for (const ReportPoint& point : input.points) {
    if (point.baseline || point.front == "on" || point.front == "undecided") kept.insert(point.config_hash);
    const Placed placed{&point, column_value(input, point, x), column_value(input, point, y)};
    if (!std::isnan(placed.x) && !std::isnan(placed.y))
      contexts[point.context.empty() ? point.task : point.context].push_back(placed);
  }
  std::vector<std::pair<double, std::string>> by_distance;
  for (auto& [context, points] : contexts) {
    const std::vector<Placed> front = front_by_means(points);
    for (const Placed& on : front)
      if (on.point->front == "screening") kept.insert(on.point->config_hash);
    // Distances in units of (median - best): far outliers then do not shrink what matters near the front.
    const double x_unit = spread_below_median(points, &Placed::x);
    const double y_unit = spread_below_median(points, &Placed::y);
    for (const Placed& placed : points) {
      if (kept.contains(placed.point->config_hash)) continue;
      double distance = std::numeric_limits<double>::infinity();
      for (const Placed& on : front)
        distance = std::min(distance, std::max((placed.x - on.x) / x_unit, (placed.y - on.y) / y_unit));
      by_distance.emplace_back(distance, placed.point->config_hash);
    }
  }
  std::sort(by_distance.begin(), by_distance.end());
  for (std::size_t i = 0; i < std::min(nearest, by_distance.size()); ++i) kept.insert(by_distance[i].second);
  for (const ReportPoint& point : input.points)
    if (kept.contains(point.config_hash) && !point.reference_hash.empty()) kept.insert(point.reference_hash);
  return kept;
}

std::vector<ReportComparison> read_comparisons(std::string_view text, const std::string& place) {
  static constexpr std::array<const char*, 7> names = {"group", "name", "task", "mean", "low", "high", "delta"};
  std::vector<ReportComparison> rows;
  std::array<std::size_t, names.size()> at{};
  std::vector<std::string> head;
  std::size_t number = 0;
  for (std::string line : split(std::string(text), '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::vector<std::string> fields = csv_fields(line);
    if (head.empty()) {
      head = fields;
      for (std::size_t k = 0; k < names.size(); ++k) {
        const auto found = std::find(head.begin(), head.end(), names[k]);
        if (found == head.end())
          throw Error(place + ": no column '" + names[k] + "' (it is one of a study's effects.csv)");
        at[k] = static_cast<std::size_t>(found - head.begin());
      }
      continue;
    }
    const std::string here = place + ", line " + std::to_string(number);
    if (fields.size() != head.size())
      throw Error(here + ": " + std::to_string(fields.size()) + " fields, expected " + std::to_string(head.size()));
    const auto value = [&](std::size_t k) {
      const std::string& word = fields[at[k]];
      const auto parsed = real_from_text(word);
      if (!word.empty() && !parsed) throw Error(here + ": " + names[k] + ": expected a number, not '" + word + "'");
      return parsed.value_or(report_unknown);
    };
    rows.push_back({fields[at[0]], fields[at[1]], fields[at[2]], {value(3), value(4), value(5)}, value(6)});
  }
  if (head.empty()) throw Error(place + ": empty, expected a study's effects.csv");
  return rows;
}

std::string make_report(const ReportInput& input) {
  check(input);
  return make_page("report/template.html", input.name, report_data(input));
}

}  // namespace fp4
