// Does every reader of JSON files answer every fault with the one Error that names the file and the place in it? Each
// shipped file is changed at each path to a value of each JSON type; the reader accepts the change or throws Error with
// exit code 2 whose message starts with the file and names the key. No other exception may come out.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "sim/rules/recipe.h"
#include "tests/json_readers.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::test;
using Catch::Contains;

namespace {

const std::vector<Json>& mutants() {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           -1,
                                           0,
                                           1.5,
                                           4e9,
                                           1e300,
                                           UINT64_MAX,
                                           "",
                                           "no_such_word",
                                           "\x1b[31m\n",
                                           Json::array(),
                                           Json::array({nullptr}),
                                           Json::array({{{"x", 1}}}),
                                           Json::object(),
                                           {{"no_such_key", 1}}};
  return values;
}

// Paths of all values below `value`. Of a list's entries the first two and the last stand for those between them.
void collect(const Json& value, const Json::json_pointer& at, std::vector<Json::json_pointer>& paths) {
  paths.push_back(at);
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      if (i < 2 || i + 1 == value.size()) collect(value[i], at / i, paths);
  } else if (value.is_object()) {
    for (const auto& [key, entry] : value.items()) collect(entry, at / key, paths);
  }
}

// The last two keys of a path: messages about `board_w.value` may only say `board_w`. Numbers of lists are none, nor
// are
// "*" and "all", which stand for other names.
std::vector<std::string> keys_of(Json::json_pointer path) {
  std::vector<std::string> keys;
  for (; !path.empty() && keys.size() < 2; path.pop_back()) {
    const std::string& last = path.back();
    const bool is_name = last.find_first_not_of("0123456789") != std::string::npos && last != "*" && last != "all";
    if (is_name) keys.push_back(last);
  }
  return keys;
}

// Grids with one task and at most three values an axis: every value of an axis is tried with the trainer's schema for
// each task, and what is read does not depend on how many stand beside it.
Json shortened(Json grid) {
  if (grid["task"].is_array()) grid["task"] = Json::array({grid["task"][0]});
  const std::string task = grid["task"].is_string() ? grid["task"] : grid["task"][0];
  for (auto entry = grid.begin(); entry != grid.end();) {
    const bool is_foreign = entry.key().starts_with("train.") && entry.key() != "train." + task;
    entry = is_foreign ? grid.erase(entry) : std::next(entry);
  }
  if (grid.contains("race"))
    for (Json& by_task : grid["race"])
      if (by_task.is_object()) by_task = by_task.contains(task) ? Json{{task, by_task[task]}} : Json::object();
  for (auto axis = grid["axes"].begin(); axis != grid["axes"].end();) {
    const std::string& path = axis.key();
    const bool is_foreign =
        path.starts_with("task.") && !path.starts_with("task.*") && !path.starts_with("task." + task + ".");
    axis = is_foreign ? grid["axes"].erase(axis) : std::next(axis);
  }
  for (auto& [path, values] : grid["axes"].items())
    while (values.size() > 3) values.erase(2);
  grid.erase("exclude");  // tried by hand below: its values are those of the axes
  for (Json& point : grid.contains("include") ? grid["include"] : Json::array())
    if (point.contains("task")) point["task"] = task;
  return grid;
}

struct Tally {
  size_t tried = 0, refused = 0;
};

void check_mutant(const NamedReader& reader, const Json& content, const std::vector<std::string>& keys, Tally& tally) {
  const std::string place = reader.name + " x.json", text = content.dump();
  ++tally.tried;
  try {
    reader.read(text, place);
  } catch (const Error& error) {
    ++tally.refused;
    const std::string message = error.what();
    const auto names = [&](const std::string& key) { return message.find(key) != std::string::npos; };
    const bool is_named =
        message.starts_with(place + ": ") && (keys.empty() || std::any_of(keys.begin(), keys.end(), names));
    const bool is_clean = message.find_first_of("\n\x1b") == std::string::npos &&
                          message.find("json.exception") == std::string::npos && message.size() < 4000;
    if (error.kind == fp4::Error::bad_input && is_named && is_clean) return;
    UNSCOPED_INFO(text.substr(0, 2000));
    UNSCOPED_INFO("exit code " << error.kind << ": " << message);
    CHECK(false);
  } catch (const std::exception& other) {
    UNSCOPED_INFO(text.substr(0, 2000));
    UNSCOPED_INFO(other.what());
    CHECK(false);
  }
}

