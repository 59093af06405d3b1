// Comparisons of a study by hand, and the committed ones: every effects.csv, and every table of a page that has one, is
// what the program makes of the committed table and the study's file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "sweeps/judge/study.h"

using namespace fp4::sweeps;
using Catch::Matchers::Contains;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Two recipes on two tasks; on `a` the second one was judged at a second rate, too, at which it is better by an eighth.
const std::string table =
    "recipe,train.thing,task,role,n,loss_gap,config_hash,lr,at,runs\n"
    "one,x,a,run,4,0.5,h1,0.01,best,1:1:d 2:1.25:d 3:1.5:d 4:1.75:d\n"
    "two,x,a,run,4,0.7,h2,0.02,best,1:1.25:d 2:1.5:d 3:1.75:d 4:2:d\n"
    "two,x,a,run,4,0.6,h3,0.01,near best,1:1.125:d 2:1.375:d 3:1.625:d 4:1.875:d\n"
    "one,x,b,run,3,0.25,h4,0.01,best,1:1:d 2:1:d 3:1:d\n"
    "two,x,b,run,2,0.25,h5,0.01,best,1:1:d 2:diverged 3:1:d 4:1:d\n"
    "two,x,b,confirm,2,0.25,h5,0.01,best,1001:1:d 1002:failed\n";
const std::string study = R"({"doc": "d", "delta": {"share": 0.02, "of": "recipe=one"}, "rung_cost": {"a": 0.1},
  "groups": {"Group, of one": {"base": {"recipe": "one"}, "rows": {"two": {"recipe": "two", "thing": "x"}}}}})";

StudyResult judged(const std::string& tables, const std::string& json) {
  StudyTable rows;
  rows.add(tables, "t.csv");
  return judge_study(rows, json, "s.json");
}

