// Is the reference of all fields true? Every field says what it means; pages are what the program prints;
// a validator that is not ours accepts every shipped file and whatever our readers accept of files changed at each
// path, and refuses keys that nobody knows.
#include <catch2/catch.hpp>
#include <fstream>

#include "sim/rules/recipe.h"  // with FP4_TEST_SRC_ONLY this is no test of src alone
#include "tests/json_readers.h"
#include "tests/support/share.h"
#include "tests/support/support.h"
#include "tools/cli/reference.h"

using namespace fp4;
using namespace fp4::test;
using namespace fp4::tools;
using Catch::Contains;

namespace {

bool is_accepted(const NamedReader& reader, const Json& content) {
  try {
    reader.read(content.dump(), "x.json");
  } catch (const Error&) {
    return false;
  }
  return true;
}

void collect(const Json& value, const Json::json_pointer& at, std::vector<Json::json_pointer>& paths) {
  paths.push_back(at);
  if (value.is_array() && !value.empty()) collect(value[0], at / 0, paths);
  if (value.is_object())
    for (const auto& [key, entry] : value.items()) collect(entry, at / key, paths);
}

// What a person might write in place of a value: other types, both sides of 0 and 1, and words.
const Json replacements[] = {true,
                             -1,
                             0,
                             1,
                             0.5,
                             16,
                             1e6,
                             "",
                             "32x32",
                             "stochastic",
                             "mxfp4",
                             "lm",
                             Json::array(),
                             Json::array({1, 2}),
                             Json::array({32, 32}),
                             Json::array({"lm"}),
                             Json::object(),
                             {{"label", "x"}},
                             {{"no_such_key", 1}}};

class Judge {
 public:
  void add_schema(const std::string& kind, const Json& schema) {
    lines_ << Json{kind, "schema", schema, true}.dump() << "\n";
  }
  void add(const std::string& kind, const std::string& name, const Json& content, bool accepted) {
    lines_ << Json{kind, name, content, accepted}.dump() << "\n";
  }
  std::string verdict() {
    write_text(folder_ / "documents.jsonl", lines_.str());
    const RunResult result =
        run_shell("\"$FP4SIM_PYTHON\" tests/validate_schemas.py '" + folder_ / "documents.jsonl" + "'");
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return result.out;
  }

 private:
  TemporaryFolder folder_;
  std::ostringstream lines_;
};

// Null for a configuration, which is no file.
const ReferenceKind* file_kind(const std::string& name) {
  for (const ReferenceKind& kind : reference_kinds())
    if (kind.name == name && kind.is_file) return &kind;
  return nullptr;
}

// A grid small enough that each of its changes is tried with the trainer's schema in a moment.
const char* const small_grid = R"({"name": "g", "doc": "d", "task": ["classifier", "lm"], "seeds": [1, 2],
  "base": "mxfp4", "references": ["bf16"], "hardware": "mi355x", "model": "lm", "candidates": 5, "train": {"lr": 0.01},
  "train.lm": {"steps": 3}, "explore": {"importance": 5},
  "axes": {"recipe": ["mxfp4", {"label": "l", "all": {"a": {"block": 16}}}], "wgrad": [{"label": "a"}, "bf16.wgrad"],
           "wgrad.hadamard": [{"label": "none", "size": 0}], "dgrad|wgrad.*.rounding": ["stochastic"],
           "fprop.*.block": [16, [32, 32]], "train.clip": [0, 1], "task.*.outliers.token": [0, 0.5]},
  "exclude": [{"train.clip": 1, "fprop.*.block": [16]}], "include": [{"task": "lm", "train.clip": 2}]})";
const char* const raced_grid =
    R"({"name": "g", "task": "lm", "race": {"seeds": 20, "hours": 1, "share": 0.05, "delta": 0.1},
  "tune": {"train.lr": {"start": "default", "factor": 2, "rungs": 4, "finer": true, "judged": 2, "seeds": 3}}, "tune_best": 0.5})";

}  // namespace

TEST_CASE("every field of every kind of file says its meaning and its type", "[quick]") {
  CHECK(unexplained_fields() == std::vector<std::string>());
  size_t rows = 0;
  for (const ReferenceKind& kind : reference_kinds())
    for (const ReferenceSection& section : reference_sections(kind)) rows += section.rows.size();
  CHECK(rows > 200);  // 37 weights, 29 fields of an operand, 14 of the training, ..
}

TEST_CASE("pages in the tree are what the program prints", "[quick]") {
  INFO("tools/scripts/make_reference.sh writes them");
  for (const std::string& page : reference_pages()) CHECK(read_text(page + "/README.md") == reference_page(page));
}

