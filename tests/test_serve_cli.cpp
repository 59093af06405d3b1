// The command `serve`: checkpoints in, tables out, the same bytes each time; messages for whoever mistypes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

// Networks of two widths and a service of them in a folder.
struct Fixture {
  test::TemporaryFolder folder;
  Json service = {
      {"name", "toy"},
      {"model", "resnet50"},
      {"members",
       {{{"checkpoint", "a.ck"}, {"recipe", "bf16"}},
        {{"checkpoint", "a.ck"},
         {"recipe", {{"base", "mxfp4@fprop"}, {"name", "sr"}, {"fprop", {{"*", {{"rounding", "stochastic"}}}}}}},
         {"rounding_seeds", {1, 2}},
         {"group", "sr"}},
        {{"checkpoint", "b.ck"}, {"recipe", "nvfp4@weights"}, {"model", "resnet18"}}}},
      {"targets", {{{"accuracy", 0.6}, {"latency_ms", 100}}, {{"accuracy", 0.8}, {"latency_ms", 200}}}},
      {"trace", {{"arrivals", "bursts"}, {"rate", 60}, {"seconds", 20}, {"period", 10}}},
      {"instance", {{"share", 0.001}, {"losses_per_hour", 600}, {"start_up_s", 1}, {"tick_s", 1}}}};
  Fixture() {
    train("a.ck", "--seed 1 --set width=32 --set data_seed=9");
    train("b.ck", "--seed 2 --set width=16 --set data_seed=9");
  }
  void train(const std::string& name, const std::string& more) {
    REQUIRE(test::run_cli("train --task classifier --recipe bf16 --steps 60 --quiet --force " + more +
                          " --checkpoint " + (folder / name))
                .exit_code == 0);
  }
  test::RunResult serve(const std::string& more) {
    test::write_text(folder / "s.json", service.dump());
    return test::run_cli("serve " + (folder / "s.json") + " " + more);
  }
};

}  // namespace

TEST_CASE("serve prints what policies cost and meet, twice the same", "[cli]") {
  Fixture f;
  const test::RunResult text = f.serve("--seeds 3");
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  for (const char* word : {"single", "full", "clipper", "infaas", "cocktail", "a sr #2", "in time"})
    CHECK_THAT(text.out, Contains(word));
  size_t longest = 0, length = 0;
  for (const char c : text.out) length = c == '\n' ? 0 : length + 1, longest = std::max(longest, length);
  CHECK(longest <= 80);
  CHECK(f.serve("--seeds 3").out == text.out);

  const Json json = Json::parse(f.serve("--seeds 3 --policies full,infaas --json").out);
  REQUIRE(json["policies"].size() == 2);
  CHECK(json["members"].size() == 4);
  for (const Json& policy : json["policies"]) {
    CHECK(policy["cost_per_million"]["seeds"].size() == 3);
    CHECK(policy["met_both"]["mean"] <= policy["met_latency"]["mean"]);
    CHECK(policy["cost_per_million"]["interval"][0] <= policy["cost_per_million"]["mean"]);
  }
  CHECK(json["policies"][0]["members"]["mean"] == 4);
  CHECK(json["policies"][1]["members"]["mean"] == 1);

  // Votes of one member are its own answers; the group of two stands twice.
  const Json votes = Json::parse(f.serve("--votes --json").out)["votes"];
  REQUIRE(votes.size() == 4);
  CHECK(votes[0]["majority"] == votes[0]["mean"]);
  CHECK(votes[2]["group"] == "sr");
  CHECK(votes[2]["members"] == 2);
  CHECK_THAT(f.serve("--votes --as csv").out, Contains("group,members,mean of one,majority,weighted,$ a million"));
}

TEST_CASE("requests and the page of a service are those of its tables", "[cli]") {
  Fixture f;
  const std::string csv = f.folder / "requests.csv", page = f.folder / "page.html";
  const test::RunResult run = f.serve("--seeds 2 --policies infaas --json --requests " + csv + " --out " + page);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const std::string text = test::read_text(csv);
  CHECK_THAT(text, Contains("policy,request,arrival_s,target") && Contains("infaas,0,"));
  // The lines are the first of the two traces.
  std::istringstream lines(text);
  double right = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) right += line.ends_with(",1");
  const Json accuracy = Json::parse(run.out)["policies"][0]["accuracy"];
  CHECK(right / (count - 1) == Approx(accuracy["seeds"][0].get<double>()));
  CHECK(accuracy["seeds"][0] != accuracy["seeds"][1]);
  CHECK_THAT(test::read_text(page), Contains("<title>toy") && !Contains("{{"));

  CHECK_THAT(f.serve("--seeds 1 --policies infaas --out " + page).err, Contains("page.html") && Contains("--force"));
  CHECK(f.serve("--votes --force --out " + page).exit_code == 0);
  CHECK_THAT(f.serve("--votes --requests " + csv).err, Contains("--votes"));
}

TEST_CASE("serve names file, place and word of what it refuses", "[cli]") {
  Fixture f;
  const auto refused = [&](const std::string& more = "--seeds 1") {
    const test::RunResult result = f.serve(more);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(refused("--policies cocktial"), Contains("cocktial") && Contains("cocktail"));
  const Json good = f.service;
  f.service["trace"]["arrivals"] = "poison";
  CHECK_THAT(refused(), Contains("s.json: trace.arrivals") && Contains("poisson"));
  f.service = good, f.service["trace"]["arrivals"] = "csv";
  CHECK_THAT(refused(), Contains("file"));
  f.service = good, f.service["targets"][1].erase("latency_ms");
  CHECK_THAT(refused(), Contains("targets[1]") && Contains("latency_ms"));
  f.service = good, f.service["members"][1]["model"] = "resnet5";
  CHECK_THAT(refused(), Contains("resnet5") && Contains("resnet50"));
  f.service = good, f.service["members"][0]["rounding_seeds"] = {4, 4};
  CHECK_THAT(refused(), Contains("rounding_seeds[1]") && Contains("twice"));
  f.service = good, f.service["members"][0]["checkpoint"] = "none.ck";
  CHECK_THAT(refused(), Contains("none.ck"));
  f.service = good;
  f.train("b.ck", "--seed 2 --set width=16 --set data_seed=8");
  CHECK_THAT(refused(), Contains("b.ck") && Contains("data_seed"));
}

TEST_CASE("a service without a name has the one that its fields' page states", "[cli]") {
  Fixture f;
  f.service.erase("name");
  const test::RunResult text = f.serve("--seeds 2 --policies full");
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  CHECK(text.out.starts_with("service: 4 members on "));
  CHECK(Json::parse(f.serve("--seeds 2 --policies full --json").out).at("service") == "service");
}
