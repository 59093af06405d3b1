// Every reader of JSON that comes from outside, by name, and the files that each of them ships with: for the mutation
// test (test_json_readers.cpp) and the fuzz target (fuzz_json.cpp). A reader takes a text and either accepts it or
// throws fp4::Error; nothing else may come out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/rules/recipe.h"
#include "src/arith/spec_text.h"
#include "src/text/embedded.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/cost/model.h"
#include "sweeps/cost/weights.h"
#include "sweeps/grid/grid_configs.h"
#include "sweeps/serve/service_file.h"
#include "tasks/run.h"

namespace fp4::test {

struct JsonFile {
  std::string name;
  Json content;
};

struct NamedReader {
  std::string name;
  std::function<void(const std::string& text, const std::string& place)> read;
  std::function<std::vector<JsonFile>()> files;
};

inline std::vector<JsonFile> embedded_files(const std::string& folder) {
  std::vector<JsonFile> files;
  for (const std::string& name : named_json(folder)) {
    const NamedText file = open_named_json(name, folder, folder);
    files.push_back({folder + "/" + name + ".json", parse_json(file.text, file.place)});
  }
  return files;
}

// Structure, then base, training and each value of an axis; points of the product only repeat those values.
inline void read_grid(const std::string& text, const std::string& place) {
  static const sweeps::Simulator simulator = sweeps::real_simulator("reference", /*with_signatures=*/false);
  const sweeps::Grid grid = sweeps::parse_grid(text, place);
  const sweeps::GridProduct product(grid, simulator);
  const sweeps::GridConfigs configs(grid, simulator);
}

inline std::vector<JsonFile> accumulator_files() {
  std::vector<JsonFile> files;
  for (const AccumulatorInfo& row : accumulator_table) {
    files.push_back({row.name,
                     {{"kind", row_of(accumulator_kind_table, row.row.kind).name},
                      {"group", row.row.group},
                      {"inner", row.row.inner},
                      {"fraction_bits", row.row.fraction_bits},
                      {"group_rounding", row_of(rounding_table, row.row.group_rounding).name},
                      {"rounding", row_of(rounding_table, row.row.rounding).name},
                      {"snap", row.row.snap_log2 == no_snap ? Json(nullptr) : Json(row.row.snap_log2)}}});
    if (row.row.zero_exponent != no_zero_exponent) files.back().content["zero_exponent"] = row.row.zero_exponent;
    if (row.row.result_bits != fp32_result_bits) files.back().content["result_bits"] = row.row.result_bits;
    if (row.row.unscaled) files.back().content["unscaled"] = true;
  }
  return files;
}

inline std::vector<JsonFile> spec_files() {
  std::vector<JsonFile> files;
  for (const Preset& preset : preset_table) files.push_back({preset.name, to_json(preset.spec)});
  return files;
}

inline std::vector<JsonFile> config_files() {
  std::vector<JsonFile> files;
  for (const std::string& task : tasks::task_names())
    files.push_back({task, tasks::canonical({{"task", task}, {"recipe", "nvfp4"}, {"train", {{"steps", 5}}}})});
  return files;
}

inline const std::vector<NamedReader>& json_readers() {
  static const std::vector<NamedReader> readers = {
      {"spec",
       [](const std::string& text, const std::string& place) {
         QuantSpec spec;
         set_quant(spec, parse_json(text, place), place);
       },
       spec_files},
      {"accumulator",
       [](const std::string& text, const std::string& place) { accumulator_from(parse_json(text, place), place); },
       accumulator_files},
      {"recipe",
       [](const std::string& text, const std::string& place) {
         static_cast<void>(sim::invalid_reason(sim::recipe_from_json(parse_json(text, place), place)));
       },
       [] { return embedded_files("recipes"); }},
      {"hardware",
       [](const std::string& text, const std::string& place) { cost::parse_hardware(parse_json(text, place), place); },
       [] { return embedded_files("hardware"); }},
      {"model",
       [](const std::string& text, const std::string& place) { cost::parse_model(parse_json(text, place), place); },
       [] { return embedded_files("models"); }},
      {"weights",
       [](const std::string& text, const std::string& place) { cost::parse_weights(parse_json(text, place), place); },
       [] {
         return std::vector<JsonFile>{{"weights", {{"sr", 2}, {"overlap", 0.5}}}};
       }},
      {"config",
       [](const std::string& text, const std::string& place) {
         const Json given = parse_json(text, place);
         at_place(place, [&] { return tasks::canonical(given); });
       },
       config_files},
      {"grid", read_grid, [] { return embedded_files("grids"); }},
      {"service",
       [](const std::string& text, const std::string& place) { serve::parse_service(parse_json(text, place), place); },
       [] {
         const Json member = {{"checkpoint", "a.ck"}, {"recipe", "nvfp4"}, {"rounding_seeds", {1, 2}}};
         return std::vector<JsonFile>{{"service",
                                       {{"members", {member}},
                                        {"targets", {{{"accuracy", 0.9}, {"latency_ms", 5}, {"share", 2}}}},
                                        {"trace", {{"arrivals", "bursts"}, {"rate", 50}, {"factor", 3}}},
                                        {"instance", {{"share", 0.5}, {"batch", 8}, {"losses_per_hour", 1}}}}}};
       }},
  };
  return readers;
}

}  // namespace fp4::test
