// Does a simulated service do what its rules say? A run worked by hand, votes and choices by hand, traces against the
// integrals of their rates.
#include <catch2/catch.hpp>
#include <cmath>

#include "src/text/error.h"
#include "sweeps/serve/service.h"
#include "tests/support/support.h"

using namespace fp4::serve;
using Catch::Matchers::Contains;

namespace {

constexpr Nanoseconds ms = 1000000;

// Three members, three classes; examples 0 .. 3 calibrate, seven requests ask about 4 .. 10. By hand:
//   A names 0 0 1 1 where 0 0 1 1 is right: accuracy 1, weights (2+1)/(2+2) = .75 for 0, .75 for 1, 1/2 for 2
//   B names 0 1 1 0:                        accuracy .5, weights (1+1)/(2+2) = .5, .5, .5
//   C names 0 0 0 1:                        accuracy .75, weights (2+1)/(3+2) = .6, (1+1)/(1+2) = 2/3, .5
// so the ranks are A, C, B. A request costs A 1 $/s * 3 ms = .003 $, the others .5 $/s * 1.5 ms = .00075 $.
Pool pool_of_three() {
  Pool pool;
  pool.labels = {0, 0, 1, 1, 1, 1, 1, 1, 2, 1, 1};
  pool.calibration = 4;
  pool.members = {
      {.name = "A", .answers = {0, 0, 1, 1, 0, 0, 1, 2, 1, 1, 0}, .batch = {4 * ms, 6 * ms}, .price_per_hour = 3600},
      {.name = "B", .answers = {0, 1, 1, 0, 1, 1, 0, 0, 2, 1, 0}, .batch = {2 * ms, 3 * ms}, .price_per_hour = 1800},
      {.name = "C", .answers = {0, 0, 0, 1, 1, 0, 0, 1, 2, 1, 1}, .batch = {2 * ms, 3 * ms}, .price_per_hour = 1800}};
  learn(pool);
  return pool;
}

constexpr size_t A = 0, B = 1, C = 2;
using Set = std::vector<size_t>;

const PolicyRow& policy(const std::string& name) {
  for (const PolicyRow& row : policy_table)
    if (row.name == name) return row;
  throw fp4::Error(name);
}

}  // namespace

