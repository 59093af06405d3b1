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

#include "src/files/temporaries.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "src/text/version.h"
#include "src/threads/float_environment.h"
#include "sweeps/carried_files.h"
#include "tools/cli/catalogue.h"
#include "tools/cli/command.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"
#include "tools/cli/usage.h"

// One line per subcommand, in the order of --help: its group and what it says there. Each is a command_<name>() below
// tools/cli.
// clang-format off
#define FP4_COMMANDS(X) \
  X(quantize, "Tensors and models", "Quantise a tensor file to codes, scales and decoded values") \
  X(dequantize, "Tensors and models", "Decode what quantize wrote") \
  X(convert, "Tensors and models", "Bring codes or scales from one layout to another") \
  X(compare, "Tensors and models", "What several formats make of the tensors of a model") \
  X(inspect, "Tensors and models", "Tensors of a model, and the schemes of its FP4 weights") \
  X(gemm, "Tensors and models", "Quantise two tensors and multiply them under an accumulator") \
  X(hadamard, "Tensors and models", "Rotate the rows of a tensor by a Hadamard transform") \
  X(random, "Tensors and models", "The random draws of positions that stochastic rounding uses") \
  X(golden, "Kernels", "Make, list and check bundles of exact answers") \
  X(verify, "Kernels", "Judge a kernel's dump and name what it does instead") \
  X(witness, "Kernels", "Find the shortest operands on which two models differ") \
  X(train, "Training", "Train a small task under a recipe") \
  X(eval, "Training", "What a trained network loses under other recipes") \
  X(stats, "Training", "Statistics of the tensors that a recipe quantises") \
  X(trace, "Training", "Look at what `train --trace` wrote") \
  X(sweep, "Sweeps", "Experiments: run, status, merge, check, export, import") \
  X(table, "Sweeps", "The results of a sweep as a table, CSV or JSON") \
  X(pareto, "Sweeps", "The fronts of cost against quality, and what each axis does") \
  X(effects, "Sweeps", "What values of an axis do, or the comparisons of a study") \
  X(report, "Sweeps", "A sweep as one web page that opens offline") \
  X(edge, "Sweeps", "The largest learning rate at which most seeds are stable") \
  X(law, "Sweeps", "Scaling law of a ladder of sizes: what a recipe costs in tokens") \
  X(advise, "Sweeps", "Which recipe: what each costs on a chip until it has bf16's loss") \
  X(cost, "Cost", "What a recipe costs on a chip: time, energy, bytes and money") \
  X(serve, "Cost", "A prediction service of ensembles, event by event") \
  X(list, "Help", "List formats, rules, recipes and everything else that has a name") \
  X(show, "Help", "Print a recipe, preset, grid or hardware profile as full JSON") \
  X(help, "Help", "Explain a command, a field of a file, or a word") \
  X(completion, "Help", "Print the completion script of a shell, or the man page") \
  X(signature, "Help", "16 hex digits that change when any arithmetic changes") \
  X(bench, "Help", "Speeds as ratios to sgemm and memcpy of the same run") \
  X(version, "Help", "Commit, signature, features and libraries of the program")
// clang-format on

namespace fp4::tools {

#define FP4_DECLARE(name, group, doc) void command_##name(CLI::App& app, Invocation& invocation);
FP4_COMMANDS(FP4_DECLARE)
#undef FP4_DECLARE

namespace {

constexpr struct {
  const char *name, *group, *doc;
  void (*add)(CLI::App& app, Invocation& invocation);
} commands[] = {
#define FP4_ROW(name, group, doc) {#name, group, doc, command_##name},
    FP4_COMMANDS(FP4_ROW)
#undef FP4_ROW
};

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
    return wrapped(CLI::Formatter::make_description(app), 0);
  }

 private:
  static std::string wrapped(const std::string& text, size_t indent) {
    std::string out;
    for (const std::string& line : wrap_text(text, terminal_width() - indent)) out += (out.empty() ? "" : "\n") + line;
    return out;
  }
};

// Where a word belongs that its place does not know: nvfp4_te, given as a spec, is a recipe.
std::string told(const Error& error) {
  if (error.word.empty()) return error.what();
  for (const std::string& topic : catalogue_topics())
    for (const CatalogueRow& row : catalogue_rows(topic))
      if (row.name == error.word)
        return fmt::format("{}. '{}' is a word of `fp4sim list {}`", error.what(), error.word, topic);
  return error.what();
}

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
  for (const auto& command : commands)
    command.add(*app.add_subcommand(command.name, command.doc)->group(command.group), invocation);
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

// The program as a function, which the library of the Python package exports for its own (tools/python).
extern "C" __attribute__((visibility("default"))) int fp4sim_main(int argc, char** argv) {
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
    fp4::tools::print_error(fp4::tools::told(error));
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
