// The report page: packing is exact, curves are chosen as documented, bad input is refused, and (label cli) headless
// Chromium explores pages of 60 and 20,000 points by tests/test_report_page.mjs.
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "src/text/error.h"
#include "sweeps/carried_files.h"
#include "sweeps/report/forest.h"
#include "sweeps/report/page.h"
#include "sweeps/report/report_pack.h"
#include "tests/report_synthetic.h"
#include "tests/support/support.h"

namespace fp4::test {
namespace {

// Prints "skipped: ..." where the page cannot be made; CMake turns "[test skipped]" into ctest's word "Skipped".
bool no_library() {
  if (!chart_library_data().empty()) return false;
  WARN("skipped: built without node_modules/echarts (tools/setup.sh installs it)");
  return true;
}

// What the page's script must be able to undo, done here once more from the description in report_pack.h.
std::vector<double> unpack_floats(const std::string& bytes, const nlohmann::json& column, std::size_t header) {
  const std::size_t count = column["count"], width = column["width"], at = column["at"];
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < width; ++k)
      bits |= std::uint64_t{static_cast<unsigned char>(bytes[4 + header + at + k * count + i])} << (8 * k);
    values.push_back(width == 8 ? std::bit_cast<double>(bits)
                                : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  }
  return values;
}

// A second chip on which every step takes twice as long and one point alone is on the front, another sweep with three
// of the points, two comparisons of a study, and a sweep that still runs.
ReportInput report_with_company() {
  ReportInput input = synthetic_report(60, 5, {"classifier", "lm"}, false);
  input.chip = "MI355X";
  ReportChip chip{.name = "B200",
                  .workload = "llama3_8b on B200",
                  .answers = {{"classifier", "At 9 % overhead one loses 0.02."}},
                  .notes = {},
                  .points = input.points};
  input.answers = {{"classifier", "At 4 % overhead many lose 0.02."}, {"lm", "At 5 % overhead <b>one</b> loses 0.1."}};
  for (std::size_t i = 0; i < chip.points.size(); ++i) {
    chip.points[i].front = i == 7 ? "on" : "off";
    for (double& cost : chip.points[i].costs) cost *= 2;
    for (auto& [term, seconds] : chip.points[i].cost_terms) seconds *= 2;
  }
  input.chips.push_back(chip);
  input.against = {
      .name = "other_sweep",
      .matches = {{.point = 5, .front = "on", .there = {.mean = 0.02}, .difference = {-0.01, -0.02, -0.005}},
                  {.point = 6, .front = "off", .there = {.mean = 0.03}, .difference = {0.01, 0.005, 0.02}},
                  {.point = 7, .front = "off", .there = {.mean = 0.03}, .difference = {0, 0, 0}, .same_bits = true}},
      .only_there = 4};
  input.comparisons = read_comparisons(
      "group,name,task,n,mean,low,high,detectable,delta\n"
      "\"One product, all others bf16\",Wgrad,lm,20,0.03,0.02,0.04,0.01,0.001\n"
      "\"One product, all others bf16\",Dgrad,lm,20,-0.001,-0.002,0.0005,0.01,0.001\r\n",
      "effects.csv");
  return input;
}

// What `fp4sim serve --json` says of two policies, one of a single trace, and of votes; a name is hostile.
const char* const service_result = R"({"service": "<b>toy</b>", "hardware": "b200", "first_seed": 1, "seeds": 3,
  "window": 500, "tolerance": 0.005, "targets": [{"accuracy": 0.8, "latency_ms": 20, "share": 1}],
  "members": [{"member": "<script>window.hacked=6</script>", "group": "a", "accuracy": 0.7, "one_ms": 1,
               "full_batch_ms": 2, "cost_per_million": 3}],
  "policies": [{"policy": "full", "doc": "all", "cost_per_million": {"mean": 9, "interval": [8, 10]},
                "accuracy": {"mean": 0.8, "interval": [0.78, 0.82]}, "p50_ms": {"mean": 2}, "p95_ms": {"mean": 6},
                "p99_ms": {"mean": 40, "interval": [30, 50]}, "met_latency": {"mean": 0.9},
                "met_accuracy": {"mean": 0.8}, "met_both": {"mean": 0.7, "interval": [0.6, 0.8]}},
               {"policy": "infaas", "doc": "one", "cost_per_million": {"mean": 4}, "accuracy": {"mean": 0.7},
                "p50_ms": {"mean": 1}, "p95_ms": {"mean": 2}, "p99_ms": {"mean": 3}, "met_latency": {"mean": 1},
                "met_accuracy": {"mean": 0.5}, "met_both": {"mean": 0.5}}],
  "provenance": {"command": "<script>window.hacked=7</script>"}})";
