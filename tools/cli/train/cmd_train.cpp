// `fp4sim train`: one run, with progress, its curve in the terminal and a JSON result that anyone can check by digest.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "src/arith/spec_note.h"
#include "src/arith/spec_text.h"
#include "src/files/output_file.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "src/text/named_rows.h"
#include "sweeps/judge/statistics.h"
#include "tasks/run.h"
#include "tools/cli/command.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/stop.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"
#include "tools/cli/tensor/explain.h"
#include "tools/cli/train/run_words.h"
#include "tools/cli/train/train_result.h"
#include "tools/mpi/join.h"

namespace fp4::tools {
namespace {

struct TrainOptions {
  RunWords run;
  std::string out, trace, checkpoint, resume;
  std::string gradients, files = "memory";
  std::vector<std::string> adders;
  int stop_at = 0, trace_every = 10, hadamard = 0;
  double checkpoint_every = 0, rank_limit = 600;
  bool json = false, force = false, quiet = false, explains = false, branch = false;
  double distil = 0;
};

class StepTimes {
 public:
  void add(const sim::Progress& p) {
    if (p.step > 1) steps_.push_back(p.seconds - before_);
    before_ = p.seconds;
  }

  /// The time in s that a share of the steps stays below; without the first, which makes room for all, and the last,
  /// which evaluates.
  double step_seconds(double share) const {
    std::vector<double> s(steps_.begin(), steps_.end() - (steps_.empty() ? 0 : 1));
    return s.empty() ? 0 : sweeps::quantile(std::move(s), share);
  }

