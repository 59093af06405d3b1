// Files and folders that others made: links in a folder that a command fills or reads, stores with programs in them,
// pipes and devices where a file is expected. Nothing outside the folder changes, nothing waits.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/temporaries.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "sweeps/engine/sqlite.h"
#include "sweeps/engine/store.h"
#include "sweeps/engine/store_files.h"
#include "sweeps/engine/store_schema.h"
#include "tests/support/json_places.h"
#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;
namespace fs = std::filesystem;

namespace {

const sweeps::Identity me = {.signature = "s", .train_signatures = {{"task", "t"}}, .version = "0", .host = "h"};

void make_store(const fs::path& folder) {
  sweeps::Store store = sweeps::Store::open(folder, me);
  store.set_meta("name", "g");
}

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a link in a sweep's folder is never written through", "[quick]") {
  for (const char* name : {"sweep.lock", "sweep.sqlite", "sweep.sqlite-wal", "sweep.sqlite-shm", "sweep.sqlite-journal",
                           "0123456789abcdef-1.checkpoint", "trunk-0123456789abcdef-1-4"})
    for (const bool is_hard : {false, true}) {
      INFO(name << (is_hard ? " hard" : " soft"));
      const TemporaryFolder folder, other;
      const std::string before(5000, 'v');
      write_text(other / "victim", before);
      const fs::path sweep = folder / "s", link = sweep / name;
      make_store(sweep);
      fs::remove(link);
      is_hard ? fs::create_hard_link(other / "victim", link) : fs::create_symlink(other / "victim", link);
      const std::string expected = is_hard ? "a hard link" : "is a link";
      CHECK_THAT(message_of([&] { sweeps::Store::open(sweep, me); }), Contains(link.string()) && Contains(expected));
      CHECK_THAT(message_of([&] { sweeps::drop_damaged_rows(sweep); }), Contains(link.string()) && Contains(expected));
      if (!is_hard) {
        CHECK_THAT(message_of([&] { sweeps::Store::read(sweep); }), Contains(link.string()) && Contains(expected));
        CHECK_THAT(message_of([&] { (void)sweeps::check_store(sweep); }), Contains(link.string()));
      }
      CHECK(read_text(other / "victim") == before);
    }
}

TEST_CASE("the commands of a sweep leave what links in its folder lead to", "[cli]") {
  const TemporaryFolder folder, other;
  write_text(folder / "grid.json", R"({"name": "tiny", "task": ["regression"], "seeds": 1,
    "train.regression": {"steps": 2, "batch": 8, "curve_points": 1}, "axes": {"recipe": ["mxfp4"]}})");
  REQUIRE(test::run_cli(fmt::format("sweep run {} --quiet --out {}", folder / "grid.json", folder / "s")).exit_code ==
          0);
  write_text(other / "victim", "a line\nand another\n");
  for (const char* name : {"sweep.lock", "trunk-0"}) {
    fs::create_symlink(other / "victim", folder.path() / "s" / name);
    for (const std::string& words :
         {fmt::format("sweep run {} --quiet --out {}", folder / "grid.json", folder / "s"),
          fmt::format("sweep merge {1} --out {0}", folder / "s", folder / "s2"),
          fmt::format("sweep check {} --drop", folder / "s"), fmt::format("sweep status {}", folder / "s")}) {
      if (words.find("merge") != std::string::npos) {
        fs::create_directory(folder / "s2");
        fs::copy_file(folder / "s/sweep.sqlite", folder / "s2/sweep.sqlite", fs::copy_options::overwrite_existing);
      }
      const test::RunResult r = test::run_cli(words);
      INFO(words << "\n" << r.err);
      CHECK(r.exit_code == 2);
      CHECK_THAT(r.err, Contains(name));
    }
    fs::remove(folder.path() / "s" / name);
  }
  CHECK(read_text(other / "victim") == "a line\nand another\n");
}