const char* const votes_result = R"({"service": "votes", "votes": [
  {"group": "a", "members": 1, "mean": 0.7, "majority": 0.7, "weighted": 0.7, "cost_per_million": 3},
  {"group": "a", "members": 2, "mean": 0.7, "majority": 0.7, "weighted": 0.75, "cost_per_million": 6},
  {"group": "b", "members": 1, "mean": 0.6, "majority": 0.6, "weighted": 0.6, "cost_per_million": 40}],
  "provenance": {}})";

}  // namespace

TEST_CASE("comparisons of a study are read by the names of their columns", "[quick]") {
  const auto rows =
      read_comparisons("delta,task,name,group,high,low,mean,n\n0.5,lm,\"a \"\"b\"\"\",\"x, y\",3,1,2,20\n", "e.csv");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].group == "x, y");
  CHECK(rows[0].name == "a \"b\"");
  CHECK(rows[0].task == "lm");
  CHECK(rows[0].difference.mean == 2);
  CHECK(rows[0].difference.low == 1);
  CHECK(rows[0].difference.high == 3);
  CHECK(rows[0].delta == 0.5);
  const std::string head = "group,name,task,mean,low,high,delta\n";
  CHECK_THROWS_WITH(read_comparisons("group,name\n", "e.csv"), Catch::Contains("e.csv: no column 'task'"));
  CHECK_THROWS_WITH(read_comparisons(head + "a,b,c,1,2,3\n", "e.csv"), Catch::Contains("e.csv, line 2: 6 fields"));
  CHECK_THROWS_WITH(read_comparisons(head + "a,b,c,1,x,3,4\n", "e.csv"),
                    Catch::Contains("line 2: low: expected a number"));
}

// Numbers behind a name in every element of a kind: attributes(svg, "circle", "cx").
std::vector<double> attributes(const std::string& svg, const std::string& element, const std::string& name) {
  std::vector<double> values;
  for (size_t at = svg.find("<" + element + " "); at != std::string::npos; at = svg.find("<" + element + " ", at + 1)) {
    const size_t found = svg.find(" " + name + "=\"", at);
    if (found < svg.find('>', at)) values.push_back(std::strtod(svg.c_str() + found + name.size() + 3, nullptr));
  }
  return values;
}

