// Recipes take turns, so that other work on the machine slows all of them alike; one thread is timed
// by its own CPU time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "sim/rules/recipe.h"
#include "src/files/temporaries.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/judge/statistics.h"
#include "tasks/run.h"
#include "tools/bench/benches.h"

namespace fp4 {
std::span<const EmbeddedFile> bench_scripts();  // made by fp4_embed
}

namespace fp4::tools {
namespace {

struct Workload {
  const char* name;
  const char* shape;
  sim::Json task;
  sim::Json checked;  // what the comparison with the reference changes, so that it takes a moment
  int share;          // of --steps
  sim::Json train = sim::Json::object();
  bool is_on_request = false;  // takes long: only when --models names it
};

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> list = {
      {"mlp-128", "64-128-128-10 x 128", {{"name", "classifier"}}, {{"train", {{"batch", 32}}}}, 1},
      {"mlp-256", "64-256-256-10 x 128", {{"name", "classifier"}, {"width", 256}}, {{"train", {{"batch", 32}}}}, 2},
      {"lm",
       "d 128, 2 layers, 16 x 64",
       {{"name", "lm"}},
       {{"task", {{"width", 64}, {"heads", 2}, {"ffn", 96}, {"context", 32}}}, {"train", {{"batch", 4}}}},
       20},
      {"lm-256",
       "d 256, 4 layers, 16 x 128",
       {{"name", "lm"}, {"size", "3200k"}},
       {{"task", {{"width", 64}, {"heads", 2}, {"ffn", 96}, {"context", 32}}}, {"train", {{"batch", 4}}}},
       100,
       {{"batch", 16}},
       true},
  };
  return list;
}

sim::History train(const Workload& w, const std::string& recipe, int steps, const sim::Json& change,
                   const std::string& backend, int threads) {
  sim::Json config = {{"task", w.task}, {"recipe", recipe}, {"train", {{"steps", steps + 1}, {"curve_points", 1}}}};
  config["train"].update(w.train);
  config.merge_patch(change);
  sim::RunOptions options;
  options.backend = backend;
  options.threads = threads;
  options.stop_at = steps;  // the last step would be followed by the full evaluation
  return tasks::run(tasks::canonical(config), 1, options);
}

double step_seconds(const Workload& w, const std::string& recipe, const TrainBenchOptions& o) {
  const int steps = std::max(5, o.steps / w.share) - 1;
  const sim::History h = train(w, recipe, steps, sim::Json::object(), o.backend, o.threads);
  // The CPU's time says nothing of a device; each step ends when its weights have been looked at.
  return o.threads == 1 && o.backend != "gpu" ? h.step_cpu_seconds / steps : 1 / h.steps_per_second;
}

void require_same_training(const Workload& w, const std::string& recipe, const TrainBenchOptions& o) {
  const std::string digest = train(w, recipe, 2, w.checked, o.backend, o.threads).digest;
  if (digest == train(w, recipe, 2, w.checked, "reference", 1).digest) return;
  throw Error(std::string("bench: training ") + w.name + " with " + recipe + " differs from the reference; not timed",
              Error::failed);
}

// What a command prints; empty when it fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string out;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  return pclose(pipe) == 0 ? out : "";
}

// Seconds of a PyTorch step by model. A Python that comes first on PATH often lacks what Debian's own has.
std::map<std::string, double> pytorch_steps(const std::vector<std::string>& models, std::string& pytorch) {
  namespace fs = std::filesystem;
  std::string name = (temporary_folder() / "fp4sim-bench-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) throw Error("bench: cannot write to " + temporary_folder().string());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> script(fdopen(file, "w"), std::fclose);
  const std::string_view text = bench_scripts().front().content;
  std::fwrite(text.data(), 1, text.size(), script.get());
  std::fflush(script.get());
  std::map<std::string, double> seconds;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::string out =
        output_of(std::string(python) + " " + name + " --models " + joined(models, ",") + " 2>/dev/null");
    if (out.empty()) continue;
    const sim::Json result = sim::Json::parse(out);
    pytorch = result.at("torch").get<std::string>() + ", eager, fp32, one thread";
    for (const auto& [model, s] : result.at("seconds").items()) seconds[model] = s.get<double>();
    break;
  }
  fs::remove(name);
  if (seconds.empty()) pytorch = "not installed (Debian: python3-torch)";
  return seconds;
}

}  // namespace

const std::vector<std::string>& bench_models() {
  static const std::vector<std::string> names = names_of(workloads());
  return names;
}

void bench_train(const TrainBenchOptions& o, std::string& pytorch, const BenchReport& report,
                 const std::function<void(const std::vector<TrainBenchRow>&)>& show) {
  std::vector<std::string> models = o.models;
  if (models.empty())
    for (const Workload& w : workloads())
      if (o.full ? !w.is_on_request : models.empty()) models.emplace_back(w.name);
  std::map<std::string, double> torch;
  if (o.backend == "gpu")
    pytorch = "not compared: its steps run on one CPU thread";
  else
    report.progress(0, 1, "PyTorch"), torch = pytorch_steps(models, pytorch);
  std::vector<std::string> recipes = {"fp32"};
  const std::vector<std::string> usual = {"bf16", "mxfp8", "mxfp4", "nvfp4", "nvfp4_te"};
  for (const std::string& r : !o.recipes.empty() ? o.recipes : o.full ? sim::recipe_names() : usual)
    if (r != "fp32") recipes.push_back(r);
  for (const Workload& w : workloads()) {
    if (std::find(models.begin(), models.end(), w.name) == models.end()) continue;
    const size_t laps = static_cast<size_t>(o.rounds) + 1;  // the first compares with the reference
    std::vector<std::vector<double>> seconds(recipes.size());
    for (size_t lap = 0; lap < laps; ++lap)
      for (size_t i = 0; i < recipes.size(); ++i) {
        report.progress(lap * recipes.size() + i, laps * recipes.size(), std::string(w.name) + " " + recipes[i]);
        if (lap == 0)
          require_same_training(w, recipes[i], o);
        else
          seconds[i].push_back(step_seconds(w, recipes[i], o));
      }
    std::vector<TrainBenchRow> rows;
    const double fp32 = sweeps::quantile(seconds[0], 0.5);
    const auto found = torch.find(w.name);
    const double other = found == torch.end() ? 0 : found->second;
    const auto add = [&](const std::string& recipe, const std::string& backend, double s) {
      rows.push_back({{std::string("train ") + w.name + " " + recipe, backend, o.threads, w.shape, s, "steps/s", 1 / s,
                       "fp32_step", fp32 / s},
                      w.name,
                      recipe,
                      other / s});
    };
    for (size_t i = 0; i < recipes.size(); ++i) add(recipes[i], o.backend, sweeps::quantile(seconds[i], 0.5));
    if (other > 0) add("pytorch fp32", "pytorch", other);
    show(rows);
  }
}

}  // namespace fp4::tools