TEST_CASE("a store that holds more than rows is refused before it is used", "[quick]") {
  for (const char* extra :
       {"CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM configs; END", "CREATE VIEW v AS SELECT * FROM runs",
        "CREATE TABLE more(x)", "CREATE INDEX i ON runs(abs(seed))",
        "DROP TABLE points; CREATE VIEW points AS SELECT 1 AS id, hash, '[]' AS labels, '' AS row_hash FROM configs"}) {
    INFO(extra);
    const TemporaryFolder folder;
    make_store(folder.path());
    {
      sqlite3* database = nullptr;  // as another program writes it
      REQUIRE(sqlite3_open((folder / "sweep.sqlite").c_str(), &database) == SQLITE_OK);
      REQUIRE(sqlite3_exec(database, extra, nullptr, nullptr, nullptr) == SQLITE_OK);
      sqlite3_close(database);
    }
    for (const std::string& message : {message_of([&] { sweeps::Store::open(folder.path(), me); }),
                                       message_of([&] { sweeps::Store::read(folder.path()); }),
                                       message_of([&] { sweeps::drop_damaged_rows(folder.path()); })})
      CHECK_THAT(message, Contains("sweep.sqlite") && Contains("which no sweep store has"));
    const sweeps::StoreCheck check = sweeps::check_store(folder.path());
    REQUIRE(check.damage.size() == 1);
    CHECK_THAT(check.damage[0], Contains("which no sweep store has"));
  }
}

TEST_CASE("a link in a folder that is filled again leads no file out of it", "[quick]") {
  const TemporaryFolder folder, other;
  fs::create_directories(folder / "out");
  fs::create_directory_symlink(other.path(), folder / "out/sub");
  write_text(other / "kept", "kept");
  fs::create_symlink(other / "kept", folder / "out/file");
  {
    StagedFolder staged(folder / "out", true);
    CHECK_THAT(message_of([&] { staged.file("sub/x"); }), Contains("out/sub: is a link"));
    staged.drop("sub/kept");
    message_of([&] { staged.commit(); });  // refused, or done without following the link: the checks below say
  }
  StagedFolder staged(folder / "out", true);
  write_file(staged.file("file"), "new", false);
  staged.commit();
  CHECK(read_text(folder / "out/file") == "new");  // the link is replaced, not followed
  CHECK(read_text(other / "kept") == "kept");
  CHECK(std::distance(fs::directory_iterator(other.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a sealed folder is read by names that stay in it", "[quick]") {
  const TemporaryFolder folder, other;
  write_text(other / "secret", "secret");
  write_text(folder / "file", "file");
  fs::create_symlink(other / "secret", folder / "link");
  fs::create_directory_symlink(other.path(), folder / "sub");
  fs::create_symlink("file", folder / "alias");
  for (const std::string& name : {std::string("../x"), std::string("a/../../x"), other / "secret", std::string("link"),
                                  std::string("sub/secret"), std::string()}) {
    INFO(name);
    CHECK_THAT(message_of([&] { path_inside(folder.path(), name); }), Contains("leads out of the folder"));
  }
  CHECK(path_inside(folder.path(), "file") == folder / "file");
  CHECK(path_inside(folder.path(), "alias") == folder / "alias");
  CHECK(path_inside(folder.path(), "absent") == folder / "absent");
}

TEST_CASE("scratch folders go with their object, with a signal, and with the next one after a kill", "[quick]") {
  const auto in_child = [](int signal) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGTERM, SIG_DFL);  // the test framework's own handler would stand
      remove_temporaries_on_signals();
      ScratchFolder scratch("test");
      write_file(scratch.file("x"), "x", true);
      const std::string path = scratch.path().string();
      (void)!::write(ends[1], path.data(), path.size());
      ::raise(signal);
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string path(4096, '\0');
    path.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], path.data(), path.size()), 0)));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return fs::path(path);
  };
  const fs::path ended = in_child(SIGTERM), killed = in_child(SIGKILL);
  REQUIRE(!ended.empty());
  CHECK(!fs::exists(ended));
  CHECK(fs::exists(killed));
  fs::path own;
  {
    const ScratchFolder scratch("test"), second("test");
    own = scratch.path();
    CHECK(fs::exists(own));  // a second one of this process leaves the first alone
    CHECK(own != second.path());
    CHECK((fs::status(own).permissions() & fs::perms::others_all) == fs::perms::none);
  }
  CHECK(!fs::exists(own));
  CHECK(!fs::exists(killed));
}