TEST_CASE("another validator accepts what our readers accept and refuses unknown keys", "[quick]") {
  Judge judge;
  for (const NamedReader& reader : json_readers()) {
    const ReferenceKind* const kind = file_kind(reader.name);
    if (kind == nullptr) continue;
    judge.add_schema(reader.name, reference_schema(*kind));
    for (const JsonFile& file : reader.files()) judge.add(reader.name, file.name, file.content, true);
    std::vector<Json> samples = {reader.files().front().content};
    if (reader.name == "grid") samples = {Json::parse(small_grid), Json::parse(raced_grid)};
    for (const Json& sample : samples) {
      INFO(reader.name);
      REQUIRE(is_accepted(reader, sample));
      std::vector<Json::json_pointer> paths;
      collect(sample, Json::json_pointer(), paths);
      for (const Json::json_pointer& path : paths) {
        for (const Json& replacement : replacements) {
          if (path.empty() && !replacement.is_object()) continue;  // a name, which stands in no file
          if (!fp4::test::next_case_runs()) continue;
          Json changed = sample;
          changed[path] = replacement;
          judge.add(reader.name, path.to_string() + " = " + replacement.dump(), changed, is_accepted(reader, changed));
        }
        Json surplus = sample;
        if (!sample[path].is_object()) continue;
        surplus[path]["no_such_key"] = 1;
        const bool is_free = is_accepted(reader, surplus);
        const std::string where = path.to_string();
        const bool is_path =
            where.starts_with("/axes") || where.starts_with("/exclude") || where.starts_with("/include");
        judge.add(reader.name, (is_free || is_path ? "free " : "surplus ") + where, surplus, is_free);
      }
      Json with_schema = sample;
      with_schema["$schema"] = "../schema/" + reader.name + ".schema.json";
      CHECK(is_accepted(reader, with_schema));
      judge.add(reader.name, "$schema", with_schema, true);
    }
  }
  const std::string verdict = judge.verdict();
  INFO(verdict.substr(0, 6000));
  CHECK(verdict.starts_with("judged "));  // and no fault before it
  size_t judged = 0, refused = 0, caught = 0;
  REQUIRE(std::sscanf(verdict.c_str() + verdict.find("judged "), "judged %zu refused %zu caught %zu", &judged, &refused,
                      &caught) == 3);
  CHECK(judged * fp4::test::share() > 1500);
  if (fp4::test::share() == 1)
    CHECK(caught * 10 > refused * 7);  // the rest is what fields say together: idle_w above board_w
}

TEST_CASE("help explains commands and fields, and suggests what was meant", "[cli]") {
  const RunResult field = run_cli("help rounding");
  CHECK(field.exit_code == 0);
  CHECK_THAT(field.out, Contains("recipe: operand.rounding") && Contains("stochastic_truncated") &&
                            Contains("nearest, ties to the even code"));
  CHECK_THAT(run_cli("help train.lr").out, Contains("learning rate") && Contains("classifier"));
  CHECK_THAT(run_cli("help sweep run").out, Contains("Usage: fp4sim sweep run"));
  CHECK(run_cli("help wgrad.*.rounding").out == field.out);  // paths of files
  CHECK_THAT(run_cli("help tune.train.lr.rungs").out, Contains("grid: tune.PATH.rungs"));
  CHECK_THAT(run_cli("help task.classifier.width").out, Contains("of the hidden layers"));
  CHECK_THAT(run_cli("help quantise").out, Contains("Usage: fp4sim quantize") && Contains("recipe: quantise"));
  CHECK_THAT(run_cli("help service").out, Contains("members[].checkpoint"));
  CHECK_THAT(run_cli("help hardware").out, Contains("board_w") && Contains("memory_bandwidth"));
  CHECK_THAT(run_cli("help rounding_seeds").out, Contains("service: members[].rounding_seeds"));
  const RunResult wrong = run_cli("help roundng");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("'roundng'; did you mean 'rounding'") && Contains("a kind of file (recipe"));
  CHECK(wrong.err.size() < 600);
  CHECK_THAT(run_cli("help mfxp4").err, Contains("did you mean 'mxfp4'"));
  // A word of an axis or of several kinds, and the program as a whole.
  CHECK_THAT(run_cli("help rceil").out, Contains("scale-rules") && Contains("2^ceil(log2(a/M))"));
  CHECK_THAT(run_cli("help nvfp4").out, Contains("fp4sim show nvfp4 --kind recipe") && Contains("--kind preset"));
  CHECK_THAT(run_cli("help").out, Contains("Sweeps:") && Contains("pareto") && Contains("recipe, "));
  CHECK(run_cli("help rceil --json").exit_code == 0);
  CHECK(run_cli("help --schema nothing").exit_code == 2);
  for (const char* line : {"help recipe", "help grid", "help hardware", "help element"}) {
    std::istringstream out(run_cli(line).out);
    for (std::string text; std::getline(out, text);) CHECK(text.size() <= 100);
  }
  const Json json = Json::parse(run_cli("help rungs --json").out);
  CHECK(json.at("rows").at(0).at("default").get<int>() == 4);
}
