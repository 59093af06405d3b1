// `fp4sim cost stalls --measure`: where the time of a step goes when several processes train, by differences between
// whole runs (Stash, 2208.14344): nothing is instrumented, so nothing is disturbed. All runs train the same task with
// the same share of the batch for a process:
//   T0  one process, examples in memory          T2  all, batches read from files that are not in the cache
//   T1  all processes, examples in memory        T3  all, batches read from files that are
//   Tm  all, spread over machines, in memory
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "src/text/error.h"
#include "sweeps/judge/statistics.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/table_print.h"
#include "tools/cli/train/run_words.h"
#include "tools/mpi/join.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

struct StallOptions {
  RunWords run;
  std::string gradients = "fp32", launch, launch_nodes;
  int hadamard = 0, ranks = 2, repeats = 3;
  bool measures = false, json = false, busy = false;
};

double median_of(std::vector<double> s) { return sweeps::quantile(std::move(s), 0.5); }

struct Measured {
  const char* name;
  const char* doc;
  std::string launch, files;
  std::vector<double> seconds = {};  // of a step, one for each round
  std::string digest = {};
};

// The words of `fp4sim train` for `batch` examples a step.
std::string training(const StallOptions& o, int batch) {
  std::error_code absent;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", absent);
  if (absent)
    throw Error("cost stalls: starts this program by /proc/self/exe, and /proc is not mounted", Error::failed);
  std::string words = shell_quoted(program.string()) + " train --json --quiet";
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {} {}", option, shell_quoted(value));
  };
  add("--task", o.run.task);
  add("--recipe", o.run.recipe);
  add("--text", o.run.text);
  add("--images", o.run.images);
  add("--labels", o.run.labels);
  add("--backend", o.run.backend);
  if (o.run.steps > 0) add("--steps", std::to_string(o.run.steps));
  for (const std::string& set : o.run.sets) add("--set", set);
  add("--set", "train.curve_points=1");
  add("--set", fmt::format("train.batch={}", batch));
  return words + fmt::format(" --seed {} --threads {}", o.run.seed, o.run.threads);
}

void measure(Measured& m, const std::string& words, const StallOptions& o) {
  std::string command = words + " --files " + m.files;
  if (!m.launch.empty())
    command = fmt::format("{} {} --gradients {} --gradients-hadamard {}", m.launch, command, shell_quoted(o.gradients),
                          o.hadamard);
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) throw Error("cost stalls: cannot start " + command, Error::failed);
  std::string text;
  char block[4096];
  while (const size_t got = std::fread(block, 1, sizeof block, out)) text.append(block, got);
  const int status = ::pclose(out);
  if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(fmt::format("cost stalls: the run {} failed: {}", m.name, command), Error::failed);
  const auto result = parse_json(text, fmt::format("cost stalls: the run {}", m.name));
  if (!m.launch.empty() && result.at("parallel").at("ranks") != o.ranks)
    throw Error(fmt::format("cost stalls: {} started {} ranks, --ranks says {}", m.launch,
                            result.at("parallel").at("ranks").dump(), o.ranks));
  m.seconds.push_back(result.at(o.busy ? "step_seconds_low" : "step_seconds"));
  m.digest = result.at("digest");
}

struct Stall {
  const char* name;
  const char* formula;
  const Measured *more, *less;
  bool over_less = false;  // as a share of the smaller time: a slow-down
  // One for each round: its runs follow one another, so a machine that slows down for a while slows both.
  std::vector<double> shares() const {
    std::vector<double> out;
    for (size_t i = 0; i < more->seconds.size(); ++i)
      out.push_back((more->seconds[i] - less->seconds[i]) / (over_less ? less : more)->seconds[i]);
    return out;
  }
};

void print(const StallOptions& o, const std::vector<const Measured*>& runs, const std::vector<Stall>& stalls) {
  if (o.json) {
    ordered_json json = {{"ranks", o.ranks}, {"gradients", o.gradients}, {"runs", ordered_json::array()}};
    for (const Measured* m : runs)
      json["runs"].push_back(
          {{"run", m->name}, {"step_seconds", median_of(m->seconds)}, {"repeats", m->seconds}, {"digest", m->digest}});
    for (const Stall& s : stalls)
      json["stalls"].push_back(
          {{"stall", s.name}, {"formula", s.formula}, {"share", median_of(s.shares())}, {"repeats", s.shares()}});
    return print_json(json);
  }
  const auto row = [](const char* name, const char* what, const std::vector<double>& values, const auto& text) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return std::vector<std::string>{name, what, text(median_of(values)), text(*low), text(*high)};
  };
  Table steps{{"run", "what", ">step", ">from", ">to"}, {}};
  for (const Measured* m : runs) steps.rows.push_back(row(m->name, m->doc, m->seconds, format_seconds));
  print_table(steps);
  fmt::print("\n");
  Table table{{"stall", "formula", ">share", ">from", ">to"}, {}};
  for (const Stall& s : stalls) table.rows.push_back(row(s.name, s.formula, s.shares(), format_percent));
  print_table(table);
  fmt::print("\nMedians of {} round{}; from, to: the smallest and largest of them.\n", o.repeats,
             o.repeats == 1 ? "" : "s");
}

