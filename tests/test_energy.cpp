// The measured energy of a training as a user runs it, on made-up sensors: a machine of 100 W on two packages, and a
// meter of the whole machine that reads 400 W. Expected values come from those watts and the windows' own seconds.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/support/support.h"

using namespace fp4;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> read_csv(const std::string& path) {
  std::istringstream lines(test::read_text(path));
  const auto cells = [](const std::string& line) {
    std::vector<std::string> out;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) out.push_back(cell);
    return out;
  };
  std::vector<Row> rows;
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> head = cells(line);
  while (std::getline(lines, line)) {
    const std::vector<std::string> row = cells(line);
    REQUIRE(row.size() == head.size());
    rows.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) rows.back()[head[i]] = row[i];
  }
  return rows;
}

double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }

// Two packages of 50 W whose counters wrap at 100 J, renewed every millisecond.
class Machine {
 public:
  explicit Machine(const fs::path& root) : powercap_(root / "sys/class/powercap") {
    for (const char* name : {"intel-rapl:0", "intel-rapl:1"}) {
      fs::create_directories(powercap_ / name);
      test::write_text(powercap_ / name / "max_energy_range_uj", "100000000\n");
    }
    write(0);
    thread_ = std::thread([this] {
      const auto start = std::chrono::steady_clock::now();
      while (!done_) {
        write(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Machine() {
    done_ = true;
    thread_.join();
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

 private:
  void write(double seconds) const {
    for (const char* name : {"intel-rapl:0", "intel-rapl:1"}) {
      const fs::path file = powercap_ / name / "energy_uj", fresh = powercap_ / name / "fresh";
      test::write_text(fresh, std::to_string(static_cast<long>(std::fmod(seconds * 50e6, 100e6))) + "\n");
      fs::rename(fresh, file);  // whole, for whoever reads meanwhile
    }
  }

  fs::path powercap_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a study of energy on a machine of 100 W: joules, joules to a target, samples a joule, traces", "[cli]") {
  if (test::run_shell("/usr/bin/python3 -c pass").exit_code != 0) {
    WARN("SKIPPED: no Python");
    return;
  }
  const test::TemporaryFolder folder;
  const Machine machine(folder.path() / "root");
  const auto run =
      test::run_shell("/usr/bin/python3 tools/studies/energy.py " + folder / "out" + " --fp4sim " +
                      test::fp4sim_path() + " --root " + folder / "root" +
                      " --tasks regression --recipes fp32,mxfp4 --steps 40 --seconds 0.3 --runs 3" + " --sample 0.05");
  INFO(run.out << run.err);
  REQUIRE(run.exit_code == 0);
  const std::vector<Row> energy = read_csv(folder / "out/energy.csv"), windows = read_csv(folder / "out/windows.csv"),
                         trace = read_csv(folder / "out/trace.csv");
  REQUIRE(energy.size() == 2);
  double worst = 0;
  for (const Row& row : energy) worst = std::max(worst, number(row, "loss"));
  for (const Row& row : energy) {
    CHECK(number(row, "W") == Approx(100).epsilon(0.1));
    CHECK(number(row, "J") == Approx(number(row, "W") * number(row, "s")).epsilon(1e-3));
    CHECK(number(row, "samples_per_J") == Approx(128 * 40 / number(row, "J")).epsilon(1e-3));  // batches of 128
    CHECK(number(row, "J_to_target") > 0);
    CHECK(number(row, "J_to_target") <= number(row, "J"));
    if (number(row, "loss") == worst) CHECK(number(row, "target") == Approx(worst));
  }
  REQUIRE(windows.size() == 6);
  for (const Row& row : windows) {
    CHECK(number(row, "seconds") >= 0.3);
    for (const char* package : {"J rapl intel-rapl:0", "J rapl intel-rapl:1"})
      CHECK(number(row, package) == Approx(50 * number(row, "seconds")).epsilon(0.1));
  }
  // A window's trace ends with it, in step with its joules.
  Row last;
  for (const Row& row : trace)
    if (row.at("recipe") == "mxfp4" && row.at("window") == "3") last = row;
  const Row& third = windows.back();
  CHECK(number(last, "seconds") == Approx(number(third, "seconds")).margin(0.002));
  CHECK(number(last, "joules") ==
        Approx(number(third, "J rapl intel-rapl:0") + number(third, "J rapl intel-rapl:1")).epsilon(1e-3));
}

TEST_CASE("a meter of the whole machine counts alone: packages are part of it", "[cli]") {
  const test::TemporaryFolder folder;
  const fs::path root = folder.path() / "root", meter = root / "sys/class/hwmon/hwmon2",
                 other = root / "sys/class/hwmon/hwmon1";
  const Machine machine(root);
  for (const fs::path& monitor : {meter, other}) {
    fs::create_directories(monitor);
    test::write_text(monitor / "power1_average", "400000000\n");
  }
  test::write_text(meter / "name", "power_meter\n");
  test::write_text(other / "name", "coretemp\n");
  const std::string words = "cost measure --root " + root.string() + " --seconds 0.2 --runs 1 --sample 0.05 ";
  const auto run = test::run_cli(words + "--json -- sleep 0.01");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json json = Json::parse(run.out);
  CHECK(json.at("sensors") == Json({"rapl intel-rapl:0", "rapl intel-rapl:1", "machine hwmon2"}));
  CHECK(json.at("watts").get<double>() == Approx(400));
  const Json& window = json.at("windows")[0];
  CHECK(window.at("joules")[2].get<double>() == Approx(400 * window.at("seconds").get<double>()));
  CHECK(window.at("joules")[0].get<double>() == Approx(50 * window.at("seconds").get<double>()).epsilon(0.1));
  // The trace is written whole, never over an old one.
  const std::string trace = folder / "trace.csv";
  CHECK(test::run_cli(words + "--trace " + trace + " -- true").exit_code == 0);
  for (const Row& row : read_csv(trace)) CHECK(number(row, "watts") == Approx(400).epsilon(1e-3));
  const auto again = test::run_cli(words + "--trace " + trace + " -- true");
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Catch::Contains("trace.csv"));
}

TEST_CASE("without a sensor the study says why and writes nothing", "[cli]") {
  const test::TemporaryFolder folder;
  const auto run = test::run_shell("/usr/bin/python3 tools/studies/energy.py " + folder / "out" + " --fp4sim " +
                                   test::fp4sim_path() + " --root " + folder / "empty");
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Catch::Contains("no sensor") && Catch::Contains("powercap"));
  CHECK_FALSE(fs::exists(folder / "out"));
}