TEST_CASE("votes, weights and ranks are those of a hand calculation", "[quick]") {
  const Pool pool = pool_of_three();
  CHECK(pool.ranked() == Set{A, C, B});
  CHECK(pool.members[A].class_weight == std::vector<double>{0.75, 0.75, 0.5});
  CHECK(pool.members[B].class_weight == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(pool.members[C].class_weight == std::vector<double>{3.0 / 5, 2.0 / 3, 0.5});
  CHECK(pool.members[A].cost == Approx(0.003));
  const Set all = {A, C, B};
  // Example 7: A says 2, C 1, B 0. By majority the first of three equals; by weights C's 2/3 against .5 and .5.
  CHECK(answer_of(pool, all, false, 7) == 2);
  CHECK(answer_of(pool, all, true, 7) == 1);
  // Example 4: A says 0 (.75), C and B 1 (2/3 + .5).
  CHECK(answer_of(pool, all, true, 4) == 1);
  // On the calibration examples C and B are weighed .6:.5, .6:.5, .6:.5, 2/3:.5: C's answers, of which 3 are right.
  CHECK(share_right(pool, Set{C, B}, true, 0, 4) == 0.75);
}

// All members answer each request, votes are weighted, instances are transient at half the price.
//
//    ms   A (4 ms alone, 6 ms two)      B (2 ms, 3 ms)                        C (2 ms, 3 ms)
//     0   #0 ready                      #1 ready                              #2 ready
//     1   r0 arrives: #0 until 5        #1 until 3                            #2 until 3
//     2   r1 arrives, waits             waits                                 waits
//     3   r2 arrives, waits             r0 done, r1 alone until 5, then r2    as B
//                                       arrives and waits
//     5   r0 ANSWERED; r1, r2 until 11  r1 done, r2 until 7                   as B
//     6   r3, r4, r5 arrive, wait       wait                                  wait
//     7                                 r2 done; r3, r4 begin; #1 LOST:       r2 done; r3, r4 until 10
//                                       r3, r4 before r5; #3 until 17 to start
//     8   tick: 6 requests in 8 ms are 750/s; A needs 750 * 3 ms = 2.25 instances, B and C 1.125:
//         #4, #5 launched (start at 18) #6 launched (#3 counts)               #7 launched
//     9   r6 arrives, waits             waits                                 waits
//    10                                                                       r3, r4 done; r5, r6 until 13
//    11   r1, r2 ANSWERED; r3, r4 until 17
//    13                                                                       r5, r6 done
//    16   tick: 1 request in 8 ms is 125/s; each needs one instance: #5, #4 (A), #6 (B) and #7 (C) stop, not yet
//    started 17   r3, r4 done; r5, r6 until 23  #3 started; r3, r4 until 20 20                                 r3, r4
//    ANSWERED; r5, r6 until 23 23   r5, r6 ANSWERED, end          r5, r6 done
//
// In use: A 23 + 8 + 8 = 39 ms at 1 $/s, B 7 + 16 + 8 = 31 ms and C 23 + 8 = 31 ms at .5 $/s: .070 $, half of it .035
// $. Batches begun: A 4, B 6, C 5.
TEST_CASE("a service does event by event what a hand-worked trace does", "[quick]") {
  const Pool pool = pool_of_three();
  const PolicyRow row = {"all", MemberChoice::all, true, Scaling::measured, true, "", ""};
  const std::vector<Target> targets = {{0.6, 14 * ms, 1}};
  std::vector<Request> requests;
  for (const int at : {1, 2, 3, 6, 6, 6, 9})
    requests.push_back({at * ms, 0, static_cast<uint32_t>(4 + requests.size())});
  const ServiceRules rules = {.start_up = 10 * ms,
                              .tick = 8 * ms,
                              .utilisation = 1,
                              .transient_price = 0.5,
                              .mean_rate = 100,
                              .policy = {},
                              .lifetime = [](size_t number) { return number == 1 ? 7 * ms : never; }};
  const Served served = run_service(row, pool, targets, requests, rules);

  std::vector<Nanoseconds> at;
  std::vector<int32_t> answers;
  std::vector<bool> right;
  for (const Answered& a : served.answers) {
    at.push_back(a.at / ms), answers.push_back(a.answer), right.push_back(a.is_right);
    CHECK(a.members == 3);
  }
  CHECK(at == std::vector<Nanoseconds>{5, 11, 11, 20, 20, 23, 23});
  // Weights for 4: 0 .75, 1 .5 + 2/3; 5: 0 .75 + .6, 1 .5; 6: 1 .75, 0 .5 + .6; 7: .5, .5, 2/3; 8: 1 .75, 2 .5 + .5;
  // 9: all say 1; 10: 0 .75 + .5, 1 2/3.
  CHECK(answers == std::vector<int32_t>{1, 0, 0, 1, 2, 1, 0});
  CHECK(right == std::vector<bool>{true, false, false, true, true, true, false});
  CHECK(served.end == 23 * ms);
  CHECK(served.launched == 8);
  CHECK(served.lost == 1);
  CHECK(served.repeated == 2);
  CHECK(served.batches == 15);
  CHECK(served.cost == Approx(0.035).epsilon(1e-12));

  // Waits 4, 9, 8, 14, 14, 17, 14 ms: six in time. Windows of three: r0 .. r2 with one right miss .6, the other four,
  // with three right, meet it; of these r3, r4 and r6 are in time.
  const Figures f = figures_of(served, requests, targets, 3, 0);
  CHECK(f.p50_ms == 14);
  CHECK(f.p95_ms == 17);
  CHECK(f.met_latency == Approx(6.0 / 7));
  CHECK(f.met_accuracy == Approx(4.0 / 7));
  CHECK(f.met_both == Approx(3.0 / 7));
  CHECK(f.accuracy == Approx(4.0 / 7));
  CHECK(f.cost_per_million == Approx(5000));
}

TEST_CASE("a member that nobody asked before starts an instance at the request", "[quick]") {
  const Pool pool = pool_of_three();
  // A mean rate of 0: nothing is ready. C is launched at 1 ms, starts at 11 and answers at 13.
  const ServiceRules rules = {.start_up = 10 * ms, .tick = 100 * ms, .mean_rate = 0, .policy = {}, .lifetime = {}};
  const std::vector<Target> targets = {{0.7, 20 * ms, 1}};
  const Served served = run_service(policy("infaas"), pool, targets, {{1 * ms, 0, 4}}, rules);
  CHECK(served.answers[0].at == 13 * ms);
  CHECK(served.cost == Approx(0.012 * 0.5));
}

TEST_CASE("policies choose the members that their rows promise", "[quick]") {
  const Pool pool = pool_of_three();
  const auto chosen = [&](const char* name, double accuracy, Nanoseconds latency) {
    const std::vector<Target> targets = {{accuracy, latency, 1}};
    return Chooser(policy(name), pool, targets, {}).members(0);
  };
  // A batch of one may take half of the latency: A's 4 ms fit into 8.
  CHECK(chosen("single", 0.7, 8 * ms) == Set{A});
  CHECK(chosen("single", 0.7, 8 * ms - 1) == Set{C});
  CHECK(chosen("full", 0.7, 8 * ms) == Set{A, C, B});
  CHECK(chosen("infaas", 0.7, 8 * ms) == Set{C});
  CHECK(chosen("infaas", 0.9, 8 * ms) == Set{A});
  CHECK(chosen("infaas", 0.9, 7 * ms) == Set{C});  // the most accurate of those in time
  CHECK(chosen("infaas", 0.9, 1 * ms) == Set{B});  // none is in time: the fastest
  CHECK(chosen("cocktail", 0.7, 8 * ms) == Set{C});
  CHECK(chosen("cocktail", 0.9, 8 * ms) == Set{A});    // C with B reaches .75
  CHECK(chosen("clipper", 0.9, 7 * ms) == Set{C, B});  // none is accurate enough: all
}

TEST_CASE("cocktail's sets shrink above the margin and grow below the target", "[quick]") {
  const Pool pool = pool_of_three();
  const std::vector<Target> targets = {{0.7, 8 * ms, 1}};
  Chooser chooser(policy("cocktail"), pool, targets, {.margin = 0.1, .window = 4});
  const auto hear = [&](std::initializer_list<bool> answers) {
    for (const bool right : answers) chooser.heard(0, right);
    chooser.tick();
    return chooser.members(0);
  };
  CHECK(hear({false, false, false}) == Set{C});     // three answers are no window of four
  CHECK(hear({true}) == Set{A, C});                 // 1 of 4 lies below .7: the most accurate of the others
  CHECK(hear({true, true, true}) == Set{A, C});     // forgotten with the change
  CHECK(hear({false}) == Set{A, C});                // 3 of 4 lies between .7 and .8
  CHECK(hear({true, true, true, true}) == Set{A});  // 4 of 4: the least accurate goes
  CHECK(hear({true, true, true, true}) == Set{A});  // one stays
}

TEST_CASE("forecasts and instance counts are those of their formulas", "[quick]") {
  Forecast f(10);
  f.add(20);  // level .5 * 20 + .5 * 10 = 15, trend .3 * 5 = 1.5
  CHECK(f.ahead(2) == Approx(18));
  f.add(20);  // level .5 * 20 + .5 * 16.5 = 18.25, trend .3 * 3.25 + .7 * 1.5 = 2.025
  CHECK(f.ahead(1) == Approx(20.275));
  f.add(0), f.add(0), f.add(0);
  CHECK(f.ahead(100) == 0);
  const Member member = {.batch = {4 * ms, 6 * ms}};  // 3 ms a request in full batches
  CHECK(instances_for(member, 0, 0.5) == 0);
  CHECK(instances_for(member, 1, 0.5) == 1);
  CHECK(instances_for(member, 1000, 0.5) == 6);
  CHECK(instances_for(member, 1001, 0.5) == 7);
}

TEST_CASE("traces follow the integrals of their rates", "[quick]") {
  const std::vector<Target> targets = {{0.5, ms, 3}, {0.6, ms, 1}};
  const auto count = [&](const TraceSettings& s, double from, double to) {
    double n = 0;
    for (const Request& r : draw_requests(s, targets, 10, 20, 5)) {
      const double t = static_cast<double>(r.at) / second;
      n += std::fmod(t, s.period) >= from && std::fmod(t, s.period) < to;
    }
    return n;
  };
  const auto is_near = [](double n, double expected) { return std::abs(n - expected) < 4 * std::sqrt(expected); };
  TraceSettings s = {.kind = Arrivals::poisson, .rate = 200, .seconds = 100, .period = 20};
  CHECK(is_near(count(s, 0, 20), 20000));
  CHECK(is_near(count(s, 0, 5), 5000));
  // The integral of 1 + d sin over the first half of a period P is P/2 + d P/pi.
  s = {.kind = Arrivals::diurnal, .rate = 200, .seconds = 100, .period = 20, .depth = 0.8};
  CHECK(is_near(count(s, 0, 10), 5 * 200 * (10 + 0.8 * 20 / 3.14159265)));
  CHECK(is_near(count(s, 10, 20), 5 * 200 * (10 - 0.8 * 20 / 3.14159265)));
  s = {.kind = Arrivals::bursts, .rate = 100, .seconds = 100, .period = 20, .length = 5, .factor = 4};
  CHECK(is_near(count(s, 0, 5), 5 * 5 * 400));
  CHECK(is_near(count(s, 5, 20), 5 * 15 * 100));

  const std::vector<Request> requests = draw_requests(s, targets, 10, 20, 5);
  double first = 0;
  for (const Request& r : requests) {
    REQUIRE((r.example >= 10 && r.example < 20));
    first += r.target == 0;
  }
  CHECK(is_near(first, 0.75 * static_cast<double>(requests.size())));
  CHECK(requests.back().at == draw_requests(s, targets, 10, 20, 5).back().at);
  CHECK(requests.back().at != draw_requests(s, targets, 10, 20, 6).back().at);

  double sum = 0;
  for (uint64_t i = 0; i < 4000; ++i) sum += static_cast<double>(drawn_lifetime(36, i, 1)) / second;
  CHECK(std::abs(sum / 4000 - 100) < 4 * 100 / std::sqrt(4000));
  CHECK(drawn_lifetime(0, 3, 1) == never);
}

TEST_CASE("arrivals of a file are read, or refused with line and word", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  const std::vector<Target> targets = {{0.5, ms, 1}, {0.6, ms, 1}};
  const auto read = [&](const char* text) {
    fp4::test::write_text(folder / "t.csv", text);
    return draw_requests({.kind = Arrivals::csv, .file = folder / "t.csv"}, targets, 0, 1, 1);
  };
  const std::vector<Request> requests = read("arrival_s,target\n0.5,1\n1.25,0\n");
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].at == 500 * ms);
  CHECK(requests[0].target == 1);
  CHECK(requests[1].at == 1250 * ms);
  CHECK_THROWS_WITH(read("time\n1\n"), Contains("t.csv: line 1") && Contains("arrival_s"));
  CHECK_THROWS_WITH(read("arrival_s\n1\nx\n"), Contains("line 3") && Contains("'x'"));
  CHECK_THROWS_WITH(read("arrival_s\n2\n1\n"), Contains("line 3") && Contains("order"));
  CHECK_THROWS_WITH(read("arrival_s,target\n1,2\n"), Contains("line 2") && Contains("'2'"));
  CHECK_THROWS_WITH(read("arrival_s\n"), Contains("no arrival"));
  CHECK_THROWS_WITH(draw_requests({.kind = Arrivals::csv, .file = folder / "none.csv"}, targets, 0, 1, 1),
                    Contains("none.csv"));
}