TEST_CASE("a forest plot draws intervals to one scale, in the colour of their verdict", "[quick]") {
  const auto row = [](const char* name, double low, double mean, double high) {
    return ReportComparison{"a < b & c", name, "lm", {mean, low, high}, 0.25};
  };
  const std::vector<ReportComparison> rows = {
      row("worse", 0.25, 0.5, 0.75), row("better", -0.75, -0.5, -0.25),
      row("unclear", -0.5, 0, 0.5),  row("far", 90, 100, 110),
      row("half out", -40, 1, 0.5),  row("one seed", report_unknown, 0.1, report_unknown)};
  const std::string svg = forest_svg(rows, {.title = "t", .note = "", .times = false});
  CHECK(svg.starts_with("<svg"));
  CHECK_THAT(svg, Catch::Contains(">a &lt; b &amp; c</text>") && Catch::Contains(">lm</text>") &&
                      Catch::Contains("orange: worse, blue: better"));
  // Without an end there is no line. What lies beyond the axis is a number with an arrow, what crosses its end an
  // arrow.
  CHECK_THAT(svg, Catch::Contains("fill=\"#B34700\">+1e+02 ▶</text>"));
  CHECK(attributes(svg, "path", "fill").size() == 1);
  const std::vector<double> x = attributes(svg, "circle", "cx"), y = attributes(svg, "circle", "cy");
  REQUIRE(x.size() == 4);
  CHECK(x[0] - x[2] == Approx(x[2] - x[1]));
  const double unit = 2 * (x[0] - x[2]);
  CHECK(x[3] - x[2] == Approx(unit));
  CHECK(y[1] - y[0] == Approx(y[2] - y[1]));
  // Three lines of the axis stand before the intervals.
  const std::vector<double> from = attributes(svg, "line", "x1"), to = attributes(svg, "line", "x2");
  REQUIRE(from.size() == 7);
  CHECK(from[1] == Approx(x[2]));
  const double ends[][2] = {{0.25, 0.75}, {-0.75, -0.25}, {-0.5, 0.5}};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(from[3 + i] - x[2] == Approx(unit * ends[i][0]).margin(0.01));
    CHECK(to[3 + i] - x[2] == Approx(unit * ends[i][1]).margin(0.01));
  }
  const auto colour = [&](size_t line) {
    size_t at = 0;
    for (size_t i = 0; i <= line; ++i) at = svg.find("<line ", at + 1);
    return svg.substr(svg.find("stroke=", at) + 8, 7);
  };
  CHECK((colour(3) == "#B34700" && colour(4) == "#0060A0" && colour(5) == "#666666" && colour(6) == "#666666"));
  CHECK(attributes(svg, "rect", "width").back() == Approx(unit * 0.5));  // +-delta

  // Factors less 1: half of something lies as far from the middle as twice as much.
  const std::string times =
      forest_svg({row("twice", 0.9, 1, 1.1), row("half", -0.6, -0.5, -0.4), row("same", -0.1, 0, 0.1)},
                 {.title = "t", .note = "n", .times = true});
  const std::vector<double> of = attributes(times, "circle", "cx");
  REQUIRE(of.size() == 3);
  CHECK(of[0] - of[2] == Approx(of[2] - of[1]));
  CHECK_THAT(times, Catch::Contains(">1 x</text>") && Catch::Contains(">n</text>"));

  // More than 60 lines stand in columns.
  std::vector<ReportComparison> many;
  for (int group = 0; group < 9; ++group)
    for (int i = 0; i < 10; ++i)
      many.push_back({"group " + std::to_string(group), "row " + std::to_string(i), "lm", {0, -1, 1}, 0.1});
  const std::vector<double> all = attributes(forest_svg(many, {}), "circle", "cx");
  CHECK(all.size() == 90);
  CHECK(std::set<double>(all.begin(), all.end()).size() == 2);
}

TEST_CASE("a chip has as many points as the sweep", "[quick]") {
  if (no_library()) return;
  ReportInput input = report_with_company();
  CHECK_NOTHROW(make_report(input));
  input.chips[0].points.pop_back();
  CHECK_THROWS_AS(make_report(input), Error);
}

TEST_CASE("base64 follows RFC 4648", "[quick]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("columns keep every bit", "[quick]") {
  std::vector<double> floats, doubles;
  for (int i = 0; i < 100; ++i) {
    floats.push_back(static_cast<double>(static_cast<float>(1.0 / (i + 1))));
    doubles.push_back(1.0 / (i + 3));
  }
  ColumnPack pack;
  pack.table("t", 100);
  pack.numbers("floats", floats);
  pack.numbers("doubles", doubles);
  pack.numbers("few", std::vector<double>(100, -0.0));
  pack.words("words", std::vector<std::string>(100, "a"));
  const std::string bytes = pack.finish({{"schema", 1}});
  std::size_t header = 0;
  for (std::size_t k = 0; k < 4; ++k) header |= std::size_t{static_cast<unsigned char>(bytes[k])} << (8 * k);
  const nlohmann::json head = nlohmann::json::parse(bytes.substr(4, header));
  const auto& columns = head["tables"]["t"]["columns"];
  CHECK(columns["floats"]["width"] == 4);
  CHECK(columns["doubles"]["width"] == 8);
  CHECK(unpack_floats(bytes, columns["floats"], header) == floats);
  CHECK(unpack_floats(bytes, columns["doubles"], header) == doubles);
  CHECK(columns["few"]["values"].dump() == "[-0.0]");
  CHECK(columns["words"]["values"].size() == 1);
}

TEST_CASE("deflate_bytes is a zlib stream", "[quick]") {
  const std::string text(100000, 'x');
  const std::string packed = deflate_bytes(text);
  CHECK(packed.size() < 200);
  std::string back(text.size(), '\0');
  uLongf size = back.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(back.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK);
  CHECK(back == text);
}

