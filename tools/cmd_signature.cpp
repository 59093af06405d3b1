// `fp4sim signature`: one number that says whether any arithmetic changed.
#include <fmt/core.h>

#include "src/signature.h"
#include "tools/options.h"
#include "tools/table_print.h"

namespace fp4::tools {
namespace {

void add_signature(CLI::App& app, Invocation&) {
  auto json = std::make_shared<bool>(false);
  add_json_option(app, *json);
  app.callback([json] {
    if (*json)
      print_json({{"signature", arithmetic_signature()}, {"version", FP4_VERSION}});
    else
      fmt::print("{}\n", arithmetic_signature());
  });
  set_example(app, "fp4sim signature");
}

}  // namespace

Command command_signature() {
  return {"signature", "Print 16 hex digits that change when any arithmetic changes", add_signature};
}

}  // namespace fp4::tools
