// `fp4sim golden make|list|check|stream`: bundles of inputs and exact answers.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "src/error.h"
#include "src/golden/bundle.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct GoldenOptions {
  std::string suite = "smoke", out, dir, judge;
  bool force = false, json = false, questions = false;
  BackendOptions backend;
};

// One line that is overwritten on a terminal; silent elsewhere.
golden::CaseProgress progress_line(const char* verb) {
  if (!stdout_is_terminal()) return {};
  return [verb](size_t done, size_t all) {
    fmt::print("\r{} case {}/{}{}", verb, done, all, done == all ? "\n" : "");
    std::fflush(stdout);
  };
}

void run_make(const GoldenOptions& o) {
  const auto cases = golden::suite_cases(o.suite);
  golden::write_bundle(o.suite, cases, o.out, o.force, o.backend.backend, o.backend.thread_count(),
                       progress_line("made"));
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(o.out)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  if (o.json) {
    print_json({{"suite", o.suite}, {"out", o.out}, {"cases", cases.size()}, {"bytes", bytes}});
    return;
  }
  print_fields({{"suite", o.suite},
                {"folder", o.out},
                {"cases", fmt::format("{}", cases.size())},
                {"size", fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6)}});
}

void run_list(const GoldenOptions& o) {
  Table table;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (o.dir.empty()) {
    table.columns = {{"suite"}, {"cases", Align::right}, {"what"}};
    for (const golden::SuiteInfo& s : golden::suite_table) {
      const auto cases = golden::suite_cases(s.name).size();
      table.rows.push_back({s.name, fmt::format("{}", cases), s.doc});
      rows.push_back({{"name", s.name}, {"doc", s.doc}, {"cases", cases}});
    }
  } else {
    table.columns = {{"case"}, {"kind"}, {"spec"}, {"shape", Align::right}};
    for (const golden::Case& c : golden::open_bundle(o.dir).cases) {
      const std::string shape =
          c.is_gemm ? fmt::format("{}x{}x{}", c.rows, c.rows_b, c.cols) : fmt::format("{}x{}", c.rows, c.cols);
      const char* kind = c.is_gemm ? "gemm" : "quantize";
      table.rows.push_back({c.name, kind, c.words, shape});
      rows.push_back({{"name", c.name}, {"kind", kind}, {"spec", c.words}, {"shape", shape}});
    }
  }
  if (o.json) {
    print_json({{"rows", rows}});
  } else {
    print_table(table);
  }
}

void run_check(const GoldenOptions& o, Invocation& invocation) {
  const golden::Bundle bundle = golden::open_bundle(o.dir);
  const auto differences =
      golden::check_bundle(bundle, o.backend.backend, o.backend.thread_count(), progress_line("checked"));
  if (!differences.empty()) invocation.exit_code = 1;
  if (o.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& d : differences) list.push_back({{"file", d.file}, {"what", d.what}});
    print_json({{"equal", differences.empty()}, {"cases", bundle.cases.size()}, {"differences", list}});
    return;
  }
  if (differences.empty()) {
    fmt::print("equal: {} cases, every byte\n", bundle.cases.size());
    return;
  }
  Table table = {{{"file"}, {"what"}}, {}};
  for (size_t i = 0; i < differences.size() && i < 20; ++i)
    table.rows.push_back({differences[i].file, differences[i].what});
  print_table(table);
  if (differences.size() > 20) fmt::print("and {} more\n", differences.size() - 20);
}