TEST_CASE("curves are kept for front, baselines, the nearest and their references", "[quick]") {
  const ReportInput input = synthetic_report(2000, 3, {"regression", "lm"}, false);
  const std::set<std::string> kept = report_curve_hashes(input, 50);
  std::size_t wanted = 50;
  for (const ReportPoint& point : input.points) {
    if (!point.baseline && point.front != "on" && point.front != "undecided") continue;
    ++wanted;
    CHECK(kept.contains(point.config_hash));
  }
  CHECK(kept.size() == wanted);
}

TEST_CASE("of a screening the undominated keep their curves, not everything near", "[quick]") {
  const ReportInput input = synthetic_report(2000, 3, {"regression"}, true);
  const auto near = std::count_if(input.points.begin(), input.points.end(),
                                  [](const ReportPoint& point) { return point.front == "screening"; });
  CHECK(report_curve_hashes(input, 0).size() < static_cast<std::size_t>(near));
}

TEST_CASE("inputs that do not fit together are refused", "[quick]") {
  ReportInput input = synthetic_report(10, 3, {"lm"}, false);
  SECTION("unknown column") { input.y = "los_gap"; }
  SECTION("missing axis value") { input.points[4].axis_values.pop_back(); }
  SECTION("missing quality of a run") { input.runs[4].qualities.pop_back(); }
  SECTION("unknown front word") { input.points[4].front = "maybe"; }
  SECTION("configuration that is no JSON") { input.points[4].config = "{"; }
  SECTION("provenance that is no JSON") { input.provenance = "commit 1"; }
  if (no_library()) return;
  CHECK_THROWS_AS(make_report(input), Error);
}

TEST_CASE("every word of a front has its place on the page", "[quick]") {
  if (no_library()) return;
  ReportInput input = synthetic_report(10, 3, {"lm"}, false);
  const std::vector<std::string> words = {"on", "tied", "off", "undecided", "screening", ""};
  for (size_t i = 0; i < words.size(); ++i) input.points[i].front = words[i];
  CHECK_NOTHROW(make_report(input));
}

TEST_CASE("a name cannot leave its place in the HTML", "[quick]") {
  if (no_library()) return;
  ReportInput input = synthetic_report(10, 3, {"lm"}, false);
  input.name = "</title><script>alert(1)</script>{{data}}";
  const std::string page = make_report(input);
  CHECK(page.find("<script>alert(1)") == std::string::npos);
  CHECK(page.find("&lt;script&gt;alert(1)&lt;/script&gt;{{data}}") != std::string::npos);
}

TEST_CASE("the page carries the licences of the library in it", "[quick]") {
  if (no_library()) return;
  const std::string page = make_report(synthetic_report(10, 3, {"lm"}, false));
  for (const char* words : {"======== echarts/NOTICE", "======== echarts/licenses/LICENSE-d3",
                            "======== zrender/LICENSE", "======== tslib/LICENSE.txt", "Copyright (c) 2017, Baidu Inc."})
    CHECK(page.find(words) != std::string::npos);
}

