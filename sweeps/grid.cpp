// Reading a grid file: structure, seeds, axes and their labels. Unknown keys are errors, so that a misspelt "exlude"
// cannot silently run the whole product.
#include "sweeps/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/error.h"
#include "src/sha256.h"

namespace fp4::sweeps {

namespace {

using Ordered = nlohmann::ordered_json;  // keeps the order of axes in the file

Json sorted(const Ordered& value) { return Json::parse(value.dump()); }

std::vector<std::string> string_list(const Ordered& value, const std::string& place) {
  std::vector<std::string> list;
  for (const Ordered& entry : value.is_array() ? value : Ordered::array({value})) {
    if (!entry.is_string()) throw Error(place + ": expected a word or a list of words, not " + entry.dump());
    list.push_back(entry.get<std::string>());
  }
  if (list.empty()) throw Error(place + ": an empty list");
  return list;
}

std::vector<uint64_t> seed_list(const Ordered& value, uint64_t first, const std::string& place) {
  std::vector<uint64_t> seeds;
  if (value.is_number_unsigned()) {
    for (uint64_t i = 0; i < value.get<uint64_t>(); ++i) seeds.push_back(first + i);
    return seeds;
  }
  if (value.is_array()) {
    for (const Ordered& entry : value) {
      // SQLite keeps integers in 63 bits and a sign.
      if (!entry.is_number_unsigned() || entry.get<uint64_t>() > uint64_t{INT64_MAX}) {
        throw Error(place + ": a seed is a whole number from 0, not " + entry.dump());
      }
      seeds.push_back(entry.get<uint64_t>());
    }
    if (std::set<uint64_t>(seeds.begin(), seeds.end()).size() != seeds.size()) throw Error(place + ": a seed twice");
    return seeds;
  }
  throw Error(place + ": expected a count or a list of seeds, not " + value.dump());
}

std::string label_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("label")) return value["label"].get<std::string>();
  if (value.is_array() && !value.empty() && value[0].is_number()) {
    std::string text;  // a block of [32, 32] is written 32x32 everywhere
    for (const Json& entry : value) text += (text.empty() ? "" : "x") + entry.dump();
    return text;
  }
  return value.dump();
}

AxisKind kind_of(const std::string& path, const std::string& place) {
  if (path == "recipe") return AxisKind::recipe;
  if (path == "fprop" || path == "dgrad" || path == "wgrad") return AxisKind::gemm;
  const auto begins = [&](const char* head) { return path.rfind(head, 0) == 0; };
  if (begins("task.")) {
    if (std::count(path.begin(), path.end(), '.') < 2) {
      throw Error(place + ": a task parameter is task.NAME.PATH or task.*.PATH, not '" + path + "'");
    }
    return AxisKind::task;
  }
  return begins("train.") ? AxisKind::train : AxisKind::path;
}

Axis parse_axis(const std::string& path, const Ordered& values, const std::string& place) {
  Axis axis{.path = path, .kind = kind_of(path, place), .values = {}, .labels = {}};
  if (!values.is_array() || values.empty()) throw Error(place + ": expected a list of values");
  for (const Ordered& value : values) {
    Json json = sorted(value);
    std::string label = label_of(json);
    if (json.is_object()) json.erase("label");
    if (std::find(axis.labels.begin(), axis.labels.end(), label) != axis.labels.end()) {
      throw Error(place + ": the value '" + label + "' occurs twice");
    }
    axis.values.push_back(std::move(json));
    axis.labels.push_back(std::move(label));
  }
  return axis;
}

std::vector<std::map<std::string, Json>> parse_rules(const Ordered& rules, const std::string& place) {
  if (!rules.is_array()) throw Error(place + ": expected a list of objects");
  std::vector<std::map<std::string, Json>> parsed;
  for (const Ordered& rule : rules) {
    if (!rule.is_object() || rule.empty()) throw Error(place + ": expected objects with at least one entry");
    std::map<std::string, Json>& entries = parsed.emplace_back();
    for (const auto& [key, value] : rule.items()) entries[key] = sorted(value);
  }
  return parsed;
}

