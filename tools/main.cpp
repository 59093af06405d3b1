// The program: its subcommands, and what an error exits with. Exit codes: 0 fine; 1 the work failed or a comparison
// mismatched; 2 wrong usage or bad input, nothing was written.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/temporaries.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/own_inputs.h"
#include "src/text/version.h"
#include "src/threads/float_environment.h"
#include "sweeps/carried_files.h"
#include "tools/cli/command.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"
#include "tools/cli/usage.h"

// One line per subcommand with its group, in the order of --help; each is a command_<name>() below tools/cli.
// clang-format off
#define FP4_COMMANDS(X) \
  X(quantize, "Tensors and models") \
  X(dequantize, "Tensors and models") \
  X(convert, "Tensors and models") \
  X(compare, "Tensors and models") \
  X(inspect, "Tensors and models") \
  X(gemm, "Tensors and models") \
  X(hadamard, "Tensors and models") \
  X(random, "Tensors and models") \
  X(golden, "Kernels") \
  X(verify, "Kernels") \
  X(witness, "Kernels") \
  X(train, "Training") \
  X(eval, "Training") \
  X(stats, "Training") \
  X(trace, "Training") \
  X(sweep, "Sweeps") \
  X(table, "Sweeps") \
  X(pareto, "Sweeps") \
  X(effects, "Sweeps") \
  X(report, "Sweeps") \
  X(edge, "Sweeps") \
  X(law, "Sweeps") \
  X(advise, "Sweeps") \
  X(cost, "Cost") \
  X(serve, "Cost") \
  X(list, "Help") \
  X(show, "Help") \
  X(help, "Help") \
  X(completion, "Help") \
  X(signature, "Help") \
  X(bench, "Help") \
  X(version, "Help")
// clang-format on

namespace fp4::tools {

#define FP4_DECLARE(name, group) Command command_##name();
FP4_COMMANDS(FP4_DECLARE)
#undef FP4_DECLARE

namespace {

struct Grouped {
  const char* group;
  Command command;
};

std::vector<Grouped> commands() {
#define FP4_CALL(name, group) {group, command_##name()},
  return {FP4_COMMANDS(FP4_CALL)};
#undef FP4_CALL
}

// CLI11's help with texts wrapped to the width of our tables.
class HelpFormatter : public CLI::Formatter {
 public:
  // Older names of an option (keep_older_names) are accepted and not shown.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional || option->get_configurable()) return CLI::Formatter::make_option_name(option, is_positional);
    const std::string name = "--" + option->get_lnames().front();
    return option->get_snames().empty() ? name : "-" + option->get_snames().front() + "," + name;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), get_column_width());
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    constexpr size_t names = 14;  // the longest name has ten letters
    std::ostringstream out;
    CLI::detail::format_help(out, sub->get_name(), wrapped(sub->get_description(), names), names);
    return out.str();
  }
  std::string make_description(const CLI::App* app) const override {
    std::string out;
    for (const std::string& line : wrap_text(CLI::Formatter::make_description(app), terminal_width()))
      out += line + "\n";
    return out.substr(0, out.size() - 1);  // the text ends its last line itself
  }

 private:
  static std::string wrapped(const std::string& text, size_t indent) {
    std::string out;
    for (const std::string& line : wrap_text(text, terminal_width() - indent)) out += (out.empty() ? "" : "\n") + line;
    return out;
  }
};

// Quoted only where a shell needs it.
std::string command_line(int argc, char** argv) {
  std::string line = "fp4sim";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=.,:/@%") == std::string::npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    line += " " + (plain ? word : quoted + "'");
  }
  return line;
}

int run(int argc, char** argv) {
  register_embedded(sweeps_data());
  Invocation invocation;
  invocation.command_line = command_line(argc, argv);
  CLI::App app("Bit-exact FP4 design-space simulator: formats, quantised GEMMs, training, sweeps.", "fp4sim");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("fp4sim ") + version(), "Print the version and exit");
  app.require_subcommand(1);
  app.footer("`fp4sim COMMAND --help` shows the options of a command with an example.");
  for (const auto& [group, command] : commands())
    command.add(*app.add_subcommand(command.name, command.doc)->group(group), invocation);
  add_table_forms(app);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    if (argc <= 1) {
      say_text(app.help());
    } else {
      print_error(usage_message(app, error));
    }
    return 2;
  }
  return invocation.exit_code;
}

}  // namespace

bool only_prints(std::string_view command) {
  constexpr std::string_view names[] = {"list",    "show",   "help",   "completion", "version", "inspect",
                                        "compare", "table",  "pareto", "effects",    "law",     "advise",
                                        "cost",    "random", "stats",  "signature"};
  return std::find(std::begin(names), std::end(names), command) != std::end(names);
}

// What is left of the library's own errors: a word or a name that is no UTF-8 and was to be put into JSON, or a value
// of another type in a document that was not read field by field. The exit code.
int report_json_problem(const nlohmann::json::exception& error) {
  constexpr int not_utf8 = 316;
  std::string text = error.what();
  if (const size_t end = text.find("] "); text.starts_with("[json") && end != std::string::npos) text.erase(0, end + 2);
  if (error.id == not_utf8) text = "a word or a file's name is not UTF-8, which JSON needs: " + text;
  print_error(text);
  return error.id == not_utf8 ? 2 : 1;
}

}  // namespace fp4::tools

int main(int argc, char** argv) {
  fp4::tools::prepare_streams();
  fp4::tools::prepare_end();
  fp4::remove_temporaries_on_signals();
  fp4::keep_inputs();
  // Whatever a preloaded library has set; every thread inherits it from here.
  const fp4::DefaultFloatEnvironment floats;
  int exit_code = 1;
  try {
    exit_code = fp4::tools::run(argc, argv);
  } catch (const fp4::Error& error) {
    fp4::tools::print_error(error.what());
    exit_code = error.kind;
  } catch (const std::bad_alloc&) {
    fp4::tools::print_error("out of memory");
  } catch (const nlohmann::json::exception& error) {
    exit_code = fp4::tools::report_json_problem(error);
  } catch (const std::exception& error) {
    // A failure of stdout itself is told below, once.
    if (std::ferror(stdout) == 0) fp4::tools::print_error(error.what());
  } catch (...) {
    fp4::tools::print_error("an unknown exception");
  }
  // A result that did not reach its reader (`fp4sim list > /dev/full`) is a failure. A reader that has read enough
  // (`fp4sim list | head`) is none, where printing was all that the command did.
  const fp4::tools::Flushed flushed = fp4::tools::flush_results();
  if (flushed == fp4::tools::Flushed::reader_gone && argc > 1 && fp4::tools::only_prints(argv[1])) return 0;
  if (flushed != fp4::tools::Flushed::all && exit_code == 0) exit_code = 1;
  return exit_code;
}
