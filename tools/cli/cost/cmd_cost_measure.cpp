// `fp4sim cost calibrate` and `measure`: the profile of this machine, and the energy of a command on it.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <optional>

#include "src/files/output.h"
#include "src/text/error.h"
#include "sweeps/cost/measure/meter.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

extern char** environ;

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

void run_calibrate(const cost::CalibrateOptions& options, const std::string& out, bool force) {
  if (!(options.seconds > 0) || options.size < 32 || options.threads < 1)
    throw Error("cost calibrate: expected --seconds above 0, --square of at least 32, --threads of at least 1");
  const std::string text = cost::to_json(cost::calibrate_host(options)).dump(1) + "\n";
  if (out.empty()) return fmt::print("{}", text);
  write_file(out, text, force);
}

// Runs the command and waits; its output goes where ours does.
void run_command(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int problem = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ))
    throw Error(fmt::format("cost measure: cannot run {}: {}", words.front(), std::strerror(problem)));
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(fmt::format("cost measure: {} failed", words.front()), Error::failed);
}

// Power between samples, window by window.
std::string trace_csv(const cost::EnergyReading& reading) {
  std::string out = "window,seconds,joules,watts\n";
  for (size_t i = 0; i < reading.windows.size(); ++i) {
    cost::EnergySample before;
    for (const cost::EnergySample& now : reading.windows[i].trace) {
      const double seconds = now.seconds - before.seconds;
      if (seconds > 0)
        out += fmt::format("{},{:.3f},{:.6g},{:.6g}\n", i + 1, now.seconds, now.joules,
                           (now.joules - before.joules) / seconds);
      before = now;
    }
  }
  return out;
}

struct MeasureOptions {
  cost::MeterOptions meter;
  std::vector<std::string> words;
  std::string root = "/", trace;
  bool json = false, force = false;
};

void run_measure(const MeasureOptions& o) {
  const cost::MeterOptions& options = o.meter;
  if (!(options.window_s >= 0) || options.runs < 1 || !(options.sample_s > 0))
    throw Error("cost measure: expected --seconds of at least 0, --runs of at least 1, --sample above 0");
  cost::SensorSearch search = cost::find_sensors(o.root);
  // No sensor is a normal answer: the command says so and succeeds.
  if (search.sensors.empty()) {
    if (o.json) return print_json({{"energy_j", nullptr}, {"status", "unavailable"}, {"reasons", search.unavailable}});
    fmt::print("energy: unavailable on this machine\n");
    for (const std::string& reason : search.unavailable) fmt::print("  {}\n", reason);
    return;
  }
  std::optional<StagedFile> trace;
  if (!o.trace.empty()) trace.emplace(o.trace, o.force);
  const cost::EnergyReading reading = cost::measure_energy([&] { run_command(o.words); }, std::move(search), options);
  if (trace) {
    write_file(trace->temporary(), trace_csv(reading), true);
    trace->commit();
  }
  if (o.json) {
    ordered_json out = {{"status", "measured"},
                        {"energy_j", reading.joules_per_repetition},
                        {"seconds", reading.seconds_per_repetition},
                        {"watts", reading.watts},
                        {"sensors", reading.sensors},
                        {"windows", ordered_json::array()}};
    for (const cost::EnergyWindow& window : reading.windows)
      out["windows"].push_back(
          {{"seconds", window.seconds}, {"repetitions", window.repetitions}, {"joules", window.joules}});
    return print_json(out);
  }
  Table table{{">window", ">seconds", ">repetitions"}, {}};
  for (const std::string& sensor : reading.sensors) table.columns.push_back({sensor + " J", Align::right});
  for (size_t i = 0; i < reading.windows.size(); ++i) {
    const cost::EnergyWindow& window = reading.windows[i];
    std::vector<std::string> cells = {std::to_string(i + 1), format_number(window.seconds),
                                      std::to_string(window.repetitions)};
    for (const double joules : window.joules) cells.push_back(format_number(joules));
    table.rows.push_back(std::move(cells));
  }
  print_table(table);
  fmt::print("\n{:.5g} J, {:.5g} s a repetition, {:.5g} W (idle power included{})\n", reading.joules_per_repetition,
             reading.seconds_per_repetition, reading.watts,
             reading.windows.size() >= 3 ? "; best and worst window dropped" : "");
}

}  // namespace

void add_cost_measurements(CLI::App& app, Invocation&) {
  static cost::CalibrateOptions calibrating;
  static MeasureOptions measuring;
  static std::string out;
  static bool force = false;

  CLI::App* calibrate = app.add_subcommand("calibrate", "Measure this machine and print its profile");
  defaulted(*calibrate, "--seconds", calibrating.seconds, "Time for each figure");
  keep_older_names(defaulted(*calibrate, "--square,--size", calibrating.size, "Rows and columns of the products"));
  defaulted(*calibrate, "--threads", calibrating.threads, "Threads");
  add_backend_option(*calibrate, calibrating.backend, "")->capture_default_str();
  calibrate->add_option("-o,--out", out, "File to write instead of printing");
  calibrate->add_flag("-f,--force", force, "Overwrite it");
  calibrate->callback([] { run_calibrate(calibrating, out, force); });
  set_example(*calibrate, "fp4sim cost calibrate --out host.json");

  CLI::App* measure = app.add_subcommand("measure", "Energy of a command, from the sensors this machine has");
  defaulted(*measure, "--seconds", measuring.meter.window_s, "Least length of a window");
  defaulted(*measure, "--runs", measuring.meter.runs, "Windows; best and worst are dropped");
  defaulted(*measure, "--sample", measuring.meter.sample_s, "Seconds between samples of a power sensor");
  option(*measure, "--trace FILE", measuring.trace, "CSV to write: joules and power at every sample of every window");
  measure->add_flag("-f,--force", measuring.force, "Overwrite it");
  defaulted(*measure, "--root", measuring.root, "Folder that stands for / when sensors are looked for");
  measure->add_flag("--json", measuring.json, "Print JSON");
  measure->add_option("command", measuring.words, "Command to run, after --")->required();
  measure->callback([] { run_measure(measuring); });
  set_example(*measure, "fp4sim cost measure -- fp4sim train --task classifier --recipe mxfp4");
}

}  // namespace fp4::tools
