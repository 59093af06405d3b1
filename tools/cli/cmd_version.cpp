// `fp4sim version`: which build this is, for bug reports and provenance.
#include <fmt/core.h>
#include <sqlite3.h>
#include <zlib.h>

#include <Eigen/Core>

#include "src/backends/backends.h"
#include "src/backends/signature.h"
#include "src/gpu/gpu_backend.h"
#include "src/text/version.h"
#include "tools/cli/command.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/table_print.h"
#include "tools/mpi/join.h"

namespace fp4::tools {
namespace {

std::string dotted(int major, int minor, int patch) { return fmt::format("{}.{}.{}", major, minor, patch); }

nlohmann::ordered_json libraries() {
  return {
      {"CLI11", CLI11_VERSION},
      {"Eigen", dotted(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
      {"fmt", dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann_json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"SQLite", sqlite3_libversion()},
      {"zlib", zlibVersion()}};
}

// Backends that work on this machine, and "gpu: ..." with what it was built for or why there is none; "mpi: .."
// likewise.
nlohmann::ordered_json features() {
  auto out = nlohmann::ordered_json::array();
  for (const Backend* backend : all_backends())
    if (backend->available()) out.push_back(backend->name());
  out.push_back("gpu: " + std::string(gpu_status()));
  out.push_back("mpi: " + mpi::status());
  return out;
}

}  // namespace

void command_version(CLI::App& app, Invocation&) {
  auto as_json = std::make_shared<bool>(false);
  add_json_option(app, *as_json);
  app.callback([as_json] {
    const nlohmann::ordered_json json = {
        {"version", version()},        {"commit", commit_of_build()}, {"signature", computed_signature()},
        {"compiler", compiler_word()}, {"features", features()},      {"libraries", libraries()}};
    if (*as_json) return print_json(json);
    std::vector<std::pair<std::string, std::string>> lines = {{"fp4sim", json["version"]}};
    for (const char* key : {"commit", "signature", "compiler"}) lines.emplace_back(key, json[key]);
    for (const auto& feature : json["features"])
      lines.emplace_back(lines.size() == 4 ? "features" : "", feature.get<std::string>());
    const size_t before = lines.size();
    for (const auto& [name, number] : json["libraries"].items())
      lines.emplace_back(lines.size() == before ? "libraries" : "", name + " " + number.get<std::string>());
    print_fields(lines);
  });
  set_example(app, "fp4sim version --json");
}

}  // namespace fp4::tools
