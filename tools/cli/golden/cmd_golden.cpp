// `fp4sim golden make|list|check|pack|stream`: bundles of inputs and exact answers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "src/files/output.h"
#include "src/golden/bundle.h"
#include "src/golden/candidate.h"
#include "src/text/byte_source.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "tools/cli/glossary.h"
#include "tools/cli/golden/own_case.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"
#include "tools/cli/usage.h"

namespace fp4 {

std::span<const EmbeddedFile> rtl_data();  // package, scoreboard and testbench in SystemVerilog

}  // namespace fp4

namespace fp4::tools {
namespace {

struct GoldenOptions {
  std::string suite, out, dir, judge, as = "npy";
  OwnCase own;
  bool force = false, json = false, questions = false;
  BackendOptions backend;
};

// A case is a few milliseconds to a minute: lines begin after two seconds.
golden::CaseProgress progress_line(ProgressLine& line) {
  return [&line](size_t done, size_t all) {
    line.update({.done = static_cast<double>(done),
                 .all = static_cast<double>(all),
                 .count = fmt::format("case {}/{}", done, all),
                 .more = {}});
  };
}
std::string cases_per_second(double rate) { return fmt::format("{:.2g} cases/s", rate); }

void run_make(const GoldenOptions& o, const CLI::App& make) {
  if (o.suite.empty() == !o.own.is_said())
    throw Error("golden make: say either --suite NAME or, for a case of your own, --spec SPEC --shape MxK or MxNxK");
  if (!o.own.is_said())
    refuse_options(make,
                   {"--shape", "--input", "--input-b", "--accumulators", "--sparse", "--seed", "--stream", "--step"},
                   "--spec; the cases of a suite are fixed");
  auto cases =
      o.own.is_said() ? std::vector<golden::Case>{own_case("golden make", o.own)} : golden::suite_cases(o.suite);
  for (golden::Case& c : cases) c.input_type = input_type("golden make", o.own.type);
  const std::string suite = o.own.is_said() ? "own" : o.suite;
  {
    ProgressLine line(o.json, cases_per_second, 2);
    golden::write_bundle(suite, cases, o.out, o.force, o.backend.backend, o.backend.thread_count(), progress_line(line),
                         o.as == "readmemh");
  }
  for (const EmbeddedFile& f : o.as == "readmemh" ? rtl_data() : std::span<const EmbeddedFile>{})
    write_file(std::filesystem::path(o.out) / f.path, f.content, o.force);
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(o.out)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  if (o.json) return print_json({{"suite", suite}, {"out", o.out}, {"cases", cases.size()}, {"bytes", bytes}});
  print_fields({{"suite", suite},
                {"folder", o.out},
                {"cases", fmt::format("{}", cases.size())},
                {"size", fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6)}});
}

void run_list(const GoldenOptions& o) {
  Table table;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (o.dir.empty()) {
    table.columns = {"suite", ">cases", "what"};
    for (const golden::SuiteInfo& s : golden::suite_table) {
      const auto cases = golden::suite_cases(s.name).size();
      table.rows.push_back({s.name, fmt::format("{}", cases), s.doc});
      rows.push_back({{"name", s.name}, {"doc", s.doc}, {"cases", cases}});
    }
  } else {
    table.columns = {"case", "kind", "spec", ">shape", ">told apart"};
    for (const golden::Case& c : golden::open_bundle(o.dir).cases) {
      const std::string shape =
          c.is_gemm ? fmt::format("{}x{}x{}", c.rows, c.rows_b, c.cols) : fmt::format("{}x{}", c.rows, c.cols);
      const char* kind = c.is_gemm ? "gemm" : "quantize";
      const auto told =
          std::count_if(c.told_apart.begin(), c.told_apart.end(), [](const auto& a) { return a.second > 0; });
      table.rows.push_back({c.name, kind, c.words, shape,
                            c.told_apart.empty() ? "" : fmt::format("{} of {}", told, c.told_apart.size())});
      rows.push_back(
          {{"name", c.name}, {"kind", kind}, {"spec", c.words}, {"shape", shape}, {"told_apart", c.told_apart}});
    }
  }
  if (o.json) return print_json({{"rows", rows}});
  print_table(table);
}

// What a forced backend left out; where it left out all, nothing was compared.
void say_declined(const GoldenOptions& o, const std::vector<std::string>& declined) {
  std::string text;
  for (size_t i = 0; i < declined.size() && i < 8; ++i) add_word(text, declined[i]);
  if (!declined.empty())
    say("fp4sim: {} declined {} arrays, which are not compared: {}{}\n", o.backend.backend, declined.size(), text,
        declined.size() > 8 ? fmt::format(" and {} more", declined.size() - 8) : "");
}

void run_check(const GoldenOptions& o, Invocation& invocation) {
  const golden::Bundle bundle = golden::open_bundle(o.dir);
  ProgressLine line(o.json, cases_per_second, 2);
  std::vector<std::string> declined;
  const auto differences =
      golden::check_bundle(bundle, o.backend.backend, o.backend.thread_count(), progress_line(line), &declined);
  line.finish();
  say_declined(o, declined);
  if (!differences.empty()) invocation.exit_code = 1;
  if (o.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& d : differences) list.push_back({{"file", d.file}, {"what", d.what}});
    return print_json({{"equal", differences.empty()},
                       {"cases", bundle.cases.size()},
                       {"declined", declined},
                       {"differences", list}});
  }
  if (differences.empty()) {
    fmt::print(
        "equal: {} cases, every byte{}\n", bundle.cases.size(),
        declined.empty() ? "" : fmt::format(" but of {} arrays that {} declined", declined.size(), o.backend.backend));
    return;
  }
  Table table = {{"file", "what"}, {}};
  for (size_t i = 0; i < differences.size() && i < 20; ++i)
    table.rows.push_back({differences[i].file, differences[i].what});
  print_table(table);
  if (differences.size() > 20) fmt::print("and {} more\n", differences.size() - 20);
}

