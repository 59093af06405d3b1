// Verdicts about arrays, and training runs that report to Python: what the commands of the same names compute. All
// other commands Python runs as the program (fp4sim/_program.py).
#include <algorithm>
#include <atomic>
#include <bit>

#include "tasks/run.h"
#include "tools/cli/golden/verdict.h"
#include "tools/cli/golden/verify_print.h"
#include "tools/cli/train/run_words.h"
#include "tools/cli/train/train_result.h"
#include "tools/python/gate.h"

namespace fp4::python {
namespace {

using Words = std::vector<std::string>;

Json verify(const Arguments& given) {
  const tools::VerifyWords words = {
      given.text("nibbles"),    given.text("scale_layout"), given.text("tolerance"),   given.text("random_words"),
      given.text("c"),          given.text("bias"),         given.get<float>("alpha"), given.get<float>("beta"),
      given.text("output_type")};
  tools::VerifyJob job = {.golden = given.text("golden"),
                          .candidate = given.text("candidate"),
                          .dump = {.stages = given.get<Words>("stages"),
                                   .case_name = given.text("case"),
                                   .accumulator = given.text("accumulator"),
                                   .ignore = given.get<Words>("ignore"),
                                   .open = {}},
                          .require = given.get<Words>("require"),
                          .all_cases = given.get<bool>("all_cases"),
                          .backend = given.backend(),
                          .threads = given.threads(),
                          .seconds = given.get<double>("seconds")};
  golden::Bundle bundle = golden::open_bundle(job.golden);
  tools::say(words, job, bundle);
  const tools::Verdict verdict = tools::judge(job, bundle);
  Json out = tools::verdict_json(verdict);
  out["text"] = tools::verdict_text(verdict);
  return out;
}

// `board` is memory that Python reads and writes while the run goes on: whether to stop, step, steps, bits of the loss.
Json train(const Arguments& given) {
  tools::RunWords words;
  words.task = given.text("task"), words.recipe = given.text("recipe"), words.sets = given.get<Words>("sets");
  words.steps = given.get<int>("steps"), words.seed = given.get<uint64_t>("seed");
  words.backend = given.backend(), words.threads = std::max(given.get<int>("threads"), 1);
  const sim::Json config = words.config();
  sim::RunOptions options;
  options.backend = words.backend;
  options.threads = words.threads;
  auto* const board = reinterpret_cast<std::atomic<int64_t>*>(given.get<uintptr_t>("board"));
  options.stop = [board] { return board[0] != 0; };
  options.progress = [board](const sim::Progress& p) {
    board[1] = p.step;
    board[2] = p.steps;
    board[3] = std::bit_cast<int64_t>(double{p.train_loss});
    return board[0] == 0;
  };
  const sim::History history = tasks::run(config, words.seed, options);
  return tools::train_result(config, words.seed, history, tools::Invocation{});
}

}  // namespace

const std::vector<Function>& experiment_functions() {
  static const std::vector<Function> table = {{"verify", &verify}, {"train", &train}};
  return table;
}

}  // namespace fp4::python