void run_stalls(StallOptions& o) {
  if (!o.measures) throw Error("cost stalls: what it does is --measure; the model's stalls: fp4sim cost --devices N");
  if (mpi::status().starts_with("none")) throw Error("cost stalls: MPI: " + mpi::status());
  const int batch = o.run.config().at("train").at("batch");
  if (batch % o.ranks != 0)
    throw Error(fmt::format("cost stalls: {} examples cannot be shared evenly by {} ranks", batch, o.ranks));
  if (o.launch.empty())
    o.launch = fmt::format("mpirun{} -n {}", ::geteuid() == 0 ? " --allow-run-as-root" : "", o.ranks);
  const bool has_files = !o.run.text.empty() || !o.run.images.empty();
  Measured t0{"T0", "one process, its share of the batch", "", "memory"};
  Measured t1{"T1", "all processes", o.launch, "memory"};
  Measured t2{"T2", "all, reading cold files", o.launch, "cold"};
  Measured t3{"T3", "all, reading cached files", o.launch, "cached"};
  Measured tm{"Tm", "all, over several machines", o.launch_nodes, "memory"};
  std::vector<Measured*> runs = {&t0, &t1};
  std::vector<Stall> stalls = {{"interconnect", "(T1 - T0) / T1", &t1, &t0}};
  if (has_files) {
    runs.insert(runs.end(), {&t2, &t3});
    stalls.push_back({"preparation", "(T3 - T1) / T3", &t3, &t1});
    stalls.push_back({"fetch", "(T2 - T3) / T2", &t2, &t3});
  }
  if (!o.launch_nodes.empty()) {
    runs.push_back(&tm);
    stalls.push_back({"network", "(Tm - Ts) / Ts, Ts = T1", &tm, &t1, true});
  }
  const std::string alone = training(o, batch / o.ranks), shared = training(o, batch);
  // Round by round, there and back, so that a machine that slows down slows all runs.
  std::vector<Measured*> order = runs;
  for (int i = 0; i < o.repeats; ++i) {
    for (Measured* m : order) measure(*m, m == &t0 ? alone : shared, o);
    std::reverse(order.begin(), order.end());
  }
  for (const Measured* m : runs)
    if (m != &t0 && m->digest != t1.digest)
      throw Error(fmt::format("cost stalls: {} and T1 ended with different digests", m->name), Error::failed);
  print(o, {runs.begin(), runs.end()}, stalls);
}

}  // namespace

void add_cost_stalls(CLI::App& app, Invocation&) {
  static StallOptions o;
  CLI::App* stalls = app.add_subcommand("stalls", "Where a step's time goes when several processes train");
  stalls->add_flag("--measure", o.measures, "Train, and take differences between runs");
  o.run.add(*stalls);
  defaulted(*stalls, "--ranks", o.ranks, "Processes")->check(CLI::Range(2, 65536));
  defaulted(*stalls, "--gradients SPEC", o.gradients, "What gradients travel as: fp32, bf16 or a spec");
  option(*stalls, "--gradients-hadamard SIZE", o.hadamard, "Rotate them by Hadamards of this size");
  option(*stalls, "--launch WORDS", o.launch, "Starts the ranks on one machine (default mpirun -n RANKS)");
  option(*stalls, "--launch-nodes WORDS", o.launch_nodes, "Starts as many on several machines: run Tm");
  defaulted(*stalls, "--repeats", o.repeats, "Rounds; step times and shares are medians of them")
      ->check(CLI::Range(1, 1000));
  stalls->add_flag("--busy", o.busy, "Take a run's fastest tenth of steps, where other programs disturb the median");
  stalls->add_flag("--json", o.json, "Print JSON");
  stalls->callback([] { run_stalls(o); });
  set_example(*stalls, "fp4sim cost stalls --measure --task classifier --steps 300 --gradients mxfp4");
}

}  // namespace fp4::tools
