#include "tools/cli/sweep/sweep_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "src/files/output.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/grid/grid.h"
#include "tools/cli/provenance.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

void add_view_options(CLI::App& app, ViewOptions& options) {
  option(app, "DIR DIR", options.folder, "The folder of a sweep")->required();
  option(app, "--hardware HARDWARE", options.hardware,
         "Chip of the cost columns, a name or a file (default: the grid's first)");
  option(app, "--model MODEL", options.model, "Workload of the cost columns, a name or a file (default: the grid's)");
  option(app, "--weight NAME=VALUE", options.weights, "Cost weight, such as sr=2 (repeatable)");
}

std::string hardware_word(const ViewOptions& options, const sweeps::Grid& grid) {
  return options.hardware.empty() ? grid.hardware.front() : options.hardware;
}

std::string model_word(const ViewOptions& options, const sweeps::Grid& grid) {
  return options.model.empty() ? grid.model : options.model;
}

SweepView open_view(const ViewOptions& options, bool with_curves) {
  sweeps::CostWeights weights;
  for (const std::string& text : options.weights) {
    const size_t at = text.find('=');
    double value = 0;
    const char* end = text.data() + text.size();
    if (at == std::string::npos || std::from_chars(text.data() + at + 1, end, value).ptr != end || !(value >= 0))
      throw Error("--weight: expected NAME=VALUE with a value from 0, not '" + text + "'");
    weights[text.substr(0, at)] = value;
  }
  const sweeps::Store store = sweeps::Store::read(options.folder);
  sweeps::Results results(store, with_curves);
  const sweeps::Grid& grid = results.grid();
  sweeps::Costs costs(results,
                      sweeps::real_cost_model(hardware_word(options, grid), model_word(options, grid), weights));
  return {std::move(results), std::move(costs), store.identity(), store.meta("name"), store.runs_of_other_signatures()};
}

nlohmann::ordered_json view_provenance(const SweepView& view, const Invocation& invocation) {
  nlohmann::ordered_json json = provenance(invocation);
  json["sweep"] = view.name;
  json["signature"] = view.identity.signature;
  json["train_signatures"] = view.identity.train_signatures;
  json["runs_by_version"] = view.identity.version;
  json["runs_on_host"] = view.identity.host;
  json["hardware"] = view.costs.model().hardware;
  json["model"] = view.costs.model().model;
  json["grid"] = view.results.grid().source;
  return json;
}

sweeps::Grid load_grid(const std::string& word, const std::vector<std::string>& fixed) {
  // A grid's file may have any name; a built-in grid's name may be that of a folder.
  const NamedText file =
      std::filesystem::is_regular_file(word) ? read_text_file(word, "grid") : open_named_json(word, "grids", "grid");
  sweeps::Grid grid = sweeps::parse_grid(sweeps::at_fixed(file.text, file.place, fixed), file.place);
  grid.folder = std::filesystem::path(word).parent_path().string();
  return grid;
}

void write_csv(const std::string& file, const std::string& csv, bool force) {
  if (file != "-") return write_file(file, csv, force);
  fmt::print("{}", csv);
}

nlohmann::ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json ends(const std::optional<sweeps::Interval>& interval) {
  if (!interval) return nullptr;
  return nlohmann::ordered_json::array({number(interval->low), number(interval->high)});
}

std::string interval_text(const std::optional<sweeps::Interval>& interval, double scale, const char* unit) {
  return interval ? fmt::format("{:.3g} .. {:.3g}{}", scale * interval->low, scale * interval->high, unit) : "";
}

std::vector<std::string> short_axis_names(const std::vector<std::string>& axes) {
  std::vector<std::string> names;
  for (const std::string& axis : axes) {
    for (size_t dot = axis.rfind('.');; dot = axis.rfind('.', dot - 1)) {
      const std::string ending = dot == std::string::npos ? axis : axis.substr(dot);
      const auto same = std::count_if(axes.begin(), axes.end(), [&](const std::string& other) {
        return ("." + other).ends_with(dot == std::string::npos ? "." + ending : ending);
      });
      if (same > 1 && dot != std::string::npos && dot > 0) continue;
      names.push_back(dot == std::string::npos || same > 1 ? axis : ending.substr(1));
      break;
    }
  }
  return names;
}

namespace {

bool told_with_front(const std::string& axis) { return axis.rfind("task.", 0) == 0 || axis.rfind("train.", 0) == 0; }

// By axis the value that goes without saying; "" for none.
std::vector<std::string> unsaid_values(const sweeps::Results& results) {
  std::vector<std::string> values(results.axes().size());
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = results.axes()[i];
    for (const sweeps::Axis& axis : results.grid().axes) {
      if (axis.path != name || name == "recipe" || told_with_front(name) || axis.labels.size() < 2) continue;
      values[i] = axis.labels.front();
      ++count;
    }
  }
  return count >= 4 ? values : std::vector<std::string>(values.size());
}

}  // namespace

std::string unsaid_text(const sweeps::Results& results) {
  const std::vector<std::string> names = short_axis_names(results.axes());
  const std::vector<std::string> unsaid = unsaid_values(results);
  std::string text;
  for (size_t i = 0; i < unsaid.size(); ++i)
    if (!unsaid[i].empty()) add_word(text, names[i] + "=" + unsaid[i]);
  return text.empty() ? "" : "Settings say what differs from " + text + ".";
}

std::string setting_of(const sweeps::Results& results, const sweeps::ConfigResult& config) {
  std::string text;
  const std::vector<std::string> names = short_axis_names(results.axes());
  const std::vector<std::string> unsaid = unsaid_values(results);
  for (size_t i = 0; i < config.labels.size(); ++i) {
    const std::string& axis = results.axes()[i];
    if (config.labels[i].empty() || config.labels[i] == unsaid[i] || told_with_front(axis)) continue;
    add_word(text, axis == "recipe" ? config.labels[i] : names[i] + "=" + config.labels[i]);
  }
  return text.empty() ? config.record.recipe : text;
}

std::string tuned_title(const sweeps::Results& results) {
  const std::vector<sweeps::TunedField>& fields = results.grid().tune;
  return fields.size() == 1 ? fields[0].path.substr(fields[0].path.rfind('.') + 1) : "at";
}

std::string tuned_text(const sweeps::Results& results, const sweeps::ConfigResult& config) {
  if (config.record.at == sweeps::At::fixed) return "";
  const sweeps::Json canonical = sweeps::Json::parse(config.record.config);
  const bool is_one = results.grid().tune.size() == 1;  // its name is the title
  std::string text;
  for (const sweeps::TunedField& field : results.grid().tune) {
    const auto value = sweeps::tuned_value(canonical, field.path);
    if (!value) continue;
    const std::string name = is_one ? "" : field.path.substr(field.path.rfind('.') + 1) + " ";
    add_word(text, fmt::format("{}{:.4g}", name, *value));
  }
  return text + (config.record.at == sweeps::At::edge ? " (edge)" : "");
}

}  // namespace fp4::tools