TEST_CASE("a whole file is read as it is, and nothing else is", "[quick]") {
  const TemporaryFolder folder;
  write_text(folder / "file", std::string("a\0b", 3));
  CHECK(read_file(folder / "file") == std::string("a\0b", 3));
  CHECK(read_file(folder / "file", 3).size() == 3);
  CHECK_THAT(message_of([&] { read_file(folder / "file", 2); }), Contains("larger than"));
  CHECK_THAT(message_of([&] { read_file(folder / "absent"); }), Contains("No such file"));
  CHECK_THAT(message_of([&] { read_file(folder.path().string()); }), Contains("is a directory"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/zero")})
    CHECK_THAT(message_of([&] { read_file(path); }), Contains(path + ": is not a regular file"));
}

TEST_CASE("commands refuse pipes and devices at once, whatever they are given for", "[cli]") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder / "pipe.json").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", folder / "zero");
  fs::create_symlink("/dev/zero", folder / "zero.json");
  fs::create_directories(folder / "data");
  fs::create_symlink(folder / "pipe", folder / "data/train.txt");
  for (const std::string file : {"pipe", "zero"})
    for (const std::string words : {"law X",
                                    "sweep import X --out s",
                                    "trace plot X",
                                    "train --task lm --steps 1 --text X",
                                    "train --task classifier --steps 1 --images X --labels X",
                                    "train --task recommender --steps 1 --set task.clicks=X",
                                    "golden stream --judge X",
                                    "quantize X --out q",
                                    "gemm X X --spec mxfp4 --accumulator fp32_block --out c",
                                    "eval --checkpoint X",
                                    "train --resume X",
                                    "show X.json",
                                    "cost --recipe X.json",
                                    "sweep run X.json --out s",
                                    "serve X.json",
                                    "train --task regression --recipe X.json",
                                    "inspect X",
                                    "verify --golden X --candidate X",
                                    "compare X --specs mxfp4",
                                    "verify --probe X",
                                    "sweep replay X --task lm"}) {
      std::string line = words;
      const std::string path = folder / file;  // may hold an X itself
      for (size_t at = 0; (at = line.find('X', at)) != std::string::npos; at += path.size()) line.replace(at, 1, path);
      const test::RunResult r =
          test::run_shell(fmt::format("cd '{}' && ulimit -v 4000000 && timeout -s KILL 20 '{}' {}\n",
                                      folder.path().string(), fs::absolute(test::fp4sim_path()).string(), line));
      INFO(line << "\n" << r.err);
      CHECK((r.exit_code == 2 || r.exit_code == 1));
      CHECK(!r.err.empty());
    }
}

