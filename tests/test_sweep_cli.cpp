// The real program: a sweep that is killed, stopped, cut into shards, run out of disk; and the files that scripts read.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/support/support.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::run_shell;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;
using Json = nlohmann::json;

namespace {

// 2 tasks x 8 distinct configurations x 3 seeds, references, and a race of ten seeds: some 200 runs of 10 ms. Most of a
// short run draws the examples and takes the loss of all that are held out: narrow networks, curves of one point.
const std::string grid = R"({"name": "small", "task": ["classifier", "regression"], "base": "mxfp4", "seeds": 3,
  "race": {"seeds": 10}, "train": {"steps": 20, "curve_points": 1}, "axes": {"task.*.width": [32],
  "wgrad.hadamard.size": [0, 16, 32],
  "wgrad.hadamard.signs": ["none", "per_step"], "wgrad.*.rounding": ["nearest_even", "stochastic"]},
  "exclude": [{"wgrad.hadamard.size": 32, "wgrad.*.rounding": "stochastic"}]})";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A CSV without its `seconds` column (no field of these tables holds a comma).
std::string without_seconds(const std::string& csv) {
  std::string out;
  size_t column = 0;
  for (const std::string& line : lines_of(csv)) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    if (out.empty()) column = static_cast<size_t>(std::find(fields.begin(), fields.end(), "seconds") - fields.begin());
    for (size_t i = 0; i < fields.size(); ++i) out += i == column ? "" : fields[i] + ",";
    out += "\n";
  }
  return out;
}

std::string table_of(const std::string& folder) {
  TemporaryFolder scratch;
  const auto result = run_cli("table " + folder + " --references --csv " + scratch / "table.csv");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return without_seconds(read_text(scratch / "table.csv"));
}

std::string sweep_command(const std::string& folder, const std::string& grid_file) {
  return "sweep run " + grid_file + " --out " + folder + " --quiet --jobs 2";
}

// One undisturbed sweep for all tests of this file.
struct Undisturbed {
  TemporaryFolder folder;
  std::string grid_file = folder / "grid.json";
  std::string out = folder / "out";
  std::string table;
  Undisturbed() {
    write_text(grid_file, grid);
    const auto result = run_cli(sweep_command(out, grid_file));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    table = table_of(out);
  }
};

const Undisturbed& undisturbed() {
  static const Undisturbed sweep;
  return sweep;
}

}  // namespace

TEST_CASE("killed with -9 at ten random moments, the table is the undisturbed one", "[cli]") {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  std::mt19937 engine(11);
  for (int kill = 0; kill < 10; ++kill) {
    // Between "still starting" and a third of the runs; ten such spans are longer than the sweep on a fast machine.
    const int milliseconds = 60 + static_cast<int>(engine() % 150);
    run_shell("timeout -s KILL " + std::to_string(milliseconds / 1000.0) + " " + fp4::test::fp4sim_path() + " " +
              sweep_command(out, undisturbed().grid_file));
  }
  const auto last = run_cli(sweep_command(out, undisturbed().grid_file));
  INFO(last.err);
  CHECK(last.exit_code == 0);
  CHECK(table_of(out) == undisturbed().table);
  CHECK(run_cli("sweep status " + out + " --complete").exit_code == 0);
}

TEST_CASE("a complete sweep is reported beside chips, another sweep and a study, and watched once", "[cli]") {
  TemporaryFolder folder;
  const std::string& out = undisturbed().out;
  const std::string page = folder / "page.html", effects = folder / "effects.csv";
  write_text(effects, "group,name,task,mean,low,high,delta\ng,n,classifier,0.1,0.05,0.2,0.01\n");
  const std::string command = "report " + out + " --chips h100,b200 --against " + out + " --effects " + effects;
  const auto written = run_cli(command + " --watch --every 1 --out " + page);
  if (written.exit_code == 1 && written.err.find("chart library") != std::string::npos) return;
  INFO(written.err);
  REQUIRE(written.exit_code == 0);
  const auto pages = lines_of(written.out);  // each followed by its answer
  const auto names_page = [&](const std::string& line) { return line.starts_with(page + ": "); };
  CHECK(std::count_if(pages.begin(), pages.end(), names_page) == 1);  // nothing runs any more
  CHECK(run_cli(command + " --out " + page).exit_code == 2);          // never over an existing file
  CHECK(run_cli("report " + out + " --chips b300 --out " + folder / "p.html").exit_code == 2);
  write_text(effects, "group,name\n");
  const auto refused = run_cli(command + " --out " + folder / "p.html");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("no column 'task'"));
  CHECK(!fs::exists(folder / "p.html"));
}