using Fields = std::map<std::string, std::string>;
Fields fields_of(const std::string& line) {
  Fields out;
  std::istringstream in(line);
  std::string word;
  while (in >> word) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

// Answers as `case=NAME codes=HEX,.. scales=HEX,..` lines, in any order; every array named is compared.
void judge_stream(const GoldenOptions& o, Invocation& invocation) {
  std::map<std::string, Fields> expected;
  for (const golden::Case& c : golden::suite_cases(o.suite)) {
    expected[c.name] = fields_of(golden::stream_line(c, o.backend.backend, o.backend.thread_count(), true));
  }
  std::ifstream file;
  if (o.judge != "-") {
    file.open(o.judge);
    if (!file) throw Error("golden stream --judge: cannot read '" + o.judge + "'");
  }
  std::istream& in = o.judge == "-" ? std::cin : file;
  uint64_t arrays = 0, wrong = 0, shown = 0;
  std::string line;
  while (std::getline(in, line)) {
    const Fields got = fields_of(line);
    if (got.empty()) continue;
    const auto name = got.find("case");
    if (name == got.end() || expected.find(name->second) == expected.end()) {
      throw Error("golden stream --judge: a line without a known case=NAME: " + line.substr(0, 60));
    }
    const Fields& want = expected[name->second];
    for (const auto& [key, value] : got) {
      if (key == "case" || want.find(key) == want.end()) continue;
      ++arrays;
      if (want.at(key) == value) continue;
      ++wrong;
      if (++shown <= 20) fmt::print("{} {}: differs\n", name->second, key);
    }
  }
  if (arrays == 0) throw Error("golden stream --judge: no answers on the input; expected lines case=NAME codes=HEX,..");
  fmt::print("{} of {} arrays equal\n", arrays - wrong, arrays);
  if (wrong > 0) invocation.exit_code = 1;
}

void run_stream(const GoldenOptions& o, Invocation& invocation) {
  if (!o.judge.empty()) return judge_stream(o, invocation);
  for (const golden::Case& c : golden::suite_cases(o.suite)) {
    fmt::print("{}\n", golden::stream_line(c, o.backend.backend, o.backend.thread_count(), !o.questions));
  }
}

void add_golden(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<GoldenOptions>();
  app.require_subcommand(1);
  CLI::App* make = app.add_subcommand("make", "Write a bundle");
  make->add_option("--suite", o->suite, "smoke, standard or stress")->required()->type_name("NAME");
  make->add_option("-o,--out", o->out, "Folder to make")->required()->type_name("DIR");
  add_backend_options(*make, o->backend);
  add_force_option(*make, o->force);
  add_sync_option(*make);
  add_json_option(*make, o->json);
  make->callback([o] { run_make(*o); });
  set_example(*make, "fp4sim golden make --suite standard --out golden");

  CLI::App* list = app.add_subcommand("list", "List the suites, or the cases of a bundle");
  list->add_option("DIR", o->dir, "A bundle")->type_name("DIR");
  add_json_option(*list, o->json);
  list->callback([o] { run_list(*o); });
  set_example(*list, "fp4sim golden list golden");

  CLI::App* check = app.add_subcommand("check", "Recompute a bundle and compare every byte; exit 1 on a difference");
  check->add_option("DIR", o->dir, "A bundle")->required()->type_name("DIR");
  add_backend_options(*check, o->backend);
  add_json_option(*check, o->json);
  check->callback([o, &invocation] { run_check(*o, invocation); });
  set_example(*check, "fp4sim golden check golden");

  CLI::App* stream =
      app.add_subcommand("stream", "The suite as lines of hex text, to judge an implementation through a pipe");
  stream->add_option("--suite", o->suite, "smoke (default), standard or stress")->type_name("NAME");
  stream->add_flag("--questions", o->questions, "Inputs and random words only");
  stream->add_option("--judge", o->judge, "Read answers (case=NAME codes=HEX,..) from FILE or - and compare")
      ->type_name("FILE");
  add_backend_options(*stream, o->backend);
  stream->callback([o, &invocation] { run_stream(*o, invocation); });
  set_example(*stream, "fp4sim golden stream --questions | ./my_kernel | fp4sim golden stream --judge -");
  set_example(app, "fp4sim golden make --suite smoke --out golden");
}

}  // namespace

Command command_golden() { return {"golden", "Make, list and check bundles of exact answers", add_golden}; }

}  // namespace fp4::tools