using Fields = std::map<std::string, std::string>;
Fields fields_of(const std::string& line, const std::string& place) {
  Fields out;
  std::istringstream in(line);
  std::string word;
  while (in >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) throw Error(fmt::format("{}: '{}' is not key=value", place, word.substr(0, 60)));
    const std::string key = word.substr(0, equals);
    if (!out.emplace(key, word.substr(equals + 1)).second)
      throw Error(fmt::format("{}: {} is given twice", place, key.substr(0, 60)));
  }
  return out;
}

// Whether a field of a line is an answer; the others are of the question.
bool is_answer(const std::string& key) {
  const std::string stage = golden::parse_array_name(key).stage;
  return !stage.empty() && stage != golden::input_stage;
}

// Numbers in hex behind commas without what does not count: "0A,0x07" and "a,7" are the same.
std::string plain_hex(const std::string& numbers) {
  std::string out;
  std::istringstream in(numbers);
  std::string number;
  while (std::getline(in, number, ',')) {
    number = lower_case(number);
    if (number.starts_with("0x")) number.erase(0, 2);
    const size_t first = number.find_first_not_of('0');
    out += (first == std::string::npos ? (number.empty() ? "" : "0") : number.substr(first)) + ',';
  }
  return out;
}

// The suite's case that a line of answers is of.
size_t case_of(const golden::Bundle& suite, const Fields& line, const std::string& place) {
  const auto name = line.find("case");
  if (name == line.end()) throw Error(place + ": no case=NAME");
  for (size_t i = 0; i < suite.cases.size(); ++i)
    if (suite.cases[i].name == name->second) return i;
  throw Error(fmt::format("{}: the suite has no case '{}'; `fp4sim golden stream --questions` prints its cases", place,
                          name->second.substr(0, 60)));
}

