// The recommender's parts beside hand calculations: rows of tables and their updates, data, files, metrics; a run that
// stops and goes on. Its digests stand in test_digests.cpp, the operation `interaction` in test_ops.cpp.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/net/layers.h"
#include "sim/train/checkpoint.h"
#include "tasks/clicks.h"
#include "tasks/run.h"
#include "tasks/task_data.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::sim;
using test::TemporaryFolder;
using test::write_text;

namespace {

// A table [4, 2] with 1 2 | 3 4 | 5 6 | 7 8 and the gradients 3 4 of row 2.
struct SmallTable {
  explicit SmallTable(const TableRules& rules) {
    table = parameters.declare_table("tables", 4, 2, {}, rules);
    parameters.allocate(kernels(), 1);
    for (int i = 0; i < 8; ++i) parameters.value(table).data[i] = static_cast<float>(i + 1);
    parameters.gradient(table)[4] = 3, parameters.gradient(table)[5] = 4;
  }
  std::vector<float> values() const {
    const Tensor t = parameters.value(table);
    return {t.data, t.data + t.size()};
  }
  Parameters parameters;
  int table;
};

Json small(const Json& task, int steps = 6) {
  Json section = {{"name", "recommender"}, {"rows", 50}, {"tables", 3}, {"embedding", 16}, {"data_seed", 5}};
  section.update(task);
  return tasks::canonical(
      {{"task", section}, {"recipe", "mxfp4"}, {"train", {{"steps", steps}, {"batch", 32}, {"curve_points", 2}}}});
}

}  // namespace

TEST_CASE("rows with a gradient move by row-wise Adagrad, the others stay", "[quick]") {
  SmallTable t({RowFormat::fp32, RowUpdate::master, 2.0f});
  std::vector<float> squares(16, 0.0f);
  const Dispatcher backend;
  TableScratch scratch;
  // h = (9 + 16)/2 = 12.5, factor .1 * 2 / (sqrt(12.5) + 0) = .2 / 3.5355
  REQUIRE(update_tables(t.parameters, kernels(), backend, squares.data(), {0.1f, 0.0f, 1.0f, 1, 1}, scratch));
  CHECK(squares[4] == 12.5f);
  const std::vector<float> after = t.values();
  for (const int i : {0, 1, 2, 3, 6, 7}) CHECK(after[static_cast<size_t>(i)] == static_cast<float>(i + 1));
  CHECK(after[4] == Approx(5 - 0.2 / std::sqrt(12.5) * 3));
  CHECK(after[5] == Approx(6 - 0.2 / std::sqrt(12.5) * 4));
  // Once more, gradients carry a loss scale of 2: h += 12.5 / 4
  REQUIRE(update_tables(t.parameters, kernels(), backend, squares.data(), {0.1f, 0.0f, 0.5f, 1, 2}, scratch));
  CHECK(squares[4] == 15.625f);
  CHECK(t.values()[4] == Approx(static_cast<double>(after[4]) - 0.2 / std::sqrt(15.625) * 1.5));
}

TEST_CASE("a stored table holds numbers of its format, and stochastic updates are right in the mean", "[quick]") {
  // bf16 has steps of 2^-5 at 5: 5 - .2/sqrt(12.5)*3*.01 = 4.9983 stays 5 by nearest even.
  SmallTable nearest({RowFormat::bf16, RowUpdate::nearest_even, 1.0f});
  std::vector<float> squares(16, 0.0f);
  const Dispatcher backend;
  TableScratch scratch;
  const float lr = 0.002f;
  update_tables(nearest.parameters, kernels(), backend, squares.data(), {lr, 0.0f, 1.0f, 1, 1}, scratch);
  CHECK(nearest.values()[4] == 5.0f);
  const double wanted = static_cast<double>(lr) / std::sqrt(12.5) * 3;
  double moved = 0;
  constexpr int trials = 4000;
  for (int seed = 0; seed < trials; ++seed) {
    SmallTable t({RowFormat::bf16, RowUpdate::stochastic, 1.0f});
    std::fill(squares.begin(), squares.end(), 0.0f);
    update_tables(t.parameters, kernels(), backend, squares.data(), {lr, 0.0f, 1.0f, static_cast<uint64_t>(seed), 1},
                  scratch);
    const float v = t.values()[4];
    CHECK((v == 5.0f || v == 5.0f - 0x1p-5f));
    moved += 5.0 - static_cast<double>(v);
  }
  CHECK(moved / trials == Approx(wanted).epsilon(0.35));  // its SD is 7 % of it
}