std::string error_of(const std::string& tables, const std::string& json) {
  try {
    judged(tables, json);
  } catch (const fp4::Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a study by hand", "[quick]") {
  const StudyResult result = judged(table, study);
  CHECK(result.tasks == std::vector<std::string>{"a", "b"});
  REQUIRE(result.effects.size() == 2);
  const StudyEffect& a = result.effects[0];
  CHECK(a.task == "a");
  CHECK(a.comparison.summary.n == 4);
  CHECK(a.comparison.summary.mean == Approx(0.125));  // at its better rate
  CHECK(a.comparison.interval->low == Approx(0.125));
  CHECK(a.comparison.verdict == Verdict::worse);
  CHECK(a.comparison.delta == Approx(0.01));  // 2 % of .5
  CHECK(a.rates_differ);
  const StudyEffect& b = result.effects[1];
  CHECK(b.comparison.summary.n == 2);  // seeds 1 and 3; 2 diverged, 4 and the raced ones are the row's alone
  CHECK(b.comparison.diverged == 1);
  CHECK(b.comparison.verdict == Verdict::undecided);
  CHECK_FALSE(b.rates_differ);
  CHECK(study_csv(result) ==
        "group,name,task,n,mean,low,high,detectable,delta,verdict,reason,rates,diverged,base_diverged\n"
        "\"Group, of one\",two,a,4,0.125,0.125,0.125,0,0.01,worse,"
        "rates differ: beyond the .10 that a rung may cost,differ,0,0\n"
        "\"Group, of one\",two,b,2,0,,,,0.005,undecided,,equal,1,0\n");
  CHECK(study_table(result, "Group, of one") ==
        "| | a | b |\n|---|---|---|\n"
        "| two | **+.125000 [+.125000, +.125000]**† | 2 seeds, 1 against 0 diverged |\n"
        "| *would show from* | .000000 |  |\n\n"
        "† rates differ: the two settings' best learning rates are not the same.\n");
  const std::string page = "# Page\n\n<!-- effects: Group, of one -->\n\n| old |\n|---|\n\nText.\n";
  const std::string made = study_page(result, page, "p.md");
  CHECK_THAT(made, Contains("<!-- effects: Group, of one -->\n\n| | a | b |") && Contains("same.\n\nText.\n") &&
                       !Contains("old"));
  CHECK(study_page(result, made, "p.md") == made);
  CHECK_THROWS_WITH(study_page(result, "<!-- effects: other -->\n", "p.md"), Contains("p.md") && Contains("other"));
}

TEST_CASE("an interval at two rates has to end beyond what a rung may cost", "[quick]") {
  const auto effect = [](const std::string& rows, const std::string& cost) {
    return judged(rows, R"({)" + cost + R"("groups": {"g": {"base": "recipe=one", "rows": {"r": "recipe=two"}}}})")
        .effects.at(0);
  };
  const std::string head = "recipe,task,n,loss_gap,config_hash,lr,at,runs\n";
  const auto row = [](const std::string& recipe, const std::string& task, const std::string& rate, double loss,
                      const std::string& at = "best") {
    std::string runs;
    for (int seed = 1; seed <= 4; ++seed)
      runs += (seed > 1 ? " " : "") + std::to_string(seed) + ":" + std::to_string(loss + seed) + ":d";
    return recipe + "," + task + ",4,0," + recipe + rate + "," + rate + "," + at + "," + runs + "\n";
  };
  // .014 and .016 beside the classifier's .015; equal rates and a second rung of each side need no allowance.
  const StudyEffect near = effect(head + row("one", "classifier", "1", 1) + row("two", "classifier", "2", 1.014), "");
  CHECK(near.comparison.verdict == Verdict::undecided);
  CHECK(near.rung_cost == 0.015);
  CHECK_FALSE(near.beyond_rung);
  CHECK(effect(head + row("one", "classifier", "1", 1) + row("two", "classifier", "2", 1.016), "").comparison.verdict ==
        Verdict::worse);
  const StudyEffect same = effect(head + row("one", "classifier", "1", 1) + row("two", "classifier", "1", 1.014), "");
  CHECK(same.comparison.verdict == Verdict::worse);
  CHECK_FALSE(same.rung_cost.has_value());
  const StudyEffect rungs =
      effect(head + row("one", "classifier", "1", 1) + row("one", "classifier", "2", 1.5, "near best") +
                 row("two", "classifier", "2", 1.014) + row("two", "classifier", "1", 1.5, "near best"),
             "");
  CHECK(rungs.rates_differ);
  CHECK(rungs.comparison.verdict == Verdict::worse);
  CHECK(effect(head + row("one", "other", "1", 1) + row("two", "other", "2", 9), "").comparison.verdict ==
        Verdict::undecided);  // of another task nobody knows what a rung costs
  CHECK(effect(head + row("one", "other", "1", 1) + row("two", "other", "2", 9), R"("rung_cost": {"other": 7.5}, )")
            .comparison.verdict == Verdict::worse);
  CHECK_THROWS_WITH(effect(head + row("one", "a", "1", 1) + row("two", "a", "2", 9), R"("rung_cost": {"b": 1}, )"),
                    Contains("rung_cost") && Contains("'b'"));
  CHECK_THROWS_WITH(effect(head + row("one", "a", "1", 1) + row("two", "a", "2", 9), R"("rung_cost": {"a": -1}, )"),
                    Contains("rung_cost.a"));
}

TEST_CASE("a row may have a base of its own", "[quick]") {
  const StudyResult own = judged(table, R"({"groups": {"g": {"rows": {"r": ["recipe=two", "recipe=one"]}}}})");
  const StudyResult shared = judged(table, R"({"groups": {"g": {"base": "recipe=one", "rows": {"r": "recipe=two"}}}})");
  CHECK(study_csv(own) == study_csv(shared));
  // Such a study has marks of its own on a page, and leaves those of the page's study alone.
  CHECK_THAT(study_page(own, "<!-- effects: h -->\n\n<!-- turned: g -->\n", "p.md"),
             Contains("<!-- effects: h -->\n\n<!-- turned: g -->\n\n| | a | b |"));
}

TEST_CASE("published orders beside those of a table", "[quick]") {
  // Means over the base are .1, .2 and .4; seed 4 of `c` diverged, so seeds 1 to 3 count.
  const std::string rows =
      "recipe,task,n,loss_gap,config_hash,lr,at,runs\n"
      "base,t,4,0,h0,1,best,1:1:d 2:1:d 3:1:d 4:1:d\n"
      "a,t,4,0,h1,1,best,1:1.1:d 2:1.1:d 3:1.1:d 4:9:d\n"
      "b,t,4,0,h2,1,best,1:1.2:d 2:1.2:d 3:1.2:d 4:1:d\n"
      "c,t,4,0,h3,1,best,1:1.4:d 2:1.4:d 3:1.4:d 4:diverged\n";
  const auto json = [](const std::string& numbers) {
    return R"({"groups": {"g": {"base": "recipe=base", "rows": {"a": "recipe=a"}}}, "orders": {"O": {"source": "s",
      "what": "loss", "noise": "±1", "base": "recipe=base", "rows": )" +
           numbers + "}}}";
  };
  const StudyResult result =
      judged(rows, json(R"({"a": ["recipe=a", 1], "c": ["recipe=c", 2], "b": ["recipe=b", 3]})"));
  REQUIRE(result.orders.size() == 1);
  const fp4::sweeps::Agreement& found = result.orders[0].agreement;
  CHECK(result.orders[0].task == "t");
  CHECK(found.ours == std::vector<std::string>{"a", "b", "c"});
  CHECK(found.all.value == Approx(1.0 / 3));
  const std::string page = study_page(result, "<!-- orders -->\n\n| old |\n\nText.\n", "p.md");
  CHECK_THAT(page, Contains("| O | loss | ±1 | 3 of 3 | .33 [.33, .33] | .33 | .50 | a, b, c |\n\nText.\n") &&
                       !Contains("old"));
  CHECK(study_page(result, page, "p.md") == page);
  CHECK_THAT(error_of(rows, json(R"({"a": "recipe=a"})")), Contains("orders.O.rows.a") && Contains("NUMBER"));
  // Two sizes of one method are one row: the mean over both, .1 and .4 of `a` and `c` against .2 of `b` at both.
  const StudyResult sizes = judged(rows, R"({"groups": {"g": {"base": "recipe=base", "rows": {"a": "recipe=a"}}},
    "orders": {"O": {"source": "s", "what": "loss", "noise": "", "base": ["recipe=base", "recipe=base"],
    "rows": {"a at two": [["recipe=a", "recipe=c"], 1], "b at two": [["recipe=b", "recipe=b"], 2]}}}})");
  REQUIRE(sizes.orders.size() == 1);
  CHECK(sizes.orders[0].agreement.ours == std::vector<std::string>{"b at two", "a at two"});
}