TEST_CASE("killed with -9 on both sides of a phase's mark and of a branch, runs go on to the same bits", "[cli]") {
  TemporaryFolder folder;
  const std::string file = folder / "grid.json";
  write_text(file, R"({"name": "late", "task": "classifier", "base": "mxfp4", "seeds": 1, "references": ["fp32"],
    "train": {"steps": 1200}, "axes": {"task.*.width": [32], "recipe": ["mxfp4_sr", {"label": "late", "phases": [{"until": 0.5},
    {"fprop": {"*": {"element": "e1m2"}}}]}]}, "branch": {"recipe": "bf16", "at": [0, 0.4]}})");
  const auto command = [&](const std::string& out) {
    return "sweep run " + file + " --out " + out + " --quiet --jobs 1 --checkpoint-every 0.01";
  };
  REQUIRE(run_cli(command(folder / "whole")).exit_code == 0);
  int kills = 0;
  while (fp4::test::run_shell("timeout -s KILL " + std::to_string(0.25 + 0.05 * kills) + " " +
                              fp4::test::fp4sim_path() + " " + command(folder / "killed"))
             .exit_code != 0) {
    REQUIRE(++kills < 60);  // each is given more time than the one before
  }
  CHECK(kills >= 1);
  CHECK(table_of(folder / "killed") == table_of(folder / "whole"));
  // Neither a checkpoint nor a trunk is left.
  for (const auto& entry : std::filesystem::directory_iterator(folder / "killed")) {
    INFO(entry.path());
    CHECK(entry.path().filename().string().find("trunk-") == std::string::npos);
    CHECK(entry.path().extension() != ".checkpoint");
  }
}

TEST_CASE("one worker, three shards: the same table", "[cli]") {
  TemporaryFolder folder;
  CHECK(run_cli("sweep run " + undisturbed().grid_file + " --out " + folder / "one" + " --jobs 1 --quiet").exit_code ==
        0);
  CHECK(table_of(folder / "one") == undisturbed().table);
  std::string shards;
  for (int i = 1; i <= 3; ++i) {
    const std::string shard = folder / ("shard" + std::to_string(i));
    shards += " " + shard;
    const auto result = run_cli(sweep_command(shard, undisturbed().grid_file) + " --shard " + std::to_string(i) + "/3");
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Contains("merge"));  // says what the race waits for
  }
  CHECK(run_cli("sweep status" + shards + " --complete").exit_code == 1);
  CHECK(run_cli("sweep merge" + shards + " --out " + folder / "merged").exit_code == 0);
  CHECK(run_cli(sweep_command(folder / "merged", undisturbed().grid_file)).exit_code == 0);
  CHECK(table_of(folder / "merged") == undisturbed().table);
}

TEST_CASE("SIGTERM and SIGINT stop politely, and the same command goes on", "[cli]") {
  for (const auto& [name, code] : {std::pair{"TERM", 143}, std::pair{"INT", 130}}) {
    const std::string signal = name;
    TemporaryFolder folder;
    const std::string out = folder / "out";
    // The signal is sent as soon as the first runs are stored, whatever the machine's speed.
    const std::string script =  // a shell without job control starts its children with SIGINT ignored
        "env --default-signal=INT " + fp4::test::fp4sim_path() + " " + sweep_command(out, undisturbed().grid_file) +
        " & p=$!; " + "until [ -s " + out + "/sweep.sqlite-wal ] || ! kill -0 $p 2>/dev/null; do :; done; kill -" +
        signal + " $p; wait $p";
    const auto result = run_shell(script);
    CHECK(result.exit_code == code);
    CHECK_THAT(result.err, Contains("interrupted") && Contains("same command continues"));
    CHECK(run_cli(sweep_command(out, undisturbed().grid_file)).exit_code == 0);
    CHECK(table_of(out) == undisturbed().table);
  }
}

namespace {

// A shell with job control on a terminal of its own: each line is typed when its words were seen, `^Z` as the
// terminal's key.
constexpr const char* terminal = R"(
import os, pty, re, select, sys, time
child, screen = pty.fork()
if child == 0:
    os.execvp("bash", ["bash", "--norc", "-i"])
seen = ""
def until(words):
    global seen
    end = time.monotonic() + 300
    while not re.search(words, seen):
        if time.monotonic() > end or not select.select([screen], [], [], 300)[0]: sys.exit("no '" + words + "' in\n" + seen)
        seen += os.read(screen, 65536).decode(errors="replace")
    seen = seen[re.search(words, seen).end():]
for line in sys.argv[1:]:
    words, typed = line.split(" => ")
    until(words)
    os.write(screen, typed.replace("^Z", "\x1a").encode() + (b"" if typed == "^Z" else b"\n"))
until("went on 0")
)";

}  // namespace

