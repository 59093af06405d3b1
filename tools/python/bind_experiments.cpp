// Golden bundles and verdicts, training runs, tables of sweeps, scaling laws: what the commands of the same names
// compute.
#include <chrono>

#include "src/golden/bundle.h"
#include "sweeps/report/table.h"
#include "tasks/run.h"
#include "tools/cli/law_result.h"
#include "tools/cli/run_words.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/train_result.h"
#include "tools/cli/verdict.h"
#include "tools/cli/verify_print.h"
#include "tools/cli/verify_words.h"
#include "tools/python/module.h"

namespace fp4::python {
namespace {

py::dict verify(tools::VerifyJob job, const tools::VerifyWords& words) {
  golden::Bundle bundle = compute([&] { return golden::open_bundle(job.golden); });
  compute([&] { tools::say(words, job, bundle); });
  const tools::Verdict verdict = compute([&] { return tools::judge(job, bundle); });
  py::dict out = to_python(tools::verdict_json(verdict));
  out["text"] = tools::verdict_text(verdict);
  return out;
}

// A run that Ctrl-C ends, and that tells `progress(step, steps, loss)` every tenth of a second.
py::object train(const tools::RunWords& words, const py::object& progress) {
  const sim::Json config = words.config();
  sim::RunOptions options;
  options.backend = words.backend;
  options.threads = words.threads;
  double told = 0;
  std::exception_ptr stop;
  // Whether Python has no objection; `tell` is called under its lock.
  const auto goes_on = [&](const auto& tell) {
    const py::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      tell();
    } catch (...) {
      stop = std::current_exception();
      return false;
    }
    return true;
  };
  options.stop = [&] { return !goes_on([] {}); };
  options.progress = [&](const sim::Progress& p) {
    if (p.step < p.steps && p.seconds - told < 0.1) return true;
    told = p.seconds;
    return goes_on([&] {
      if (!progress.is_none()) progress(p.step, p.steps, p.train_loss);
    });
  };
  const sim::History history = compute([&] { return tasks::run(config, words.seed, options); });
  if (stop) std::rethrow_exception(stop);
  return to_python(tools::train_result(config, words.seed, history, tools::Invocation{}));
}

py::tuple table(const tools::ViewOptions& view_options, const sweeps::TableOptions& options) {
  const sweeps::ResultTable table = compute([&] {
    const tools::SweepView view = tools::open_view(view_options);
    return sweeps::result_table(view.results, view.costs, options);
  });
  return py::make_tuple(table.columns, table.rows);
}

}  // namespace

void bind_experiments(py::module_& m) {
  m.def("verify", [](const std::string& golden, const std::string& candidate, const std::vector<std::string>& stages,
                     const std::string& case_name, const std::string& accumulator,
                     const std::vector<std::string>& ignore, const std::vector<std::string>& require, bool all_cases,
                     const std::string& nibbles, const std::string& scale_layout, const std::string& tolerance,
                     const std::string& random_words, float alpha, float beta, const std::string& c,
                     const std::string& bias, const std::string& output, const std::string& backend, int threads) {
    const tools::VerifyWords words = {nibbles, scale_layout, tolerance, random_words, c, bias, alpha, beta, output};
    return verify(
        {.golden = golden,
         .candidate = candidate,
         .dump = {.stages = stages, .case_name = case_name, .accumulator = accumulator, .ignore = ignore, .open = {}},
         .require = require,
         .all_cases = all_cases,
         .backend = backend,
         .threads = thread_count(threads)},
        words);
  });
  m.def("golden_make",
        [](const std::string& suite, const std::string& out, bool force, const std::string& backend, int threads) {
          compute([&] {
            golden::write_bundle(suite, golden::suite_cases(suite), out, force, backend, thread_count(threads));
          });
        });
  m.def("golden_check", [](const std::string& dir, const std::string& backend, int threads) {
    const auto found =
        compute([&] { return golden::check_bundle(golden::open_bundle(dir), backend, thread_count(threads)); });
    py::list out;
    for (const golden::Difference& d : found) out.append(py::make_tuple(d.file, d.what));
    return out;
  });
  m.def("train", [](const std::string& task, const std::string& recipe, const std::vector<std::string>& sets, int steps,
                    uint64_t seed, const std::string& backend, int threads, const py::object& progress) {
    tools::RunWords words;
    words.task = task, words.recipe = recipe, words.sets = sets, words.steps = steps, words.seed = seed;
    words.backend = backend, words.threads = threads > 0 ? threads : 1;
    return train(words, progress);
  });
  m.def("law", [](const std::string& ladder, const std::string& baseline, const std::string& form,
                  const std::vector<double>& at, double held_out, size_t samples) {
    const tools::LawJob job = {ladder, baseline, form, at, held_out, samples};
    return to_python(compute([&] {
      tools::check(job);
      const tools::LadderRuns runs = tools::read_ladder(job.ladder);
      return tools::law_json(job, runs, tools::study_ladder(job, runs));
    }));
  });
  m.def("sweep_table", [](const std::string& folder, const std::string& hardware, const std::string& model,
                          const std::vector<std::string>& weights, const std::vector<std::string>& where,
                          const std::vector<std::string>& sort, bool grouped, bool references) {
    return table({.folder = folder, .hardware = hardware, .model = model, .weights = weights},
                 {.references = references, .grouped = grouped, .where = where, .sort = sort});
  });
}

}  // namespace fp4::python