void mutate(const NamedReader& reader, const Json& content, uint32_t one_in, std::set<std::string>& seen,
            Tally& tally) {
  std::vector<Json::json_pointer> paths;
  collect(content, Json::json_pointer(), paths);
  for (const Json::json_pointer& path : paths) {
    // Grids repeat one another: a key of one type with one value's type once.
    const bool is_grid = reader.name == "grid";
    if (is_grid && !seen.insert(path.to_string() + content[path].type_name()).second) continue;
    for (const Json& mutant : mutants()) {
      if (!test::next_case_runs(one_in)) continue;
      Json changed = content;
      changed[path] = mutant;
      check_mutant(reader, changed, keys_of(path), tally);
    }
    if (!content[path].is_object() || !test::next_case_runs(one_in)) continue;
    Json surplus = content;
    surplus[path]["no_such_key"] = 1;
    check_mutant(reader, surplus, {"no_such_key"}, tally);
  }
}

std::string error_of(const NamedReader& reader, const std::string& text) {
  try {
    reader.read(text, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const NamedReader& reader_of(const std::string& name) {
  for (const NamedReader& reader : json_readers())
    if (reader.name == name) return reader;
  throw std::runtime_error("no reader of " + name);
}

std::string grid_error(const std::string& rest) {
  return error_of(reader_of("grid"), R"({"name": "g", "task": "lm", "base": "mxfp4", )" + rest + "}");
}

}  // namespace

TEST_CASE("every shipped file is read, and every change of one value is accepted or refused by name", "[quick]") {
  for (const NamedReader& reader : json_readers()) {
    INFO(reader.name);
    Tally tally;
    std::set<std::string> seen;
    const std::vector<JsonFile> files = reader.files();
    REQUIRE_FALSE(files.empty());
    for (const JsonFile& file : files) {
      if (&file != &files.front() && !test::next_case_runs()) continue;
      INFO(file.name);
      CHECK_NOTHROW(reader.read(file.content.dump(), reader.name + " " + file.name));
      const uint32_t one_in = &file == &files.front() ? test::large_share() : test::large_share() / test::share();
      mutate(reader, reader.name == "grid" ? shortened(file.content) : file.content, one_in, seen, tally);
    }
    if (test::share() == 1) CHECK(tally.tried * test::large_share() > 15 * files.size());
    if (tally.tried >= 200) CHECK(tally.refused * 2 > tally.tried);  // few say little
  }
}

TEST_CASE("a key that stands twice is refused with its path", "[quick]") {
  for (const NamedReader& reader : json_readers())
    CHECK_THAT(error_of(reader, R"({"name": "g", "name": "h"})"), Contains("x.json: name: the key stands twice"));
  CHECK_THAT(error_of(reader_of("grid"), R"({"axes": {"recipe": [{"all": 1}, {"a": {"b": 1, "b": 2}}]}})"),
             Contains("x.json: axes.recipe[1].a.b: the key stands twice"));
}

TEST_CASE("nesting has a limit in every reader", "[quick]") {
  for (const NamedReader& reader : json_readers())
    for (const char* open : {"[", "{\"a\":"}) {
      std::string text;
      for (int i = 0; i < 100'000; ++i) text += open;
      CHECK_THAT(error_of(reader, text), Contains("nested deeper than 64 levels"));
    }
}

TEST_CASE("what is not JSON is told with line and column, without the library's words", "[quick]") {
  for (const NamedReader& reader : json_readers()) {
    for (const char* text :
         {"", "{", "{\"name\": 1e999}", "{\"name\": nan}", "[1,]", "\"\x01\"", "\"\xff\"", "{} {}"}) {
      const std::string message = error_of(reader, text);
      INFO(message);
      CHECK(message.starts_with("x.json: "));
      CHECK(message.find("json.exception") == std::string::npos);
      CHECK(message.find_first_of("\x01\xff") == std::string::npos);
    }
    CHECK_THAT(error_of(reader, "{\n\"name\" 3}"), Contains("line 2"));
    CHECK_THAT(error_of(reader, "{\"name\": 1e999}"), Contains("x.json: name: ") && Contains("1e999"));
  }
}

TEST_CASE("numbers that do not fit their type are refused, and ranges are told in short numbers", "[quick]") {
  const Json value = UINT64_MAX;
  const JsonReader reader(value, "x.json");
  CHECK_THROWS_WITH(reader.integer(0, INT64_MAX),
                    "x.json: 18446744073709551615 is out of range; accepted: from 0 to 2^63 - 1");
  CHECK_THROWS_WITH(reader.number(tiny, 1), Contains("accepted: above 0, up to 1"));
  const Json whole = 128.0, negative = -0.5, large = 1e19;
  CHECK(JsonReader(whole, "x").integer(0, 200) == 128);
  CHECK_THROWS_WITH(JsonReader(negative, "x").integer(-1, 1), Contains("whole number"));
  CHECK_THROWS_WITH(JsonReader(large, "x").integer(0, INT64_MAX), Contains("out of range"));
  CHECK_THROWS_WITH(JsonReader(negative, "x").number(tiny), "x: -0.5 is out of range; accepted: above 0");
  CHECK(range_text(1, 0x1p40) == "from 1 to 2^40");
  CHECK(range_text(-huge, 1) == "up to 1");
}

TEST_CASE("grids: seeds have a limit, names stay in the folder, rules name what exists", "[quick]") {
  CHECK(grid_error(R"("seeds": 4)") == "accepted");
  CHECK_THAT(grid_error(R"("seeds": 4e9)"), Contains("x.json: seeds: ") && Contains("from 1 to 100000"));
  CHECK_THAT(grid_error(R"("seeds": 4000000000)"), Contains("x.json: seeds: "));
  CHECK_THAT(grid_error(R"("seeds": [1, 2, 1])"), Contains("x.json: seeds[2]: a seed twice"));
  for (const char* name : {"../up", "a/b", "", "..", ".hidden", "-option", "a\\nb", "a b", "\\u001b[2J"})
    CHECK_THAT(error_of(reader_of("grid"), std::string(R"({"task": "lm", "name": ")") + name + "\"}"),
               Contains("x.json: name: a grid's name is a word"));
  CHECK_THAT(grid_error(R"("exclude": [{"task": "classifier"}])"),
             Contains("exclude[0].task") && Contains("'classifier'"));
  CHECK_THAT(grid_error(R"("axes": {"wgrad.block": [16, [32, 32]]}, "exclude": [{"wgrad.block": [16, 64]}])"),
             Contains("exclude[0].wgrad.block") && Contains("'64'"));
  CHECK(grid_error(R"("axes": {"wgrad.block": [16, [32, 32]]}, "exclude": [{"wgrad.block": [[32, 32], 16]}])") ==
        "accepted");
  std::string axes;
  for (int i = 0; i < 65; ++i)
    axes += (i == 0 ? "\"" : ", \"") + std::string(i % 2 == 0 ? "train." : "wgrad.") + std::to_string(i) + "\": [0, 1]";
  CHECK_THAT(grid_error("\"axes\": {" + axes + "}"), Contains("more than 20 million points"));  // 2^65 wraps to 0
}

TEST_CASE("a known word in the wrong form is not suggested as its own correction", "[quick]") {
  CHECK_THAT(grid_error(R"("explore": "importance")"),
             Contains("x.json: explore: 'importance' needs its number") && !Contains("did you mean"));
  CHECK_THAT(grid_error(R"("explore": {"imprtance": 3})"), Contains("importance"));
  CHECK_THAT(error_of(reader_of("recipe"), R"({"layers": "skip_last"})"),
             Contains("x.json: layers: expected a list of rules or one of") && !Contains("did you mean"));
  CHECK_THAT(error_of(reader_of("recipe"), R"({"dgrad": {"b": {"source": "fprop_quantized"}}})"),
             Contains("x.json: dgrad.b.source: unknown word 'fprop_quantized'; did you mean 'fprop_quantised'"));
  CHECK(nearest_word("importance", {"all", "importance"}).empty());
}

TEST_CASE("files that cannot be read are told from files that are wrong", "[quick]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder.json");
  REQUIRE(run_shell("mkfifo " + folder / "pipe.json").exit_code == 0);
  std::ofstream(folder / "empty.json").close();
  CHECK_THROWS_WITH(read_text_file(folder / "absent.json", "recipe"), Contains("there is no such file"));
  CHECK_THROWS_WITH(read_text_file(folder / "folder.json", "recipe"), Contains("not a regular file"));
  CHECK_THROWS_WITH(read_text_file(folder / "pipe.json", "recipe"), Contains("not a regular file"));  // it would hang
  CHECK(read_text_file(folder / "empty.json", "recipe").text.empty());
  // A recipe that starts from itself.
  const std::string self = folder / "self.json";
  write_text(self, "{\"base\": \"" + self + "\"}");
  CHECK_THROWS_WITH(sim::recipe_from_json(self), Contains(self + ": more than 16 recipes"));
  // Errors of a file that another one names point at the file they are in.
  write_text(folder / "inner.json", R"({"wgrad": {"*": {"rounding": "stochstic"}}})");
  write_text(folder / "outer.json", "{\"base\": \"" + folder / "inner.json" + "\"}");
  CHECK_THROWS_WITH(sim::recipe_from_json(folder / "outer.json"),
                    Contains("inner.json: wgrad.*.rounding: unknown word 'stochstic'; did you mean 'stochastic'"));
}

TEST_CASE("every command answers a damaged file with its path and exit code 2", "[cli]") {
  const TemporaryFolder folder;
  const std::string bad = folder / "bad.json";
  const auto refused = [&](const std::string& content, const std::string& command, const std::string& path) {
    write_text(bad, content);
    const RunResult result = run_cli(command);
    INFO(command << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("bad.json: " + path));
    CHECK(result.err.find("json.exception") == std::string::npos);
  };
  REQUIRE(run_cli("golden make --suite smoke --out " + folder / "golden").exit_code == 0);
  const std::string tensor = run_shell("ls " + folder / "golden" + "/*/input.npy | head -1").out;
  const std::string input = tensor.substr(0, tensor.find('\n'));
  refused(R"({"axes": [1], "name": "g", "task": "lm"})", "sweep run " + bad + " --dry-run", "axes: expected an object");
  refused(R"({"name": "../g", "task": "lm"})", "sweep run " + bad, "name: a grid's name");
  refused(R"({"name": "g", "task": "lm", "hardware": "mi355"})", "sweep run " + bad + " --dry-run", "hardware");
  refused(R"({"wgrad": {"a": {"rounding": 3}}})", "train --task lm --recipe " + bad, "wgrad.a.rounding: unknown word");
  refused(R"({"wgrad": {"a": {"rounding": 3}}})", "cost --recipe " + bad, "wgrad.a.rounding: unknown word");
  refused(R"({"name": 3})", "cost --recipe mxfp4 --hardware " + bad, "name: expected text");
  refused(R"({"name": 3})", "cost --recipe mxfp4 --model " + bad, "name: expected text");
  refused(R"({"sr": "x"})", "cost --recipe mxfp4 --weight " + bad, "sr: expected a number");
  refused(R"({"block": {}})", "quantize " + input + " --spec " + bad + " --out " + folder / "q",
          "block: unknown block");
  refused(R"({"fprop": {}})", "quantize " + input + " --spec " + bad + " --out " + folder / "q", "this is a recipe");
  refused(R"({"kind": "group", "group": -1})",
          "gemm " + input + " " + input + " --spec mxfp4 --accumulator " + bad + " --out " + folder / "c.npy",
          "group:");
  CHECK_FALSE(std::filesystem::exists(folder / "q"));
  REQUIRE(run_cli("quantize " + input + " --spec mxfp4 --out " + folder / "q").exit_code == 0);
  const auto manifest = [&](const std::string& content, const std::string& path) {
    write_text(folder / "q/manifest.json", content);
    const RunResult result = run_cli("dequantize " + folder / "q" + " --out " + folder / "back.npy");
    INFO(content << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("q/manifest.json: " + path));
    CHECK(result.err.find("json.exception") == std::string::npos);
  };
  const std::string spec = R"({"spec": {"preset": "mxfp4"}, "files": )";
  manifest(R"({"spec": {"element": 4}})", "spec.element: expected an element's name");
  manifest(spec + R"({"dequantized.npy": {"shape": [8, -1]}}})", "files.dequantized.npy.shape[1]: -1 is out of range");
  manifest(spec + R"({"dequantized.npy": {"shape": 3}}})", "files.dequantized.npy.shape: expected a list");
  manifest(spec + R"({}})", "files: missing key 'dequantized.npy'");
  CHECK_FALSE(std::filesystem::exists(folder / "c.npy"));
}

TEST_CASE("--set: a name with two meanings asks which, numbers and nesting are checked", "[cli]") {
  const auto layers = run_cli("train --task lm --steps 1 --quiet --set layers=3");
  CHECK(layers.exit_code == 2);
  CHECK_THAT(layers.err, Contains("two fields have this name; write recipe.layers or task.layers"));
  CHECK(run_cli("train --task lm --steps 1 --quiet --set task.layers=1").exit_code == 0);
  CHECK(run_cli("train --task classifier --steps 1 --quiet --set 'layers={\"skip_last\": 1}'").exit_code == 0);
  for (const char* words :
       {"block=99999999999999999999x1", "wgrad.block=99999999999999999999x1",
        "wgrad=3 --set wgrad.a.rounding=stochastic", "outliers=3 --set outliers.token=1", "lr=1e999", "lr=nan",
        "batch=18446744073709551615", "lr=1e-400x", "'wgrad={\"a\":{\"block\":16,\"block\":32}}'"}) {
    const auto result = run_cli(std::string("train --task lm --steps 1 --quiet --set ") + words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("json.exception") == std::string::npos);
  }
}
