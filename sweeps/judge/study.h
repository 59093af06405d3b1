// What a study compares, as data: sweeps/studies/NAME.json says which settings of a result table are compared with
// which, and this judges them as one family.
//
//   {"doc": "..", "delta": {"share": 0.02, "of": SETTINGS}, "rung_cost": {TASK: LOSS},
//    "groups": {GROUP: {"base": SETTINGS, "rows": {NAME: SETTINGS, ..}}, ..}}      or "rows": {NAME: [SETTINGS, BASE],
//    ..}
//
// SETTINGS are {COLUMN: VALUE, ..}, a column by its whole name or its last word, or the same as "COLUMN=VALUE,..", and
// name one configuration of each task; rows at other rates than its best (`at` = near best, or fixed) are further rungs
// of it. Every row is compared with the base of its group, or with its own, on the seeds that both have, those of races
// among them. "groups": STUDY takes the groups of another study, for a second table of the same settings. delta, the
// smallest difference that matters, is the share (2 % unless given) of the loss gap of the configuration `of`.
//
// Two settings at unequal rates, one of them judged at a single rung, differ by their rates, too: up to half of the
// families of equal recipes then get a false word (results/racing). Such a comparison is undecided unless its interval
// ends farther from 0 than `rung_cost`, what a rung of factor 2 beside the best may cost: rung_costs.json knows it of
// the tasks' default trainings; unknown, so undecided, on others.
//
// A study may also list orders that others published, "orders": {NAME: {"source": "..", "what": "..", "noise": "..",
// "base": SETTINGS, "rows": {NAME: [SETTINGS, NUMBER], ..}}}, a smaller NUMBER being better; `noise` says how far the
// source's own numbers may be off. A list of SETTINGS stands for one method at several sizes. Each is compared with the
// order of the mean ln(L / L_base) here (orders.h), on the seeds that all of its rows and the base have. "tables":
// [FILE, ..] names the tables below results/ of a study without a sweep of its own; it is a note for readers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/judge/comparison.h"
#include "sweeps/judge/orders.h"

namespace fp4::sweeps {

struct StudyEffect {
  std::string group, name, task;
  Comparison comparison;
  bool rates_differ = false;  // the two sides' best learning rates
  // Where they differ at a single rung and the interval leaves out 0: what a rung may cost (infinite: unknown), and
  // whether the interval ends farther from 0.
  std::optional<double> rung_cost;
  bool beyond_rung = false;
};

struct StudyOrder {
  std::string name, task;
  PublishedOrder published;
  Agreement agreement;
};

struct StudyResult {
  std::vector<StudyEffect> effects;  // by group, row and task, in the order of file and tables
  std::vector<StudyOrder> orders;    // by name and task
  std::vector<std::string> tasks;    // in the order of the tables
  bool turned = false;               // rows have bases of their own
};

// The rows of tables that `fp4sim table --group --csv` wrote, by column.
class StudyTable {
 public:
  // Throws Error naming `place` and line.
  void add(std::string_view csv, const std::string& place);
  size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  // "" where the row's table has no such column.
  const std::string& cell(size_t row, const std::string& column) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `place` opens messages about the study. Throws Error for settings that name no configuration, or several.
StudyResult judge_study(const StudyTable& table, const std::string& study, const std::string& place);

// group, name, task, n, mean, low, high, detectable, delta, verdict, reason, rates, diverged, base_diverged. `reason`:
// that the rates differ, and whether the interval ends beyond what a rung costs.
std::string study_csv(const StudyResult& result);

// The Markdown table of a group: a line for each row, a column for each task, bold where the interval does not hold 0.
std::string study_table(const StudyResult& result, const std::string& group);

// The Markdown table of the orders: tau-b with its interval, a line each.
std::string study_orders_table(const StudyResult& result);

// A page with the table of each group anew below its line `<!-- effects: GROUP -->`, or `<!-- turned: GROUP -->` where
// rows have bases of their own, and that of the orders below `<!-- orders -->`. Throws Error for another group.
std::string study_page(const StudyResult& result, const std::string& page, const std::string& place);

}  // namespace fp4::sweeps