 private:
  std::vector<double> steps_;
  double before_ = 0;
};

sim::FileReading file_reading(const std::string& word) {
  return static_cast<sim::FileReading>(accepted_index("--files", word, {"memory", "cached", "cold"}));
}

// What a recipe's specs leave unused (note_of), once for each sentence.
std::vector<std::string> spec_notes(const sim::TrainingRecipe& recipe) {
  std::vector<std::string> notes;
  for (const auto& [name, gemm] :
       {std::pair("fprop", &recipe.fprop), {"dgrad", &recipe.dgrad}, {"wgrad", &recipe.wgrad}})
    for (const auto& [side, operand] : {std::pair("a", &gemm->a), {"b", &gemm->b}}) {
      const std::string note = note_of(operand->quant);
      const bool is_known = std::any_of(notes.begin(), notes.end(), [&](const auto& n) { return n.ends_with(note); });
      if (!note.empty() && !is_known) notes.push_back(fmt::format("{}.{}: {}", name, side, note));
    }
  return notes;
}

bool replaces_checkpoint(const TrainOptions& o) {
  std::error_code absent;
  return std::filesystem::equivalent(o.checkpoint, o.resume, absent);
}

// Before any work. What stands at --checkpoint is replaced by the run that goes on from it, or by --force.
void check_files(const TrainOptions& o, const sim::Json& config) {
  for (const auto& [path, value] : config.at("task").items())
    if (value.is_string()) note_input(value.get<std::string>());  // a text, images
  const bool goes_on = replaces_checkpoint(o);
  std::map<std::filesystem::path, const char*> names;
  for (const auto& [option, path] : {std::pair("--out", o.out), {"--trace", o.trace}, {"--checkpoint", o.checkpoint}})
    if (const auto [at, is_new] = names.try_emplace(std::filesystem::path(path).lexically_normal(), option);
        !is_new && !path.empty())
      throw Error(fmt::format("{} and {} both name {}", at->second, option, path));
  if (o.checkpoint.empty()) return;
  if (goes_on && o.branch)
    throw Error("--checkpoint " + o.checkpoint + ": the trunk that --branch goes on from; give another file");
  if (!goes_on && !o.force && tasks::resumes(o.checkpoint, config, o.run.seed))
    throw Error(
        fmt::format("--checkpoint {0}: has this run; --resume {0} goes on with it, --force begins anew", o.checkpoint));
  const StagedFile place(o.checkpoint, goes_on || o.force);
}

// What the checkpoint of --resume says for a command line that does not: all of its run; of a branch the task alone.
sim::Json resumed_sections(TrainOptions& o) {
  if (o.resume.empty()) return sim::Json::object();
  note_input(o.resume, /*may_be_replaced=*/replaces_checkpoint(o));  // before it is read
  sim::Checkpoint c = sim::read_checkpoint(o.resume);
  c.config.erase("ranks");
  sim::Json config = at_place(o.resume + ": its configuration", [&] { return tasks::canonical(c.config); });
  sim::Json& data_seed = config.at("task").at("data_seed");
  if (data_seed == c.seed) data_seed = -1;  // it followed the run's
  if (o.branch) return {{"task", config.at("task")}};
  if (o.run.seed_option->count() == 0) o.run.seed = c.seed;
  return config;
}

// The same command with --resume writes the results; nothing stands in its way.
void print_interrupted(const TrainOptions& o, const sim::History& history) {
  say("fp4sim: interrupted {}; {}\n", history.message,
      history.steps_done == 0 ? "the same command starts again"
      : o.checkpoint.empty()  ? "nothing is kept without --checkpoint"
                              : fmt::format("go on with --resume {}", o.checkpoint));
}

void print_training(const TrainOptions& o, const sim::Json& config, const sim::History& history,
                    const sim::Ranks* ranks) {
  if (!o.quiet) fmt::print("{}", draw_curve(history.curve, terminal_width()));
  std::vector<std::pair<std::string, std::string>> fields = {
      {"task", config.at("task").at("name")},
      {"recipe", config.at("recipe").at("name").get<std::string>()},
      {"status", std::string(sim::word(history.status)) + (history.message.empty() ? "" : ": " + history.message)}};
  if (history.parent)
    fields.emplace_back("branch", fmt::format("after step {} of {}, checkpoint {}", history.parent->step,
                                              history.parent->recipe, history.parent->checkpoint));
  if (config.contains("eval"))
    fields.emplace_back("judged under", config.at("eval").at("recipe").at("name").get<std::string>());
  for (const auto& [name, value] : history.metrics) fields.emplace_back(name, fmt::format("{:.6g}", value));
  fields.emplace_back("speed", fmt::format("{:.0f} steps/s, {:.2f} s", history.steps_per_second, history.seconds));
  if (!history.placement.empty()) fields.emplace_back("on the device", history.placement);
  if (ranks)
    fields.emplace_back("ranks", fmt::format("{}, gradients in {}, {:.4g} MB sent by each", ranks->count(), o.gradients,
                                             static_cast<double>(history.bytes_sent) * 1e-6));
  fields.emplace_back("digest", history.digest);
  print_fields(fields);
}

sim::RunOptions run_options(const TrainOptions& o) {
  sim::RunOptions options;
  options.backend = o.run.backend;
  options.threads = o.run.threads;
  options.resume_from = o.resume;
  options.branch = o.branch;
  options.distil = o.distil;
  options.checkpoint_to = o.checkpoint;
  options.checkpoint_every = o.checkpoint_every;
  options.stop_at = o.stop_at;
  options.files = file_reading(o.files);
  options.stop = [] { return stop_requested().load(); };
  return options;
}

void trace_into(OutputFile& file, const TrainOptions& o, sim::RunOptions& options) {
  file.write("step,layer,gemm,operand,quantity,value\n");
  options.trace_every = o.trace_every;
  for (const std::string& words : o.adders)
    options.trace_adders.emplace_back(words, accumulator_from_words(words, "--trace-adder"));
  options.trace = [&file](const sim::TraceRow& r) {
    file.write(fmt::format("{},{},{},{},{},{}\n", r.step, r.layer, r.gemm, r.operand, r.quantity, r.value));
  };
}

// mpirun hands its parameters to the ranks in the environment.
void warn_of_short_signals() {
  if (std::getenv("OMPI_MCA_odls_base_sigkill_timeout") == nullptr)
    say("fp4sim: a signal to mpirun leaves ranks a second for their checkpoint; Open MPI 4's mpirun --mca "
        "odls_base_sigkill_timeout 60 leaves 60, Open MPI 5 less; a signal to a rank, all that it needs\n");
}

void run_train(TrainOptions& o, Invocation& invocation) {
  const sim::Json config = o.run.config(resumed_sections(o));
  sim::RunOptions options = run_options(o);
  StepTimes times;
  std::unique_ptr<sim::Ranks> ranks;
  if (!o.gradients.empty()) {
    options.wire = sim::wire_from_words(o.gradients, o.hadamard);
    ranks = mpi::join(o.rank_limit);
    options.ranks = ranks.get();
  }
  const bool reports = !ranks || ranks->rank() == 0;  // the others compute the same and say nothing
  if (!reports) {
    o.out.clear();
    o.trace.clear();
    o.json = false;
    o.quiet = true;
  }
  if (reports) print_notes(spec_notes(sim::recipe_from_json(config.at("recipe"))));
  if (ranks && ranks->count() > 1 && !o.checkpoint.empty() && !o.quiet) warn_of_short_signals();
  ProgressLine line(o.quiet, [](double rate) { return fmt::format("{:.{}f} steps/s", rate, rate < 10 ? 2 : 0); });
  options.progress = [&](const sim::Progress& p) {
    times.add(p);
    line.count(p.step, p.steps, fmt::format("loss {:.4f}", p.train_loss));
    return !stop_requested();
  };
  catch_stop_signals();  // before a temporary file exists: a signal leaves none
  // Files are opened before the work: a place that cannot be written is reported at once.
  if (reports) check_files(o, config);
  std::unique_ptr<OutputFile> out = o.out.empty() ? nullptr : std::make_unique<OutputFile>(o.out, o.force);
  std::unique_ptr<OutputFile> trace = o.trace.empty() ? nullptr : std::make_unique<OutputFile>(o.trace, o.force);
  if (trace) trace_into(*trace, o, options);
  const sim::History history = tasks::run(config, o.run.seed, options);
  line.finish();
  if (!reports) return;
  // Of ranks, another one may have got the signal.
  const bool is_other_rank = ranks && history.status == sim::Status::stopped && history.steps_done != o.stop_at;
  if (history.status == sim::Status::stopped && (stop_requested() || is_other_rank)) {
    print_interrupted(o, history);
    invocation.exit_code = stop_requested() ? stop_exit_code() : 128 + SIGTERM;
    return;
  }
  nlohmann::ordered_json result = train_result(config, o.run.seed, history, invocation);
  result["step_seconds"] = times.step_seconds(0.5);
  result["step_seconds_low"] = times.step_seconds(0.1);
  if (ranks)
    result["parallel"] = {{"ranks", ranks->count()},
                          {"gradients", o.gradients},
                          {"hadamard", o.hadamard},
                          {"bytes_sent", history.bytes_sent}};
  if (trace) trace->commit();
  if (out) {
    out->write(json_text(result, 2) + "\n");
    out->commit();
  }
  if (o.json) return print_json(result);
  print_training(o, config, history, ranks.get());
  if (o.explains) print_kernels(cpu::gemm_uses.read());
}

}  // namespace

void command_train(CLI::App& app, Invocation& invocation) {
  static TrainOptions o;
  o.run.add(app);
  app.add_option("-o,--out", o.out, "Write the result as JSON");
  CLI::Option* trace = app.add_option("--trace", o.trace, "Write tensor statistics over training as CSV");
  option(app, "--trace-adder WORDS", o.adders,
         "Also: the share of tiles that this accumulator would change (repeatable)")
      ->allow_extra_args(false)
      ->needs(trace);
  app.add_option("--trace-every", o.trace_every, "Steps between traced steps")->check(CLI::Range(1, 1000000000));
  CLI::Option* checkpoint = app.add_option("--checkpoint", o.checkpoint,
                                           "Write a checkpoint when the run ends, stops or is interrupted by Ctrl-C or "
                                           "SIGTERM; replaces the file of --resume, another with --force");
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "Write it every so many seconds on the way, instead of at the end")
      ->check(CLI::Range(1e-3, 1e9))
      ->needs(checkpoint);
  defaulted(app, "--files HOW", o.files,
            "Batches of --text and --images: from memory, or read in each step: cached, or cold from the disk");
  CLI::Option* gradients =
      option(app, "--gradients SPEC", o.gradients,
             "Under mpirun: ranks share every batch and send gradients as fp32, bf16 or a spec (mxfp4, ..)");
  option(app, "--gradients-hadamard SIZE", o.hadamard, "Rotate gradients by Hadamards of this size before coding them")
      ->needs(gradients);
  defaulted(app, "--rank-limit", o.rank_limit,
            "Give up, naming the rank, when one has not answered for so many seconds; 0: wait for ever")
      ->check(CLI::Range(0.0, 1e9))
      ->needs(gradients);
  app.add_option("--stop-at", o.stop_at, "Stop after this step, with status `stopped` (needs --checkpoint)")
      ->check(CLI::Range(1, 1000000000))
      ->needs(checkpoint);
  CLI::Option* resume = app.add_option("--resume", o.resume,
                                       "Go on from a checkpoint, with its task, recipe, steps and seed; the result "
                                       "equals an uninterrupted run by bits")
                            ->each([](const std::string&) { o.run.task_option->required(false); });
  CLI::Option* branch =
      app.add_flag(
             "--branch", o.branch,
             "With --resume: go on under this command's recipe and training, whatever those of the checkpoint are")
          ->needs(resume);
  option(app, "--distil SHARE", o.distil,
         "With --branch: this share of the loss follows the outputs of the checkpoint's network in fp32 (QAD)")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(branch);
  app.add_flag("--json", o.json, "Print the result as JSON");
  app.add_flag("-q,--quiet", o.quiet, "No progress line and no curve");
  app.add_flag("-f,--force", o.force, "Overwrite existing results");
  add_sync_option(app);
  add_explain_option(app, o.explains);
  app.callback([&invocation] { run_train(o, invocation); });
  set_example(app, "fp4sim train --task classifier --recipe mxfp4@wgrad --steps 300 --set lr=2e-3 --out run.json");
}

}  // namespace fp4::tools
