// Are the quantities of a trace what they are said to be? Small cases by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "fp4/presets.h"
#include "sim/engine/product.h"
#include "sim/engine/trace.h"
#include "src/arith/spec_text.h"
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

TEST_CASE("what is measured of one operand and its product, by hand", "[quick]") {
  // MXFP4, scale 1: 7 -> 6 (clipped), 3, -.2 -> 0, 0. With the ideal scale 7/6: 7, 3.5, 0, 0.
  const std::vector<float> x = {7, 3, -0.2f, 0};
  sim::Arena arena;
  sim::Pass pass;
  sim::Tape tape(arena, sim::kernels("reference"), pass);
  std::map<std::string, double> rows;
  const sim::RunOptions options;
  sim::Trace trace([&](const sim::TraceRow& r) { rows[r.operand + " " + r.quantity] = r.value; },
                   {options.trace_probes, options.trace_adders});
  sim::Layer layer = {.name = "one"};
  GemmSpec& spec = layer.products[static_cast<size_t>(sim::Gemm::wgrad)].spec;
  spec.a.quant = spec.b.quant = mxfp4_spec;
  const Dispatcher reference("reference");
  const MatrixView row = view_of(x.data(), 1, 4);
  float c = 50;
  trace.product({.backend = {reference},
                 .tape = tape,
                 .layer = layer,
                 .part = 0,
                 .gemm = sim::Gemm::wgrad,
                 .x = {row, row},
                 .c = &c,
                 .c_row = 1});
  const double square = 58.04, mean = square / 4;
  CHECK(rows.at("a amax") == 7);
  CHECK(rows.at("a rms") == Approx(std::sqrt(mean)));
  CHECK(rows.at("a amax_over_rms") == Approx(7 / std::sqrt(mean)));
  CHECK(rows.at("a kurtosis") == Approx((2401 + 81 + 0.0016) / 4 / (mean * mean)));
  CHECK(rows.at("a clipped") == 0.25);
  CHECK(rows.at("a underflow") == Approx(1.0 / 3));
  CHECK(rows.at("b nmse") == Approx(1.04 / square));
  CHECK(rows.at("b cosine") == Approx((42 + 9) / std::sqrt(square * 45)));
  CHECK(rows.at("b scale_bias") == Approx(1 / square));
  CHECK(rows.at("b dead_zone") == Approx(0.04 / square));
  CHECK(std::abs(rows.at("b grid_noise")) < 1e-6);
  CHECK(rows.at("c relative_error") == Approx((square - 50) / square));
  CHECK(rows.at("c cosine") == Approx(1));
  // |C| = 50; noise M N K mean^2 (2 r + r^2) with M = N = 1, K = 4.
  const double r = 1.04 / square;
  CHECK(rows.at("c gradient_noise_ratio") == Approx(50 / std::sqrt(4 * mean * mean * (2 * r + r * r))));
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