TEST_CASE("Ctrl-Z stops a sweep on a terminal, and fg and bg go on with it", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "out", run = sweep_command(out, undisturbed().grid_file);
  write_text(folder / "terminal.py", terminal);
  const std::string program = fp4::test::fp4sim_path();
  const auto result =
      run_shell("\"$FP4SIM_PYTHON\" " + folder / "terminal.py" +  //
                " '.* => PS1=; " + program + " " + run.substr(0, run.find(" --quiet")) +
                " --jobs 2; echo ended $((100 + $?))'" + " ' to do => ^Z'" +  // the shell that waits says 128 + SIGTSTP
                " 'ended 248 => cut -d\" \" -f3 /proc/$(jobs -p)/stat; " + program + " " + run + "; echo second $?'" +
                " '(?s)T.*writing here.*second 1 => bg; fg; echo went on $?'");
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(run_cli("sweep status " + out + " --complete").exit_code == 0);
  CHECK(table_of(out) == undisturbed().table);
}

TEST_CASE("a full disk keeps every committed run", "[cli]") {
  TemporaryFolder folder;
  const std::string disk = folder / "disk";
  fs::create_directories(disk);
  if (run_shell("mount -t tmpfs -o size=160k none " + disk).exit_code != 0) {
    WARN("SKIPPED: a small tmpfs cannot be mounted here; test_store covers the full disk by SQLite's own limit");
    return;
  }
  const auto full = run_cli(sweep_command(disk + "/out", undisturbed().grid_file));
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("disk is full"));
  fs::create_directories(folder / "roomy");
  // Moved to where there is room, as a user would; the write-ahead log comes along.
  run_shell("cp -r " + disk + "/out " + folder / "roomy/");
  run_shell("umount " + disk);
  CHECK(run_cli(sweep_command(folder / "roomy/out", undisturbed().grid_file)).exit_code == 0);
  CHECK(table_of(folder / "roomy/out") == undisturbed().table);
}

TEST_CASE("a folder without permission, a damaged store, a foreign one", "[cli]") {
  TemporaryFolder folder;
  const std::string locked = folder / "locked";
  fs::create_directories(locked);
  // Root may write everywhere: become nobody for this one.
  const std::string as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(locked,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  if (run_shell(as_nobody + fp4::test::fp4sim_path() + " version").exit_code != 0) {
    WARN("SKIPPED: the program cannot be run as another user here");
  } else {
    const auto result = run_shell(as_nobody + fp4::test::fp4sim_path() + " sweep run quick --out " + locked + "/out");
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains(locked));
    CHECK(fs::is_empty(locked));
  }
  fs::create_directories(folder / "damaged");
  write_text(folder / "damaged/sweep.sqlite", std::string(9000, 'x'));
  const auto damaged = run_cli(sweep_command(folder / "damaged", undisturbed().grid_file));
  CHECK(damaged.exit_code == 1);
  CHECK_THAT(damaged.err, Contains("not a sound store"));
  CHECK(read_text(folder / "damaged/sweep.sqlite") == std::string(9000, 'x'));
  CHECK(run_cli("table " + folder / "damaged").exit_code == 1);
  CHECK(run_cli("table " + folder / "nowhere").exit_code == 2);
  write_text(folder / "other.json", R"({"name": "other", "task": "classifier", "base": "mxfp4"})");
  const auto foreign = run_cli(sweep_command(undisturbed().out, folder / "other.json"));
  CHECK(foreign.exit_code == 2);
  CHECK_THAT(foreign.err, Contains("holds the sweep 'small'"));
}

TEST_CASE("a dry run counts and writes nothing", "[cli]") {
  TemporaryFolder folder;
  const auto result =
      run_cli("sweep run " + undisturbed().grid_file + " --out " + folder / "out" + " --dry-run --json");
  REQUIRE(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  CHECK(json["product"] == 24);
  CHECK(json["excluded"] == 4);
  CHECK(json["distinct"] == 16);  // a task: no Hadamard, 2 roundings; 16: 2 signs x 2; 32: 2 signs
  CHECK(json["references"] == 12);
  CHECK(json["runs"] == 16 * 3 + 12);
  CHECK(json["missing"] == json["runs"]);
  CHECK(json["seconds"] > 0);
  CHECK_FALSE(fs::exists(folder / "out"));
  const Json done = Json::parse(
      run_cli("sweep run " + undisturbed().grid_file + " --out " + undisturbed().out + " --dry-run --json").out);
  CHECK(done["missing"] == 0);
}

TEST_CASE("a tuned grid at a fixed value asks for no ladder, in 80 columns", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "tuned.json", R"({"name": "tuned", "task": "classifier", "base": "mxfp4", "train": {"steps": 5},
    "tune": {"train.lr": {}}})");
  const std::string rest = " " + folder / "tuned.json" + " --out " + folder / "out" + " --dry-run";
  CHECK_THAT(run_cli("sweep run" + rest).out, Contains("tune train.lr"));
  const auto fixed = run_cli("sweep run --fixed train.lr=0.002" + rest);  // takes one word, not the grid
  INFO(fixed.out << fixed.err);
  CHECK(fixed.exit_code == 0);
  CHECK_THAT(fixed.out, !Contains("tune train.lr"));
  for (const std::string& line : lines_of(fixed.out)) CHECK(line.size() <= 80);
  const auto refused = run_cli("sweep run --fixed train.clip=1" + rest);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("train.clip") && Contains("train.lr"));
  CHECK_THAT(run_cli("sweep run --help").out, Contains("--fixed PATH=NUMBER"));
}