TEST_CASE("a bag's gradient is given to each of its rows", "[quick]") {
  SmallTable t({RowFormat::fp32, RowUpdate::master, 1.0f});
  Arena arena;
  Pass pass;
  Tape tape(arena, kernels(), pass);
  const Dispatcher backend;
  TableScratch scratch;
  const int32_t ids[] = {1, 1, 3, 0}, first[] = {0, 3, 3, 4, 4};  // 1 + 1 + 3 | none | 0 | none, two side by side
  const Var table = t.parameters.variable(tape, t.table);
  const Var y = embedding_bags(tape, backend, BagOrder::exact, {}, {ids, first, 4}, 2, table);
  REQUIRE((y->value.rows == 2 && y->value.cols == 4));
  const std::vector<float> sums(y->value.data, y->value.data + 8);
  CHECK(sums == std::vector<float>{3 + 3 + 7, 4 + 4 + 8, 0, 0, 1, 2, 0, 0});
  const Var loss = tape.variable(1, 1, true);
  loss->value.data[0] = 0;
  tape.record(loss, [y](Tape& tp) {
    float* g = tp.new_gradient(y);
    for (int i = 0; i < 8; ++i) g[i] = static_cast<float>(i + 1);
    tp.add_gradient(y, g);
  });
  tape.backward(loss);
  const float* g = t.parameters.gradient(t.table);
  CHECK(std::vector<float>(g, g + 8) == std::vector<float>{5, 6, 2, 4, 0, 0, 1, 2});
}

TEST_CASE("the area under the curve counts pairs, ties half", "[quick]") {
  // clicks .9 .5 .1, others .5 .3: 2 + 1.5 + 0 of 6 pairs
  CHECK(tasks::area_under_curve({0.9f, 0.5f, 0.5f, 0.3f, 0.1f}, {1, 1, 0, 0, 1}) == Approx(3.5 / 6));
  CHECK(tasks::area_under_curve({1, 2}, {1, 1}) == 0.5);
}

TEST_CASE("clicks by formula follow Zipf and the teacher's chances", "[quick]") {
  Json config = small({{"rows", 20}, {"zipf", 1.0}, {"pooling", 2}}, 400);
  const auto data = tasks::clicks(config);
  REQUIRE(data->train.count() >= 400 * 32);
  std::vector<double> share(20, 0.0);
  for (const int32_t id : data->train.ids) {
    CHECK_FALSE((id < 0 || id >= 60));
    share[static_cast<size_t>(id % 20)] += 1.0 / static_cast<double>(data->train.ids.size());
  }
  double harmonic = 0;
  for (int i = 1; i <= 20; ++i) harmonic += 1.0 / i;
  for (int i = 0; i < 20; ++i) CHECK(share[static_cast<size_t>(i)] == Approx(1.0 / (i + 1) / harmonic).epsilon(0.13));
  double rate = 0;
  for (const int32_t label : data->train.labels) rate += label;
  rate /= data->train.count();
  CHECK((rate > 0.05 && rate < 0.6));
  CHECK(data->irreducible > 0.2);
  CHECK(data->irreducible < tasks::entropy_of(rate));
}