// Answers as `case=NAME codes=HEX,.. scales=HEX,..` lines, in any order; every array named is compared. What a line
// repeats of the question must be the question's, and counts as no answer.
void judge_stream(const GoldenOptions& o, Invocation& invocation) {
  golden::Bundle suite;
  suite.cases = golden::suite_cases(o.suite.empty() ? "smoke" : o.suite);
  std::vector<Fields> expected;
  std::vector<std::string> declined;
  for (golden::Case& c : suite.cases) {
    expected.push_back(fields_of(golden::stream_line(c, o.backend.backend, o.backend.thread_count(), true, &declined),
                                 "golden stream"));
    for (const auto& [key, value] : expected.back())
      if (is_answer(key)) c.stored[key] = {};
  }
  std::istringstream file;
  if (o.judge != "-") file.str(at_place("golden stream --judge", [&] { return read_file(o.judge); }));
  std::istream& in = o.judge == "-" ? std::cin : file;
  std::vector<bool> is_given(suite.cases.size());
  std::vector<golden::CandidateArray> answers;
  std::vector<std::string> differences;
  size_t wrong = 0, number = 0;
  std::string line;
  while (std::getline(in, line)) {
    const std::string place = fmt::format("golden stream --judge {}: line {}", o.judge, ++number);
    const Fields got = fields_of(line, place);
    if (got.empty()) continue;
    const size_t which = case_of(suite, got, place);
    const golden::Case& c = suite.cases[which];
    if (is_given[which]) throw Error(fmt::format("{}: case {} is given twice", place, c.name));
    is_given[which] = true;
    for (const auto& [key, value] : got) {
      const auto want = expected[which].find(key);
      if (want == expected[which].end() && !declined.empty() && is_answer(key)) continue;
      if (want == expected[which].end()) {
        std::vector<std::string> accepted;
        for (const auto& [name, record] : c.stored) accepted.push_back(name);
        throw unknown_word(fmt::format("{}: case {}", place, c.name), key, accepted);
      }
      const bool answers_it = c.stored.contains(key);
      const bool differs = answers_it ? plain_hex(want->second) != plain_hex(value) : want->second != value;
      if (answers_it) {
        answers.push_back({which, golden::parse_array_name(key).stage, key, "", {}});
        wrong += differs ? 1 : 0;
      }
      if (differs)
        differences.push_back(fmt::format("{} {}: {}", c.name, key, answers_it ? "differs" : "is not the question's"));
    }
  }
  say_declined(o, declined);
  if (answers.empty())
    throw Error("golden stream --judge: no answers on the input; expected lines case=NAME codes=HEX,..");
  for (size_t i = 0; i < differences.size() && i < 20; ++i) fmt::print("{}\n", differences[i]);
  if (differences.size() > 20) fmt::print("and {} more\n", differences.size() - 20);
  const golden::Coverage coverage = golden::coverage_of(suite, answers);
  if (!coverage.missing.empty()) print_wrapped("not answered: " + golden::missing_text(coverage));
  fmt::print("{} of {} arrays equal; judged {} of {} cases{}\n", answers.size() - wrong, answers.size(),
             coverage.judged, coverage.cases, differences.size() > wrong ? "; question fields differ" : "");
  if (!differences.empty()) invocation.exit_code = 1;
}

void run_stream(const GoldenOptions& o, Invocation& invocation) {
  if (!o.judge.empty()) return judge_stream(o, invocation);
  std::vector<std::string> declined;
  for (const golden::Case& c : golden::suite_cases(o.suite.empty() ? "smoke" : o.suite))
    fmt::print("{}\n", golden::stream_line(c, o.backend.backend, o.backend.thread_count(), !o.questions, &declined));
  say_declined(o, declined);
}

void run_pack(const GoldenOptions& o) {
  const golden::PackSize size = golden::write_pack(o.out, o.force, o.backend.backend, o.backend.thread_count());
  if (o.json) return print_json({{"out", o.out}, {"files", size.files}, {"bytes", size.bytes}});
  print_fields({{"folder", o.out},
                {"files", grouped(size.files)},
                {"size", fmt::format("{:.1f} MB", static_cast<double>(size.bytes) / 1e6)}});
}

}  // namespace