TEST_CASE("bad words end with exit code 2 and the accepted words, nothing written", "[cli]") {
  TemporaryFolder folder;
  const auto refuse = [&](const std::string& arguments, const std::string& sentence) {
    const auto result = run_cli(arguments + " --out " + folder / "out");
    INFO(arguments);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(sentence));
    CHECK_FALSE(fs::exists(folder / "out"));
  };
  refuse("sweep run quikc", "quick");
  refuse("sweep run no/such.json", "no such file");
  refuse("sweep run quick --shard 5/4", "--shard");
  refuse("sweep run quick --backend avx1024", "avx1024");
  write_text(folder / "bad.json",
             R"({"name": "b", "task": "classifier", "axes": {"wgrad.*.rounding": ["stochastik"]}})");
  refuse("sweep run " + folder / "bad.json", "stochastik");
  for (const char* path : {"", "wgrad..rounding", "wgrad|.a.rounding", "wgrad.a."}) {  // an empty part is a word too
    write_text(folder / "empty.json",
               R"({"name": "e", "task": "classifier", "axes": {")" + std::string(path) + R"(": ["stochastic"]}})");
    refuse("sweep run " + folder / "empty.json", "unknown word ''");
  }
  CHECK(run_cli("pareto " + undisturbed().out + " --x pounds").exit_code == 2);
  const auto unpriced = run_cli("pareto " + undisturbed().out + " --x price --hardware host");
  CHECK(unpriced.exit_code == 2);
  CHECK_THAT(unpriced.err, Contains("host") && Contains("price_per_hour"));
  CHECK(run_cli("pareto " + undisturbed().out + " --hardware mi999").exit_code == 2);
  CHECK(run_cli("table " + undisturbed().out + " --where colour=red").exit_code == 2);
  const auto none = run_cli("table " + undisturbed().out + " --where 'loss<-1' --where task=classifier --csv -");
  CHECK(none.exit_code == 0);
  CHECK_THAT(none.err, Catch::Contains("nothing matches --where 'loss<-1' --where 'task=classifier'"));
  CHECK(run_cli("table " + undisturbed().out + " --sort colour").exit_code == 2);
  CHECK(run_cli("table " + undisturbed().out + " --weight nonsense=2").exit_code == 2);
}

TEST_CASE("table: CSV and JSON with the same columns, filters, groups", "[cli]") {
  TemporaryFolder folder;
  const std::string& out = undisturbed().out;
  REQUIRE(run_cli("table " + out + " --csv " + folder / "t.csv" + " --json " + folder / "t.json").exit_code == 0);
  CHECK(run_cli("table " + out + " --csv " + folder / "t.csv").exit_code == 2);  // never overwritten without --force
  CHECK(run_cli("table " + out + " --csv " + folder / "t.csv --force").exit_code == 0);
  const Json json = Json::parse(read_text(folder / "t.json"));
  const std::vector<std::string> csv = lines_of(read_text(folder / "t.csv"));
  std::string header;
  for (const Json& column : json["columns"]) header += (header.empty() ? "" : ",") + column.get<std::string>();
  CHECK(csv[0] == header);
  CHECK(json["rows"].size() == csv.size() - 1);
  CHECK(json["schema"] == 1);
  for (const char* column :
       {"wgrad.hadamard.size", "task", "seed", "status", "role", "loss", "loss_hp", "loss_gap", "overhead",
        "quantisation_overhead", "step_time_s", "energy_j", "points", "digest", "seconds", "config_hash"}) {
    CHECK(json["rows"][0].contains(column));
  }
  for (const char* key : {"version", "compiler", "command", "host", "signature", "train_signatures"}) {
    CHECK(json["provenance"].contains(key));
  }
  std::string previous;
  for (const Json& row : json["rows"]) {
    CHECK(row["role"] != "reference");
    char seed[32];
    std::snprintf(seed, sizeof seed, "%08d", row["seed"].get<int>());
    const std::string key = row["task"].get<std::string>() + row["config_hash"].get<std::string>() + seed;
    CHECK(previous < key);
    previous = key;
  }
  const auto rows = [&](const std::string& options) {
    return Json::parse(run_cli("table " + out + " " + options + " --json").out)["rows"];
  };
  CHECK(rows("--where task=classifier --where role=run").size() == 8 * 3);
  CHECK(rows("--where 'wgrad.hadamard.size=16|32' --where 'seed<=1' --where task=regression").size() == 6);
  const Json sorted = rows("--sort -loss_gap");
  CHECK(sorted[0]["loss_gap"] >= sorted[1]["loss_gap"]);
  const Json grouped = rows("--group --where role=run");
  CHECK(grouped.size() == 16);
  CHECK(grouped[0]["n"] == 3);
  CHECK(grouped[0]["loss_gap_raw_low"] < grouped[0]["loss_gap"]);
  for (const Json& group : grouped) {  // the loss of every run to its last bit, and what is computed from them, rounded
    std::string runs;
    double sum = 0;
    for (const Json& row : json["rows"]) {
      if (row["role"] != "run" || row["task"] != group["task"] || row["config_hash"] != group["config_hash"]) continue;
      runs += fmt::format("{}{}:{}:{}", runs.empty() ? "" : " ", row["seed"].get<int>(), row["loss"].get<double>(),
                          row["digest"].get<std::string>());
      sum += row["loss"].get<double>();
    }
    CHECK(group["runs"] == runs);
    CHECK(fmt::format("{}", group["loss"].get<double>()) == fmt::format("{:.9g}", sum / 3));
  }
  CHECK(rows("--references").size() > json["rows"].size());
  CHECK_THAT(run_cli("table " + out).out, Contains("rows"));
}