TEST_CASE("a file of clicks is read, and what is wrong in it is named", "[quick]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 2 ? "1\t3\t\t68fd1e64|05db9164\t\n" : "0\t-2\t1.5\tab\tcd\n";
  write_text(folder / "clicks.tsv", text);
  const tasks::ClickSet set = tasks::read_clicks(folder / "clicks.tsv", 2, 2, 10);
  CHECK(set.count() == 40);
  CHECK(set.labels[1] == 1);
  CHECK(set.dense[0] == 0.0f);                   // -2
  CHECK(set.dense[1] == Approx(std::log(2.5)));  // 1.5
  CHECK(set.dense[2] == Approx(std::log(4.0)));  // 3
  CHECK(set.bags[3] - set.bags[2] == 2);         // two ids
  CHECK(set.bags[4] == set.bags[3]);             // none
  CHECK((set.ids[0] >= 0 && set.ids[0] < 10));   // table 0
  CHECK((set.ids[1] >= 10 && set.ids[1] < 20));  // table 1
  // FNV-1a of "ab" is 0x4D2505CA = 1294271946
  CHECK(set.ids[0] == 1294271946 % 10);
  Json task = {{"clicks", std::string(folder / "clicks.tsv")}, {"dense", 2}, {"tables", 2}, {"rows", 10}};
  CHECK(tasks::run(small(task, 2), 1).status == Status::finished);
  CHECK_THROWS_WITH(tasks::read_clicks(folder / "clicks.tsv", 3, 2, 10),
                    Catch::Contains("line 1: 5 columns; accepted: 6"));
  write_text(folder / "bad.csv", "1,x,2,a,b\n");
  CHECK_THROWS_WITH(tasks::read_clicks(folder / "bad.csv", 2, 2, 10),
                    Catch::Contains("line 1, column 2: 'x' is no number"));
  write_text(folder / "bad.csv", "2,1,2,a,b\n");
  CHECK_THROWS_WITH(tasks::read_clicks(folder / "bad.csv", 2, 2, 10), Catch::Contains("accepted: 0, 1"));
}

TEST_CASE("a stopped recommender goes on by bits, in every format", "[quick]") {
  const TemporaryFolder folder;
  for (const RowFormatInfo& format : row_format_table)
    for (const char* update : {"master", "stochastic"}) {
      if (!test::next_case_runs(std::min(test::share(), 4u))) continue;
      const Json config = small({{"row_format", format.name}, {"update", update}});
      INFO(format.name << " " << update);
      RunOptions first, second;
      first.stop_at = 3;
      first.checkpoint_to = second.resume_from = folder / "half";
      tasks::run(config, 4, first);
      CHECK(tasks::run(config, 4, second).digest == tasks::run(config, 4).digest);
    }
}

TEST_CASE("a recommender has the reference's bits on the fast backends, in every format", "[train]") {
  for (const RowFormatInfo& format : row_format_table) {
    const Json config = small({{"row_format", format.name}, {"order", "exact"}}, 4);
    INFO(format.name);
    RunOptions reference;
    reference.backend = "reference";
    reference.stop_at = 3;
    RunOptions fast = reference;
    fast.backend = "auto";
    CHECK(tasks::run(config, 4, fast).digest == tasks::run(config, 4, reference).digest);
  }
}

TEST_CASE("training learns the clicks", "[train]") {
  Json config = small({{"row_format", "fp32"}, {"table_rate", 20}}, 300);
  config["train"]["batch"] = 128;
  const History h = tasks::run(config, 1);
  const double trivial = h.metrics.at("trivial_loss"), best = h.metrics.at("irreducible_loss");
  CHECK(h.metrics.at("loss") < trivial - 0.3 * (trivial - best));
  CHECK(h.metrics.at("auc") > 0.65);
  CHECK(h.metrics.at("normalised_entropy") == Approx(h.metrics.at("loss") / trivial));
  CHECK(h.metrics.at("table_bytes") == 3 * 50 * 16 * 4);
}
