// `fp4sim version`: which build this is, for bug reports and provenance.
#include "tools/cli/command.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

void add_version(CLI::App& app, Invocation&) {
  static bool json = false;
  app.add_flag("--json", json, "Print JSON");
  app.callback([] {
    if (json) {
      print_json({{"version", FP4_VERSION}, {"compiler", kCompiler}});
    } else {
      print_fields({{"fp4sim", FP4_VERSION}, {"compiler", kCompiler}});
    }
  });
  set_example(app, "fp4sim version --json");
}

}  // namespace

Command command_version() { return {"version", "The version of the program and its compiler", add_version}; }

}  // namespace fp4::tools