TEST_CASE("pareto: JSON, picture, words", "[cli]") {
  TemporaryFolder folder;
  const auto text = run_cli("pareto " + undisturbed().out + " --json " + folder / "p.json");
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("Noise floor") && Contains("fresh seeds") && Contains("overhead"));
  for (const std::string& line : lines_of(text.out)) CHECK(line.size() <= 100);
  const Json json = Json::parse(read_text(folder / "p.json"));
  CHECK(json["x"] == "overhead");
  CHECK(json["y"] == "loss_gap");
  size_t on_front = 0;
  for (const Json& point : json["points"]) {
    for (const char* key : {"config_hash", "x", "y", "y_low", "y_high", "on_front", "sensitivity", "overhead_interval"})
      CHECK(point.contains(key));
    on_front += point["on_front"] == true;
  }
  CHECK(on_front >= 2);
  size_t raced = 0;  // the table has the intervals of what raced, as the front has
  const Json table = Json::parse(run_cli("table " + undisturbed().out + " --group --json").out);
  for (const Json& row : table["rows"]) {
    if (row["role"] != "confirm") continue;
    ++raced;
    CHECK(row["overhead_low"].get<double>() < row["overhead_high"].get<double>());
    for (const Json& point : json["points"]) {
      if (row["config_hash"] != point["config_hash"] || point["overhead_interval"].is_null()) continue;
      CHECK(row["overhead_low"].get<double>() == Approx(point["overhead_interval"][0].get<double>()).epsilon(1e-8));
      CHECK(row["overhead_high"].get<double>() == Approx(point["overhead_interval"][1].get<double>()).epsilon(1e-8));
    }
  }
  CHECK(raced > 0);
  CHECK(json["contexts"].size() == 2);
  CHECK(json["contexts"][0]["front"] == "raced");
  CHECK(json["effects"].size() == 2 * 4);
  const Json b200 =
      Json::parse(run_cli("pareto " + undisturbed().out + " --hardware b200 --task classifier --json").out);
  CHECK(b200["hardware"] == "b200");
  CHECK(b200["contexts"].size() == 1);
}

TEST_CASE("pareto: of many axes a setting says what differs from their first values", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "many", "task": ["regression"], "base": "mxfp4", "seeds": 2,
    "train": {"steps": 3}, "axes": {"*.*.block": [16, 32], "*.*.scale_rule": ["rceil", "even"],
    "wgrad.*.rounding": ["nearest_even", "stochastic"], "wgrad.hadamard.size": [0, 16]}})");
  REQUIRE(run_cli(sweep_command(folder / "out", folder / "grid.json")).exit_code == 0);
  const auto text = run_cli("pareto " + folder / "out" + " --limit 0");
  REQUIRE(text.exit_code == 0);
  const auto times = [&text](const std::string& words) {
    size_t count = 0;
    for (size_t at = text.out.find(words); at != std::string::npos; at = text.out.find(words, at + 1)) ++count;
    return count;
  };
  CHECK(times("Settings say what differs from ") == 1);
  for (const char* first : {"block=16", "scale_rule=rceil", "rounding=nearest_even", "size=0"})
    CHECK(times(first) == 1);
  CHECK(times("block=32") > 1);
  CHECK(run_cli("pareto " + undisturbed().out).out.find("Settings say") == std::string::npos);
}

