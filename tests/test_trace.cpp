// Are the quantities of a trace what they are said to be? Small cases by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "sim/trace.h"
#include "src/spec_text.h"
#include "tasks/run.h"

using namespace fp4;
using sim::Json;

TEST_CASE("parts of the error, by hand", "[quick]") {
  // x 4: q 3, q' 4.5: scale_bias (3 - 4.5)(-1) = 1.5, grid_noise (4.5 - 4)(-1) = -.5. x 1: q 2, q' 0: scale_bias
  // 2 * 1, dead_zone (0 - 1) * 1. x -2: q = q' = -3: grid_noise 1. Sum 1 + 1 + 1 = the squared error; |x|^2 = 21.
  const float x[] = {4, 1, -2}, q[] = {3, 2, -3}, ideal[] = {4.5f, 0, -3};
  const sim::ErrorParts p = sim::error_parts(x, q, ideal, 3);
  CHECK(p.scale_bias == Approx(3.5 / 21));
  CHECK(p.dead_zone == Approx(-1.0 / 21));
  CHECK(p.grid_noise == Approx(0.5 / 21));
  CHECK(p.scale_bias + p.dead_zone + p.grid_noise == Approx(3.0 / 21));
  const float none[] = {0, 0};
  CHECK(sim::error_parts(none, none, none, 2).grid_noise == 0);
}

TEST_CASE("cosine, tiles and the gradient's ratio to its noise, by hand", "[quick]") {
  const float a[] = {3, 4}, b[] = {4, 3}, zero[] = {0, 0};
  CHECK(sim::cosine(a, b, 2) == Approx(24.0 / 25));
  CHECK(sim::cosine(a, zero, 2) == 0);
  // 17 x 33: 2 x 3 tiles; bits of two of them differ, one by the sign of a zero.
  std::vector<float> c(17 * 33, 0.0f), d = c;
  d[0] = 1, d[1] = 1;
  d[16 * 33 + 32] = -0.0f;
  CHECK(sim::changed_tiles(c.data(), d.data(), 17, 33) == Approx(2.0 / 6));
  c[5] = std::nanf("1"), d[5] = std::nanf("2");
  CHECK(sim::changed_tiles(c.data(), d.data(), 17, 33) == Approx(2.0 / 6));
  // M N K = 24, mean squares 2 and 3, nmse .5 and 1: noise 24 * 6 * 2 = 288; |C|^2 = 72.
  CHECK(sim::gradient_noise_ratio(72, 2, 3, 4, {2, .5}, {3, 1}) == Approx(0.5));
  CHECK(sim::gradient_noise_ratio(72, 2, 3, 4, {2, 0}, {3, 0}) == 0);
}

TEST_CASE("a traced run: parts add up, unquantised products have no error, an equal adder changes no tile", "[train]") {
  const auto traced = [](const char* recipe) {
    std::map<std::string, double> rows;
    sim::RunOptions options;
    options.trace_every = 2;
    for (const char* words : {"fp32_block", "k64_rz"})
      options.trace_adders.emplace_back(words, accumulator_from_words(words, "test"));
    options.trace = [&](const sim::TraceRow& r) {
      rows[std::to_string(r.step) + " " + r.layer + " " + r.gemm + " " + r.operand + " " + r.quantity] = r.value;
    };
    const Json config = tasks::canonical({{"task", {{"name", "classifier"}, {"width", 32}}},
                                          {"recipe", recipe},
                                          {"train", {{"steps", 4}, {"curve_points", 1}}}});
    const std::string digest = tasks::run(config, 1, options).digest;
    CHECK(digest == tasks::run(config, 1).digest);
    return rows;
  };
  std::map<std::string, double> rows = traced("mxfp4_all_sr");
  int checked = 0;
  for (const auto& [key, value] : rows)
    if (key.ends_with(" nmse")) {
      const std::string place = key.substr(0, key.size() - 4);
      CHECK(rows.at(place + "scale_bias") + rows.at(place + "dead_zone") + rows.at(place + "grid_noise") ==
            Approx(value).epsilon(1e-9));
      ++checked;
    }
  CHECK(checked == 2 * 10);  // steps 1 and 3; two operands of three products of two layers, but no dgrad of the first
  CHECK(rows.at("1 hidden1 wgrad c changed_tiles:fp32_block") == 0);
  CHECK(rows.count("1 hidden1 wgrad c changed_tiles:k64_rz") == 1);
  CHECK(rows.at("3 hidden1 wgrad c gradient_noise_ratio") > 0);
  CHECK(rows.count("3 hidden1 fprop c gradient_noise_ratio") == 0);
  CHECK(rows.at("3 hidden1 fprop c cosine") > 0.9);
  rows = traced("fp32");
  for (const auto& [key, value] : rows) {
    if (key.ends_with(" nmse") || key.ends_with(" relative_error")) CHECK(value == 0);
    if (key.ends_with(" cosine")) CHECK(value == Approx(1));
  }
}