TEST_CASE("configurations changed under right hashes end in rows or a line of reason", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "tiny", "task": ["regression"], "seeds": 2,
    "train.regression": {"steps": 4, "batch": 8, "curve_points": 2}, "axes": {"recipe": ["mxfp4", "nvfp4"]}})");
  const std::string grid = folder / "grid.json";
  REQUIRE(test::run_cli("sweep run " + grid + " --quiet --out " + folder / "s").exit_code == 0);
  std::vector<std::string> hashes, texts;
  for (const sweeps::ConfigRecord& config : sweeps::Store::read(folder / "s").configs()) {
    hashes.push_back(config.hash);
    texts.push_back(config.config);
  }
  REQUIRE(texts.size() >= 2);
  const std::vector<nlohmann::json> others = {
      nullptr, true, -1, 0.5, 1e300, "", "word", nlohmann::json::array(), nlohmann::json::object()};
  std::mt19937 random(5);
  const char* const samples = std::getenv("FP4SIM_FAULT_SAMPLES");
  int tried = 0, refused = 0;
  for (int trial = 0; trial < (samples != nullptr ? std::stoi(samples) : 8); ++trial) {
    const size_t which = random() % texts.size();
    std::string text = texts[which];
    if (trial % 8 == 7) {
      text = std::string(200'000, trial % 16 == 7 ? '[' : '{');
    } else {
      nlohmann::json config = nlohmann::json::parse(text);
      std::vector<nlohmann::json::json_pointer> places;
      test::places_in(config, nlohmann::json::json_pointer(), places);
      config[places[random() % places.size()]] = others[random() % others.size()];
      text = config.dump();
    }
    fs::remove_all(folder / "t");
    fs::copy(folder / "s", folder / "t");
    {
      sweeps::Database database(folder / "t/sweep.sqlite", SQLITE_OPEN_READWRITE);
      sweeps::add_row_hash_function(database);
      sweeps::Statement(database,
                        "UPDATE configs SET config=?1, row_hash=fp4_row_hash(hash, task, reference, recipe, "
                        "static_cost, probability, at, ?1) WHERE hash=?2")
          .bind(1, text)
          .bind(2, hashes[which])
          .run();
    }
    for (const char* words : {"table t", "pareto t", "effects t", "report t --out page.html --force", "sweep status t",
                              "sweep export t --out runs.csv --force", "sweep merge t --out m"}) {
      const test::RunResult r =
          test::run_shell(fmt::format("cd '{}' && rm -rf m && timeout -s KILL 60 '{}' {}\n", folder.path().string(),
                                      fs::absolute(test::fp4sim_path()).string(), words));
      INFO(words << " " << text.substr(0, 300) << "\n" << r.err);
      ++tried;
      refused += r.exit_code != 0;
      CHECK(r.exit_code <= 2);
      CHECK(r.err.find("[json.exception") == std::string::npos);
      CHECK((r.exit_code == 0 || !r.err.empty()));
    }
  }
  WARN("configurations: " << tried << " commands over changed ones tried, " << refused << " refused, 0 signals");
}

TEST_CASE("names and words that are no UTF-8 give whole JSON or one plain line", "[cli]") {
  const TemporaryFolder folder;
  const std::string name = "caf\xe9.bin";
  const auto run = [&](const std::string& words) {
    return test::run_shell(
        fmt::format("cd '{}' && '{}' {}\n", folder.path().string(), fs::absolute(test::fp4sim_path()).string(), words));
  };
  write_text(folder / "x.bin", std::string(4096, 'x'));
  fs::copy_file(folder / "x.bin", folder / name);
  CHECK(run("quantize 'caf\xe9.bin' --dtype f32 --shape 8x128 --spec mxfp4 --out q").exit_code == 0);
  CHECK(nlohmann::json::accept(read_text(folder / "q/manifest.json")));
  for (const std::string words :
       {"train --task regression --steps 1 --set task.variant='\xff'", "train --task 'a\xff' --steps 1",
        "inspect 'absent\xff\x1b[2J'", "quantize x.bin --dtype f32 --shape 8x128 --spec 'nvfp4\xff' --out r",
        "eval --checkpoint 'caf\xe9.bin'"}) {
    const test::RunResult r = run(words);
    INFO(words << "\n" << r.err);
    CHECK(r.exit_code == 2);
    CHECK(r.err.find("[json.exception") == std::string::npos);
    CHECK(r.err.find('\x1b') == std::string::npos);
    CHECK(r.err.find('\xff') == std::string::npos);
    CHECK(r.err.find('\xe9') == std::string::npos);
  }
}