TEST_CASE("pareto names the settings whose format the chip does not multiply", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "decoded", "task": ["classifier"], "seeds": 2, "train": {"steps": 3},
    "axes": {"recipe": ["mxfp4", "nvfp4", "nvfp4_te", "four_over_six", "fp4_all_the_way", "ue5m3_hold50"]}})");
  REQUIRE(run_cli(sweep_command(folder / "out", folder / "grid.json")).exit_code == 0);
  // The sentence of the modelled step is of the chip that prices the front, one's own under its own name, too.
  Json chip = Json::parse(run_cli("show b200").out);
  chip["name"] = "my_chip", chip["efficiency"]["value"] = 0.2;
  chip.erase("efficiency_of");
  write_text(folder / "chip.json", chip.dump());
  const auto own = run_cli("pareto " + folder / "out" + " --hardware " + (folder / "chip.json"));
  INFO(own.err);
  REQUIRE(own.exit_code == 0);
  std::string said = own.out;
  std::replace(said.begin(), said.end(), '\n', ' ');
  const Json bf16 = Json::parse(run_cli("cost --recipe bf16 --json --hardware " + (folder / "chip.json")).out);
  const std::string step = fmt::format("{:.4g} s in bf16", bf16["step_time_s"].get<double>());
  CHECK_THAT(said, Contains("on my_chip takes " + step));
  // A row that is not shown has no star to be seen, so the line names them.
  std::string text = run_cli("pareto " + folder / "out" + " --hardware mi355x").out;
  std::replace(text.begin(), text.end(), '\n', ' ');
  CHECK(text.find("(four_over_six, fp4_all_the_way, nvfp4, nvfp4_te and 1 more)") != std::string::npos);
  CHECK(run_cli("pareto " + folder / "out" + " --hardware b200").out.find("decoded operands (ue5m3_hold50)") !=
        std::string::npos);
}

TEST_CASE("pareto: fronts over joules, dollars and points", "[cli]") {
  const auto points = [](const std::string& x) {
    const auto run = run_cli("pareto " + undisturbed().out + " --hardware b200 --task classifier --json --x " + x);
    REQUIRE(run.exit_code == 0);
    std::map<std::string, double> at;
    const Json json = Json::parse(run.out);
    for (const Json& point : json["points"]) at[point["config_hash"]] = point["x"];
    return at;
  };
  // The rent of one accelerator, by hand: seconds of a step and the profile's dollars an hour.
  const double price = Json::parse(run_cli("show b200").out)["price_per_hour"]["value"];
  const auto seconds = points("step_time_s"), dollars = points("price");
  REQUIRE(seconds.size() > 3);
  for (const auto& [hash, x] : seconds) CHECK(dollars.at(hash) == Approx(x * price / 3600));
  CHECK(points("energy") == points("energy_j"));
  for (const auto& [hash, x] : points("points")) CHECK(x == std::floor(x));  // a point a technique
}

TEST_CASE("effects: one axis under a condition is the mean of the table's paired differences", "[cli]") {
  const std::string& out = undisturbed().out;
  // Losses, whose digits are all there, by seed: size 0 and size 16, stochastic, on the classifier. Their fp32 is the
  // same.
  std::map<int, double> loss[2];
  const Json table = Json::parse(run_cli("table " + out + " --json --where task=classifier").out);
  for (const Json& row : table["rows"]) {
    if (row["wgrad.*.rounding"] != "stochastic") continue;
    if (row["wgrad.hadamard.size"] == "0") loss[0][row["seed"]] = row["loss"];
    if (row["wgrad.hadamard.size"] == "16" && row["wgrad.hadamard.signs"] == "none") loss[1][row["seed"]] = row["loss"];
  }
  // Every seed that both have, those of the race as well.
  double mean = 0;
  int seeds = 0;
  for (const auto& [seed, value] : loss[1]) {
    if (!loss[0].contains(seed)) continue;
    mean += value - loss[0].at(seed);
    ++seeds;
  }
  REQUIRE(seeds >= 3);
  mean /= seeds;
  const auto text = run_cli("effects " + out + " --axis size --by rounding --where signs=none");
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("stochastic") && Contains("its gap"));
  for (const std::string& line : lines_of(text.out)) CHECK(line.size() <= 110);
  const Json json = Json::parse(run_cli("effects " + out + " --axis size --by rounding --where signs=none --json").out);
  bool found = false;
  for (const Json& effect : json["effects"]) {
    if (effect["task"] != "classifier" || effect["group"] != "stochastic" || effect["value"] != "16") continue;
    found = true;
    CHECK(effect["effect"].get<double>() == Approx(mean).epsilon(1e-9));
    CHECK(effect["settings"] == 1);
    CHECK(effect["seeds"] == seeds);
    // The family is what is listed, on both tasks; raw numbers have `raw` in their name.
    CHECK(effect["comparisons"] == json["effects"].size());
    CHECK(effect["low"] < effect["raw_low"]);
    CHECK(effect["high"] > effect["raw_high"]);
    CHECK(effect["low"].get<double>() + effect["high"].get<double>() == Approx(2 * mean));
  }
  CHECK(found);
  TemporaryFolder folder;
  REQUIRE(run_cli("effects " + out + " --axis size --csv " + folder / "e.csv").exit_code == 0);
  const std::vector<std::string> csv = lines_of(read_text(folder / "e.csv"));
  CHECK(csv.size() == 1 + 2 * 2);
  CHECK_THAT(csv[0], Contains(",effect,low,high,detectable,noise_floor,") && Contains(",raw_low,raw_high,"));
  CHECK(run_cli("effects " + out + " --axis size --csv " + folder / "e.csv").exit_code == 2);  // not without --force
  const auto unknown = run_cli("effects " + out + " --axis block");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("block") && Contains("wgrad.hadamard.size"));
  CHECK(run_cli("effects " + out + " --axis size --against 64").exit_code == 2);
}