// long: one table of options
void command_golden(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<GoldenOptions>();
  app.require_subcommand(1);
  CLI::App* make = app.add_subcommand("make", "Write a bundle");
  option(*make, "--suite SUITE", o->suite, "smoke, standard or stress");
  add_own_case_options(*make, o->own);
  option(*make, "--shape SHAPE", o->own.shape, "Of that case: MxK (a quantisation) or MxNxK (a product)");
  option(*make, "--input KIND|FILE", o->own.input,
         "boundary (default), gaussian, heavy_tailed, subnormal, special, spread or cancelling (products), or a file");
  option(*make, "--accumulators NAME", o->own.accumulators, "Of the product (default: all that have a name)")
      ->delimiter(',');
  option(*make, "--sparse N:M", o->own.sparse, "A of the product is sparse by magnitude: 2:4, or 4:8 in pairs");
  option(*make, "-o,--out DIR", o->out, "Folder to make")->required();
  option(*make, "--as npy|readmemh", o->as,
         "npy (default), or readmemh: beside the arrays words in hexadecimal for a simulator, of a product")
      ->check(CLI::IsMember({"npy", "readmemh"}));
  add_backend_options(*make, o->backend);
  add_force_option(*make, o->force);
  add_sync_option(*make);
  add_json_option(*make, o->json);
  make->callback([o, make] { run_make(*o, *make); });
  set_example(*make,
              "fp4sim golden make --suite standard --out golden\n"
              "  fp4sim golden make --spec nvfp4,rounding=stochastic --shape 64x256 --input-type bf16 --out mine\n"
              "  fp4sim golden make --spec mxfp4 --shape 16x8x512 --accumulators k64_rz,fused35_rz --out adders");

  CLI::App* list = app.add_subcommand("list", "List the suites, or the cases of a bundle");
  option(*list, "DIR DIR", o->dir, "A bundle");
  add_json_option(*list, o->json);
  list->callback([o] { run_list(*o); });
  set_example(*list, "fp4sim golden list golden");

  CLI::App* check = app.add_subcommand("check", "Recompute a bundle and compare every byte; exit 1 on a difference");
  option(*check, "DIR DIR", o->dir, "A bundle")->required();
  add_backend_options(*check, o->backend);
  add_json_option(*check, o->json);
  check->callback([o, &invocation] { run_check(*o, invocation); });
  set_example(*check, "fp4sim golden check golden");

  CLI::App* pack = app.add_subcommand(
      "pack", "Write what every preset, adder, packing, layout and format does, for tests without this program");
  option(*pack, "OUT DIR", o->out, "Folder to make")->required();
  add_backend_options(*pack, o->backend);
  add_force_option(*pack, o->force);
  add_sync_option(*pack);
  add_json_option(*pack, o->json);
  pack->callback([o] { run_pack(*o); });
  set_example(*pack, "fp4sim golden pack conformance");

  CLI::App* stream =
      app.add_subcommand("stream", "The suite as lines of hex text, to judge an implementation through a pipe");
  option(*stream, "--suite SUITE", o->suite, "smoke (default), standard or stress");
  stream->add_flag("--questions", o->questions, "Inputs and random words only");
  stream
      ->add_option("--judge", o->judge,
                   "Read answers (case=NAME codes=HEX,..) from FILE or - and compare; exit 1 on a difference")
      ->type_name("FILE");
  add_backend_options(*stream, o->backend);
  stream->callback([o, &invocation] { run_stream(*o, invocation); });
  set_example(*stream, "fp4sim golden stream --questions | ./my_kernel | fp4sim golden stream --judge -");
  set_example(app, "fp4sim golden make --suite smoke --out golden");
}

}  // namespace fp4::tools