void parse_explore(Grid& grid, const Ordered& value, const std::string& place) {
  if (value.is_string()) {
    if (value != "all") throw unknown_word(place, value.get<std::string>(), {"all", "random", "halving", "importance"});
    return;
  }
  if (!value.is_object() || value.size() != 1) {
    throw Error(place + R"(: expected "all", {"random": N}, {"halving": {"steps": [..], "keep": .33}} or )"
                        R"({"importance": N})");
  }
  const std::string way = value.begin().key();
  const Ordered& argument = value.begin().value();
  if (way == "random" || way == "importance") {
    grid.explore = way == "random" ? Explore::random : Explore::importance;
    if (!argument.is_number_unsigned() || argument.get<size_t>() == 0)
      throw Error(place + ": " + way + ": a count from 1");
    grid.sample = argument.get<size_t>();
  } else if (way == "halving") {
    grid.explore = Explore::halving;
    for (const auto& [key, _] : argument.items()) {
      if (key != "steps" && key != "keep") throw unknown_word(place + ": halving", key, {"steps", "keep"});
    }
    if (!argument.contains("steps")) throw Error(place + ": halving: `steps` is missing");
    grid.rungs = argument["steps"].get<std::vector<int>>();
    grid.keep = argument.value("keep", grid.keep);
    if (grid.rungs.size() < 2 || !std::is_sorted(grid.rungs.begin(), grid.rungs.end()) || grid.rungs.front() < 1) {
      throw Error(place + ": halving: `steps` are at least two rising numbers");
    }
    if (!(grid.keep > 0 && grid.keep < 1)) throw Error(place + ": halving: `keep` is a share between 0 and 1");
  } else {
    throw unknown_word(place, way, {"all", "random", "halving", "importance"});
  }
}

const std::vector<std::string> known_keys = {"name",     "doc",        "task",    "seeds",     "confirm", "base",
                                             "axes",     "train",      "exclude", "include",   "explore", "references",
                                             "hardware", "candidates", "model",   "train.TASK"};

}  // namespace

Grid parse_grid(const std::string& text, const std::string& place) {
  Ordered json;
  try {
    json = Ordered::parse(text);
  } catch (const Ordered::parse_error& error) {
    throw Error(place + ": not JSON: " + error.what());
  }
  if (!json.is_object()) throw Error(place + ": a grid is a JSON object");
  Grid grid;
  grid.source = sorted(json);
  grid.base = "fp32";
  grid.seeds = {1, 2, 3};
  try {
    for (const auto& [key, value] : json.items()) {
      const std::string here = place + ": " + key;
      if (key == "name") {
        grid.name = value.get<std::string>();
      } else if (key == "doc") {
        grid.doc = value.is_string() ? value.get<std::string>() : "";
      } else if (key == "task") {
        grid.tasks = string_list(value, here);
      } else if (key == "seeds") {
        grid.seeds = seed_list(value, 1, here);
      } else if (key == "confirm") {
        grid.confirm = seed_list(value, 1001, here);
      } else if (key == "base") {
        grid.base = sorted(value);
      } else if (key == "axes") {
        for (const auto& [path, values] : value.items())
          grid.axes.push_back(parse_axis(path, values, here + " " + path));
      } else if (key == "train") {
        grid.train = sorted(value);
      } else if (key.rfind("train.", 0) == 0) {
        grid.train_of_task[key.substr(6)] = sorted(value);
      } else if (key == "exclude") {
        grid.exclude = parse_rules(value, here);
      } else if (key == "include") {
        grid.include = parse_rules(value, here);
      } else if (key == "explore") {
        parse_explore(grid, value, here);
      } else if (key == "references") {
        grid.references = string_list(value, here);
      } else if (key == "hardware") {
        grid.hardware = string_list(value, here);
      } else if (key == "model") {
        grid.model = value.get<std::string>();
      } else if (key == "candidates") {
        grid.candidates = value.get<size_t>();
      } else {
        throw unknown_word(place, key, known_keys);
      }
    }
  } catch (const Ordered::exception& error) {  // a wrong JSON type: the library's message names both types
    throw Error(place + ": " + error.what());
  }
  if (grid.name.empty()) throw Error(place + ": `name` is missing");
  if (grid.tasks.empty()) throw Error(place + ": `task` is missing");
  if (grid.seeds.empty()) throw Error(place + ": seeds: none");
  if (std::find(grid.references.begin(), grid.references.end(), "fp32") == grid.references.end()) {
    grid.references.insert(grid.references.begin(), "fp32");  // every gap is measured from it
  }
  for (const uint64_t seed : grid.confirm) {
    if (std::find(grid.seeds.begin(), grid.seeds.end(), seed) != grid.seeds.end()) {
      throw Error(fmt::format("{}: confirm: seed {} was used for screening; the front needs fresh ones", place, seed));
    }
  }
  // A rung's length comes from `halving`; an axis or setting of the same name would be overruled silently.
  const auto sets_steps = [](const Axis& axis) { return axis.path == "train.steps"; };
  if (grid.explore == Explore::halving && std::any_of(grid.axes.begin(), grid.axes.end(), sets_steps)) {
    throw Error(place + ": halving sets train.steps itself; it cannot be an axis too");
  }
  return grid;
}

double uniform_hash(const std::string& salt, const std::string& name, const std::string& hash) {
  const std::string digest = sha256_hex(salt + "\n" + name + "\n" + hash);
  return static_cast<double>(std::stoull(digest.substr(0, 13), nullptr, 16)) / 4503599627370496.0;  // 52 bits
}

}  // namespace fp4::sweeps