TEST_CASE("effects: means of lists with intervals that hold together, and the figure of a table", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "v.csv", "a,1,2,3,4\r\n\n\"b, c\",1,1,1\nd,5\n");
  // Student's quantiles of three degrees of freedom at 1 - .05 / 2 and 1 - .05 / 6: 3.1824 and 4.8567 times
  // sqrt(5/3) / 2.
  const auto high = [&](const std::string& words, double quantile) {
    const Json rows = Json::parse(run_cli("effects " + folder / "v.csv" + " --values" + words).out);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0]["mean"] == 2.5);
    CHECK(rows[0]["high"].get<double>() == Approx(2.5 + quantile * std::sqrt(5.0 / 3) / 2).epsilon(1e-4));
    CHECK((rows[1]["name"] == "b, c" && rows[1]["low"] == 1 && rows[1]["high"] == 1));
    CHECK((rows[2]["n"] == 1 && rows[2]["mean"] == 5 && rows[2]["low"].is_null()));
  };
  high(" --family 1", 3.1824);
  high("", 4.8567);
  write_text(folder / "v.csv", "a,1,2\nb,1,x\n");
  CHECK_THAT(run_cli("effects " + folder / "v.csv" + " --values").err, Contains("v.csv, line 2") && Contains("'x'"));
  write_text(folder / "e.csv", "group,name,task,mean,low,high,delta\ng,one,lm,0.1,0.05,0.2,0.01\n");
  const std::string figure = "effects " + folder / "e.csv" + " --title T --figure " + folder / "f.svg";
  REQUIRE(run_cli(figure).exit_code == 0);
  CHECK_THAT(read_text(folder / "f.svg"), Contains(">T</text>") && Contains(">one</text>") && Contains("<circle"));
  CHECK(run_cli(figure).exit_code == 2);  // not without --force
}

TEST_CASE("a grid none of whose points can run is refused with the reason", "[cli]") {
  const TemporaryFolder folder;
  const std::string axes = R"("task": "regression", "seeds": 1, "train": {"steps": 5}, "axes": {)";
  const auto run = [&](const std::string& text) {
    write_text(folder / "g.json", R"({"name": "g", )" + text + "}");
    return run_cli("sweep run " + folder / "g.json" + " --out " + folder / "g.sweep");
  };
  const auto without_base = run(axes + R"("*.*.scale": ["ue4m3", "ue5m3"]})");
  CHECK(without_base.exit_code == 2);
  CHECK_THAT(without_base.err,
             Contains("2 impossible: ") && Contains("scale must be none") && Contains(R"(add "base": "nvfp4")"));
  const auto excluded =
      run(R"("base": "nvfp4", "exclude": [{"task": "regression"}], )" + axes + R"("*.*.scale": ["ue4m3"]})");
  CHECK(excluded.exit_code == 2);
  CHECK_THAT(excluded.err, Contains("exclude: leaves no point of 1"));
  CHECK_FALSE(fs::exists(folder / "g.sweep"));
}

TEST_CASE("an axis that lacks the start of its path is told the whole path", "[cli]") {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& axis) {
    write_text(folder / "g.json", R"({"name": "g", "task": "regression", "base": "nvfp4", "axes": {)" + axis + "}}");
    const auto done = run_cli("sweep run " + folder / "g.json" + " --dry-run");
    CHECK(done.exit_code == 2);
    return done.err;
  };
  CHECK_THAT(told(R"("rounding": ["stochastic"])"), Contains("did you mean '*.*.rounding'?"));
  CHECK_THAT(told(R"("hadamard.size": [16])"), Contains("did you mean '*.hadamard.size'?"));
  CHECK_THAT(told(R"("lr": [0.01])"), Contains("did you mean 'train.lr'?"));
  CHECK_THAT(told(R"("width": [32])"), Contains("did you mean 'task.*.width'?"));
  CHECK_THAT(told(R"("*.*.rounding": ["stochastik"])"), Contains("did you mean 'stochastic'?"));
}

TEST_CASE("pareto gives the race that would make a front, and says what a small one cannot", "[cli]") {
  const TemporaryFolder folder;
  const auto pareto = [&](const std::string& more) {
    write_text(folder / "g.json",
               R"({"name": "g", "task": "regression", "seeds": 2, "train": {"steps": 8}, )" + more + "}");
    const std::string out = folder / "g.sweep";
    fs::remove_all(out);
    REQUIRE(run_cli("sweep run -q " + folder / "g.json" + " --out " + out).exit_code == 0);
    return run_cli("pareto " + out).out;
  };
  const std::string recipes = R"("axes": {"task.*.width": [32], "recipe": ["nvfp4", "mxfp8"]})";
  CHECK_THAT(pareto(recipes), Contains(R"("race": {"seeds": 320, "delta": 0.)"));
  CHECK_THAT(pareto(recipes + R"(, "references": ["mxfp4"])"), Contains(R"("race": {"seeds": 320} to the)"));
  CHECK_THAT(pareto(recipes + R"(, "race": {"seeds": 10, "delta": 0.01})"),
             Contains("Fewer than 300 seeds make no step") && !Contains("1 are worse"));
}

