// What the commands that read sweeps share: opening a folder with its costs, and provenance of what was read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sweeps/judge/costs.h"
#include "sweeps/judge/results.h"
#include "tools/cli/command.h"

namespace fp4::tools {

// DIR --hardware H --model M --weight name=value.
struct ViewOptions {
  std::string folder;
  std::string hardware, model;  // "" = what the grid names first
  std::vector<std::string> weights;
};
void add_view_options(CLI::App& app, ViewOptions& options);
// The words for chip and model: the command's, else the grid's.
std::string hardware_word(const ViewOptions& options, const sweeps::Grid& grid);
std::string model_word(const ViewOptions& options, const sweeps::Grid& grid);

struct SweepView {
  sweeps::Results results;
  sweeps::Costs costs;
  sweeps::Identity identity;
  std::string name;
  size_t hidden = 0;  // runs of other signatures
};
SweepView open_view(const ViewOptions& options, bool with_curves = false);

// Provenance of a table or front: this command, plus who made the runs.
nlohmann::ordered_json view_provenance(const SweepView& view, const Invocation& invocation);

// A grid file, or the name of one that the program carries; `fixed`: tuned fields at one value (sweeps/grid/fixed.h).
sweeps::Grid load_grid(const std::string& word, const std::vector<std::string>& fixed = {});

// CSV into a file, or, where that is `-`, to the terminal.
void write_csv(const std::string& file, const std::string& csv, bool force);

// The number, or null where there is none or it is not finite; [low, high], or null; "low .. high" or "".
nlohmann::ordered_json number(const std::optional<double>& value);
nlohmann::ordered_json ends(const std::optional<sweeps::Interval>& interval);
std::string interval_text(const std::optional<sweeps::Interval>& interval, double scale = 1, const char* unit = "");

// Axis paths cut to the shortest ending that tells them apart: "wgrad.*.rounding" -> "rounding". For the terminal.
std::vector<std::string> short_axis_names(const std::vector<std::string>& axes);

// Values of the axes that say something, "axis=value, axis=value"; the recipe's name where none does. In a sweep of
// four axes and more, recipes aside, the first value of an axis goes without saying: `unsaid_text` is the sentence that
// names those, "" in other sweeps.
std::string unsaid_text(const sweeps::Results& results);
std::string setting_of(const sweeps::Results& results, const sweeps::ConfigResult& config);

// The values that tuning found, ".004" below the title "lr", or "lr .004, clip 1" below "at"; with "(edge)" where one
// lies at an end of its ladder. "" for fixed ones.
std::string tuned_title(const sweeps::Results& results);
std::string tuned_text(const sweeps::Results& results, const sweeps::ConfigResult& config);

}  // namespace fp4::tools