TEST_CASE("mistakes of a study are told with their place", "[quick]") {
  const auto with = [](const std::string& base) {
    return R"({"groups": {"g": {"base": )" + base + R"(, "rows": {"r": "recipe=two"}}}})";
  };
  CHECK(error_of(table, with(R"("recipe=one")")) == "accepted");
  CHECK_THAT(error_of(table, with(R"("recipe=three")")), Contains("s.json: groups.g.base") && Contains("three"));
  CHECK_THAT(error_of(table, with(R"("recpe=one")")), Contains("recpe") && Contains("recipe"));
  CHECK_THAT(error_of(table, with(R"("thing=x")")), Contains("names several configurations of a"));
  CHECK_THAT(error_of(table, with(R"("recipe")")), Contains("COLUMN=VALUE"));
  CHECK_THAT(error_of(table, with("3")), Contains("groups.g.base"));
  CHECK_THAT(error_of(table, R"({"group": {}})"), Contains("'group'") && Contains("groups"));
  CHECK_THAT(error_of(table, R"({"groups": {"g": {"rows": {}}}})"), Contains("missing key 'base'"));
  CHECK_THAT(error_of(table, R"({"groups": {"g": {"base": "recipe=one", "rows": {"a": "recipe=two", "b": ["recipe=two",
                                "recipe=one"]}}}})"),
             Contains("groups.g.rows.b: expected SETTINGS in all rows"));
  CHECK_THAT(error_of(table, R"({"groups": "wgrd"})"), Contains("s.json: groups") && Contains("'wgrad'"));
  // Its groups are another's, which takes them itself; and settings that are not in the table are told with the owner.
  CHECK_THAT(error_of(table, R"({"groups": "wgrad_held_back"})"), Contains("wgrad_held_back: groups: expected"));
  CHECK_THAT(error_of(table, R"({"groups": "wgrad"})"), Contains("study wgrad: groups."));
  CHECK_THAT(error_of("a,b\n1,2\n", study), Contains("t.csv") && Contains("no column 'task'"));
  CHECK_THAT(error_of(table + "short,row\n", study), Contains("t.csv, line 8"));
  CHECK_THAT(error_of(table, "{"), Contains("s.json"));
}

// `tools/study.sh NAME` makes them; ptq has two tables, orders has those of other studies.
TEST_CASE("the committed effects are those of the committed tables", "[quick]") {
  size_t studies = 0;
  for (const std::string& name : fp4::named_json("studies")) {
    const bool is_turned = name.ends_with("_turned");  // `tools/study.sh NAME --turned`: tables on NAME's page
    const std::filesystem::path folder =
        std::filesystem::path("results") / (is_turned ? name.substr(0, name.size() - 7) : name);
    INFO(name);
    const fp4::NamedText file = fp4::open_named_json(name, "studies", "study");
    StudyTable rows;
    std::vector<std::filesystem::path> tables = {folder / "table.csv"};
    if (std::filesystem::exists(folder / "table_lm.csv")) tables.push_back(folder / "table_lm.csv");
    if (const auto json = fp4::parse_json(file.text, file.place); json.contains("tables")) {
      tables.clear();
      for (const auto& table_file : json.at("tables"))
        tables.push_back(std::filesystem::path("results") / table_file.get<std::string>());
    }
    if (is_turned && !std::filesystem::exists(folder / "turned_effects.csv")) continue;  // not made yet
    for (const std::filesystem::path& path : tables) {
      REQUIRE(std::filesystem::exists(path));
      rows.add(read(path), path.string());
    }
    const StudyResult result = judge_study(rows, file.text, file.place);
    CHECK(study_csv(result) == read(folder / (is_turned ? "turned_effects.csv" : "effects.csv")));
    CHECK(study_page(result, read(folder / "README.md"), "README.md") == read(folder / "README.md"));
    ++studies;
  }
  CHECK(studies >= 25);
}