TEST_CASE("people can explore the page in Chromium", "[cli]") {
  if (no_library()) {
    std::cout << "[test skipped]\n";
    return;
  }
  const char* build = std::getenv("FP4SIM_BUILD");
  const std::filesystem::path folder = std::filesystem::path(build != nullptr ? build : "build") / "report_pages";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const ReportInput& input) {
    const std::string page = make_report(input);
    CHECK(page.size() < 3'000'000);
    write_text(folder / name, page);
  };
  ReportInput small = synthetic_report(60, 5, {"classifier", "lm"}, false);
  small.name = "<img src=x onerror=window.hacked=1> & </script><script>window.hacked=2</script>";
  small.points[5].name = "<b onmouseover=window.hacked=3>bold</b>";
  for (ReportPoint& point : small.points)
    if (point.axis_values[2] == "stochastic") point.axis_values[2] = "<svg onload=window.hacked=4>{a|b}";
  small.provenance = R"({"command":"<script>window.hacked=5</script>","commit":"0123"})";
  write("small.html", small);
  write("nice.html", synthetic_report(60, 5, {"classifier", "lm"}, false));
  write("beside.html", report_with_company());
  // A sweep that has hardly begun, and one that failed throughout.
  ReportInput bare;
  bare.name = "bare";
  bare.cost_columns = {{"overhead", "share", ""}};
  bare.quality_columns = {{"loss_gap", "", ""}};
  write("empty.html", bare);
  ReportPoint point;
  point.task = "lm";
  point.config_hash = "0123456789abcdef";
  point.costs = {report_unknown};
  point.qualities = {{}};
  bare.points = {point};
  write("one.html", bare);
  ReportInput fallen = synthetic_report(60, 3, {"lm"}, false);
  fallen.curves.clear();
  fallen.effects.clear();
  for (ReportPoint& lost : fallen.points) {
    lost.diverged = 3;
    lost.seeds = 0;
    lost.front.clear();
    lost.qualities = {{}, {}, {}};
    lost.cost_terms.clear();
    lost.context = "lm, outliers.token=1.5 and more words than fit on a narrow screen " + lost.axis_values[0];
  }
  write("fallen.html", fallen);
  ReportInput open = synthetic_report(60, 5, {"lm"}, false);
  for (ReportPoint& point : open.points)
    if (point.front == "on") point.front = "undecided";
  write("undecided.html", open);
  // Two axes of few values: the scale and Wgrad's rounding, one point for each pair of values.
  ReportInput few = synthetic_report(60, 5, {"lm"}, false);
  few.answers = {{"lm", "At 5 % overhead nearest_even, ue5m3 loses 0.02."}};
  std::set<std::string> pairs;
  std::erase_if(few.points, [&](ReportPoint& point) {
    if (point.baseline) return false;
    for (std::size_t axis = 0; axis < point.axis_values.size(); ++axis)
      if (axis != 0 && axis != 2) point.axis_values[axis] = few.axes[axis].reference;
    return !pairs.insert(point.axis_values[0] + " " + point.axis_values[2]).second;
  });
  write("few.html", few);
  // A front of bf16 alone: what is quantised is near it, or beaten.
  for (const char* state : {"undecided", "off"}) {
    ReportInput plain = synthetic_report(60, 5, {"lm"}, false);
    for (ReportPoint& point : plain.points) {
      point.front = point.name == "bf16" ? "on" : point.front == "on" ? state : "off";
    }
    write((std::string("baseline_") + state + ".html").c_str(), plain);
  }
  write("screening.html", synthetic_report(2000, 2, {"classifier"}, true));
  write("runs.html", synthetic_report(5000, 4, {"classifier", "regression"}, false));
  write("large.html", synthetic_report(20000, 1, {"classifier"}, true));
  write_text(folder / "service.html", make_page("report/service.html", "<b>toy</b>", service_result));
  write_text(folder / "votes.html", make_page("report/service.html", "votes", votes_result));
  // Pictures of the pages, for people: they go to the folder that FP4_SHOTS names, where it does.
  const char* shots = std::getenv("FP4_SHOTS");
  const RunResult result = run_shell("node tests/test_report_page.mjs '" + folder.string() + "' " +
                                     (shots != nullptr ? "'" + std::string(shots) + "'" : ""));
  INFO(result.out << result.err);
  if (result.exit_code == 77) {
    std::cout << "[test skipped] " << result.out;
    return;
  }
  CHECK(result.exit_code == 0);

  // The figure of a study is drawn from the page itself.
  const std::string figure = (folder / "front.svg").string();
  const RunResult drawn =
      run_shell("node tools/scripts/figure.mjs '" + (folder / "large.html").string() + "' --out '" + figure + "'");
  INFO(drawn.out << drawn.err);
  REQUIRE(drawn.exit_code == 0);
  const std::string svg = read_text(figure);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("overhead (%)") != std::string::npos);
  CHECK(svg.size() < 1'000'000);
  CHECK(run_shell("node tools/scripts/figure.mjs '" + (folder / "nice.html").string() + "' --out '" + figure + "'")
            .exit_code == 0);
  const std::string panels = read_text(figure);  // one for each of the two tasks
  CHECK(panels.find("classifier") != std::string::npos);
  CHECK(panels.find("lm") != std::string::npos);
  CHECK(drawn.out.find(" 0 on the") == std::string::npos);
  CHECK(run_shell("node tools/scripts/figure.mjs '" + (folder / "large.html").string() + "' --out x.svg --y los")
            .exit_code == 2);
}

}  // namespace fp4::test