TEST_CASE("a race at one rung or at rungs far apart is refused", "[cli]") {
  const TemporaryFolder folder;
  const auto grid = [&](const std::string& ladder, const std::string& more) {
    write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 2, "train": {"steps": 4},
      "axes": {"recipe": ["nvfp4"]}, "references": ["fp32"], "tune": {"train.lr": {"rungs": 2, "seeds": 1)" +
                                      ladder + "}}" + more + "}");
    return run_cli("sweep run -q " + folder / "g.json" + " --out " + folder / "g.sweep");
  };
  const std::string race = R"(, "race": {"seeds": 10, "delta": 0.01})";
  for (const char* ladder : {R"(, "judged": 1)", R"(, "finer": false)", R"(, "factor": 2.1)"}) {
    INFO(ladder);
    const auto refused = grid(ladder, race);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains("g.json: tune.train.lr: a race needs \"judged\" from 2 on"));
    CHECK_FALSE(fs::exists(folder / "g.sweep"));
  }
  REQUIRE(grid(R"(, "factor": 1.4, "finer": false)", race).exit_code == 0);
  CHECK_THAT(run_cli("pareto " + folder / "g.sweep").out, Contains("Race on up to 10 fresh seeds"));
}

TEST_CASE("a ladder ends where its field takes no further value", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 2, "train": {"steps": 6, "warmup": 1},
    "axes": {"recipe": ["nvfp4"]}, "references": ["fp32"], "tune": {"train.final_lr": {"start": 0.5, "seeds": 1}}})");
  const auto run = run_cli("sweep run -q " + folder / "g.json" + " --out " + folder / "g.sweep");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run_cli("sweep status " + folder / "g.sweep").exit_code == 0);
  const Json rows = Json::parse(run_cli("table " + folder / "g.sweep" + " --json").out);
  REQUIRE(rows["rows"].size() == 2);
  for (const Json& row : rows["rows"]) CHECK(row["status"] == "finished");
}

TEST_CASE("an axis that a later one lies over is named", "[cli]") {
  const TemporaryFolder folder;
  const std::string rounding = R"("wgrad.a.rounding": ["nearest_even", "stochastic"])",
                    product = R"("wgrad": ["nvfp4.wgrad", "mxfp4.wgrad"])";
  for (const bool is_covered : {true, false}) {
    write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 1, "base": "mxfp4",
      "train": {"steps": 2}, "axes": {)" +
                                      (is_covered ? rounding + ", " + product : product + ", " + rounding) + "}}");
    const auto run = run_cli("sweep run -q " + folder / "g.json" + " --out " + (folder / (is_covered ? "a" : "b")));
    REQUIRE(run.exit_code == 0);
    const bool told = run.err.find("'nearest_even' and 'stochastic' mean the same at every point") != std::string::npos;
    CHECK(told == is_covered);
  }
}

TEST_CASE("a ladder none of whose rungs trains ends where it began", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 2, "axes": {"recipe": ["nvfp4"]},
    "train": {"steps": 30, "lr": 1000, "optimizer": "sgd", "momentum": 0.9, "schedule": "constant"},
    "tune": {"train.batch": {"start": 1, "seeds": 1}}})");
  const auto run = run_cli("sweep run -q " + folder / "g.json" + " --out " + folder / "g.sweep");
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run_cli("sweep run -q " + folder / "g.json" + " --out " + folder / "g.sweep").exit_code == 0);
}

TEST_CASE("the answer names settings by their values and says who loses", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "g.json",
             R"({"name": "g", "task": "regression", "base": "nvfp4", "seeds": 3, "train": {"steps": 20},
    "axes": {"*.*.rounding": ["nearest_even", "stochastic", "toward_zero"], "*.*.scale": ["ue4m3", "ue5m3"]}})");
  const std::string out = folder / "g.sweep";
  REQUIRE(run_cli("sweep run -q " + folder / "g.json" + " --out " + out).exit_code == 0);
  const Json json = Json::parse(run_cli("pareto " + out + " --json").out);
  const std::string answer = json["contexts"][0]["answer"];
  INFO(answer);
  CHECK_THAT(answer, Contains("% overhead (") && Contains("%) nearest_even, ue4m3 loses 0.0") &&
                         Contains("More is lost by stochastic (+0.0") &&
                         !Contains("toward_zero") &&  // within what 3 see
                         !Contains("rounding=") && !Contains("fp32"));
}
