// The web page of a sweep: what the page needs to know, as plain data, and the function that turns it into one
// self-contained HTML file. Statistics are decided by the sweep engine (pareto, table) and only shown here; this file
// knows no axis, no column and no cost term by name, so a new one appears on the page by itself.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp4 {

inline constexpr double report_unknown = std::numeric_limits<double>::quiet_NaN();

// One varied axis. `reference` is the word that the base configuration has on it: the page describes every point by its
// differences from the references, and effects are paired differences to the reference.
struct ReportAxis {
  std::string name;       // the grid's path, e.g. "wgrad.*.rounding"
  std::string doc;        // one line, may be empty
  std::string reference;  // may be empty: then no value counts as a difference
};

// A column of numbers to choose as x, y or colour. `unit`: "share" (shown in percent), "s", "J", "nats" or any other
// word, printed as it stands.
struct ReportColumn {
  std::string name;
  std::string unit;
  std::string doc;
  bool lower_is_better = true;
};

// Mean over seeds and its 95 % interval; low and high stay unknown below three seeds. Of an effect and of a raced point
// the simultaneous interval, else the raw one. A mean that is only bounded is unknown, with the bound as `low` (at
// least) or `high` (at most).
struct ReportEstimate {
  double mean = report_unknown;
  double low = report_unknown;
  double high = report_unknown;
};

// A part of the cost that points may have; `doc` explains a name that does not say what it holds.
struct ReportTerm {
  std::string name;
  std::string doc;
};

// A front point stays undominated (by means) while the cost weight is multiplied by a factor in [low, high].
struct ReportSensitivity {
  std::string weight;
  double low = 1;
  double high = 1;
};

// One configuration of one task. A task is part of the configuration, so config_hash alone is the key.
struct ReportPoint {
  std::string task;
  // The points that share an fp32 reference and a front, in words ("classifier, outliers.token=1.5"); the page shows
  // one context at a time, because losses of two are not comparable. Empty: the task.
  std::string context;
  std::string config_hash;  // 16 hex digits
  std::string name;         // recipe name or label; shown for baselines, and where names differ
  bool baseline = false;    // fp32, bf16, mxfp8 ...: labelled in the chart, always in the cost bars
  // "on", "tied", "off", "undecided"; "screening": near the front, no fresh seeds (the page draws the line through
  // those that no other beats by means); "" where it was not judged, shown like "off".
  std::string front;
  std::vector<std::string> axis_values;  // one per ReportInput::axes; "" where the axis is dead or does not apply
  std::vector<double> costs;             // one per ReportInput::cost_columns, exact, report_unknown allowed
  double overhead_low = report_unknown, overhead_high = report_unknown;  // 95 % by the cost model's doubt
  std::vector<ReportEstimate> qualities;  // one per ReportInput::quality_columns; of the seeds that finished
  int seeds = 0;                          // runs behind the estimates
  int diverged = 0;                       // runs without a loss; any of them puts the point into the strip
  int failed = 0;
  std::string reference_hash;  // config_hash of its fp32 reference, for the curves
  std::string rival;           // config_hash of the step that a tied point belongs to; "" of others
  // Seconds of the parts of a step: "fprop gemm", "quantise dY", "attention and head", "communication stall".
  std::vector<std::pair<std::string, double>> cost_terms;
  std::vector<ReportSensitivity> sensitivity;
  std::string config;   // canonical configuration, JSON text
  std::string command;  // reproduces one run; the word {seed} is replaced by the page
};

struct ReportRun {
  std::string task;
  std::string config_hash;
  std::int64_t seed = 0;
  std::string status;             // finished, diverged, failed
  std::string role;               // run, confirm, reference
  std::vector<double> qualities;  // one per quality_columns
  std::string digest;             // 16 hex digits, empty if none
  double seconds = 0;
};

// Attribution of one axis value on one task (mean paired difference to `reference` over the other axes, t interval over
// the seeds); q10, q90: range over the other axes' settings; share: of settings with the sign of the mean.
struct ReportEffect {
  std::string task;
  std::string axis;
  std::string value;
  std::string reference;
  ReportEstimate effect;
  double q10 = report_unknown;
  double q90 = report_unknown;
  double share = report_unknown;
  std::string verdict;  // better, worse, equal, undecided (by the simultaneous interval), or empty
};

