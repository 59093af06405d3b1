// `fp4sim signature`: one number that says whether any arithmetic changed, and one for each task's training.
#include <fmt/core.h>

#include "src/backends/signature.h"
#include "src/text/version.h"
#include "tasks/run.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

void print_signatures(bool train, bool as_json) {
  nlohmann::ordered_json json = {{"signature", computed_signature()}, {"version", version()}};
  if (!as_json) fmt::print("{}\n", json["signature"].get<std::string>());
  // A pipe gets one line: `test "$(fp4sim signature)" = f7097f7a1a6b740b`.
  if (!train && !as_json && !stdout_is_terminal()) return;
  for (const std::string& task : tasks::task_names()) {
    const std::string signature = tasks::computed_train_signature(task);
    json["train_signatures"][task] = signature;
    if (!as_json) fmt::print("{}  training of {}\n", signature, task);
  }
  if (as_json) print_json(json);
}

}  // namespace

void command_signature(CLI::App& app, Invocation&) {
  auto json = std::make_shared<bool>(false);
  auto train = std::make_shared<bool>(false);
  app.add_flag("--train", *train, "One more line for each task's training (a terminal shows them anyway)");
  add_json_option(app, *json);
  app.callback([json, train] { print_signatures(*train, *json); });
  set_example(app, "fp4sim signature --train");
}

}  // namespace fp4::tools