struct ReportCurve {
  std::string config_hash;
  std::int64_t seed = 0;
  std::vector<double> step;
  std::vector<double> train_loss;       // report_unknown where not measured
  std::vector<double> validation_loss;  // report_unknown where not measured
};

// A line of a study's effects.csv (`fp4sim effects --study`): the paired difference `name` makes to the loss of a task,
// with the simultaneous interval; `delta` is the smallest difference that matters there.
struct ReportComparison {
  std::string group;
  std::string name;
  std::string task;
  ReportEstimate difference;
  double delta = report_unknown;
};

// The lines of an effects.csv whose columns hold group, name, task, mean, low, high and delta, in any order. Errors
// name `place`, the line and the column (exit code 2).
std::vector<ReportComparison> read_comparisons(std::string_view text, const std::string& place);

// What the front of a context says, in one sentence.
struct ReportAnswer {
  std::string context;  // as ReportPoint::context
  std::string text;
};

// The same points on another chip: what the cost model and the front say there. `points` stand in the order of
// ReportInput::points; of each only front, rival, seeds, costs, qualities, cost_terms and sensitivity are read.
struct ReportChip {
  std::string name;
  std::string workload;
  std::vector<ReportAnswer> answers;
  std::vector<std::string> notes;
  std::vector<ReportPoint> points;
};

// A configuration that another sweep holds as well. `there`: its y; `difference`: there minus here, over the seeds that
// both have, with the interval of their mean; `same_bits`: all those seeds have equal digests.
struct ReportMatch {
  std::size_t point = 0;  // index into ReportInput::points
  std::string front;      // as ReportPoint::front
  ReportEstimate there;
  ReportEstimate difference;
  bool same_bits = false;
};

struct ReportAgainst {
  std::string name;  // the other sweep; empty: none
  std::vector<ReportMatch> matches;
  std::size_t only_there = 0;  // its configurations that this sweep lacks
};

struct ReportInput {
  std::string name;                   // the grid's name
  std::string workload;               // what the costs are for, e.g. "llama3_8b on MI355X"
  std::vector<ReportAnswer> answers;  // the first thing that the page says
  // Whole sentences: noise floor, detectable effect, exploration. One that opens with "CONTEXT: " is shown with that
  // context only.
  std::vector<std::string> notes;
  std::string x = "overhead";  // the columns that ReportPoint::front and the default view refer to
  std::string y = "loss_gap";
  std::vector<ReportAxis> axes;
  std::vector<ReportColumn> cost_columns;
  std::vector<ReportColumn> quality_columns;
  std::vector<ReportTerm> cost_terms;  // in the order of bars; their places choose their colours
  std::vector<ReportPoint> points;
  std::vector<ReportRun> runs;
  std::vector<ReportEffect> effects;
  std::vector<ReportComparison> comparisons;
  std::string chip;               // the name of the chip of the costs above
  std::vector<ReportChip> chips;  // further ones that the page switches to
  ReportAgainst against;
  double reload_seconds = 0;        // above 0: the page of a running sweep, which reads its file again
  std::vector<ReportCurve> curves;  // more than the page keeps is fine: make_report drops the rest
  std::string provenance = "{}";    // JSON object: commit, compiler, command line, host, signature ...
};

// The configurations whose curves the page keeps: everything on or undecided at the front, or undominated in a
// screening, the baselines, the `nearest` others (smallest distances above the front, in shares of the spread), and the
// fp32 references of all of these. Ask for it before filling `curves`, so that a store of 100,000 runs is not read for
// nothing.
std::set<std::string> report_curve_hashes(const ReportInput& input, std::size_t nearest = 300);

// The data of the page as packed columns (layout: report_pack.h), not yet compressed. Throws Error where a
// configuration or the provenance is no JSON; the lengths are taken as checked by make_report.
std::string report_data(const ReportInput& input);

// The page: HTML that opens from a disk without a network. Throws Error if the input's vectors disagree in length, if
// x or y is no column, if a configuration or the provenance is not JSON, or if this binary carries no chart library.
std::string make_report(const ReportInput& input);

}  // namespace fp4
