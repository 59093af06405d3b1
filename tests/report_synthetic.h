// A sweep that never ran: points with a known structure, for tests of the report page. Gaps are a product of factors of
// the axis values plus noise from a counter; overheads are sums of cost terms, so the page's bars, effects and front
// can be judged by eye against the tables below.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "sweeps/report/report.h"

namespace fp4::test {

struct SyntheticAxis {
  const char* name;
  const char* doc;
  std::vector<const char*> values;  // the first is the reference
  std::vector<double> gap_factor;
  std::vector<double> cost_ms;
};

inline const std::vector<SyntheticAxis>& synthetic_axes() {
  static const std::vector<SyntheticAxis> axes = {
      {"*.*.scale", "format of the block scales", {"e8m0", "ue4m3", "ue5m3"}, {1, 0.62, 0.6}, {0, 0.1, 0.1}},
      {"*.*.block", "elements that share a scale", {"32", "16"}, {1, 0.85}, {0, 0.35}},
      {"wgrad.*.rounding", "how Wgrad's operands are rounded", {"nearest_even", "stochastic"}, {1, 0.8}, {0, 0.5}},
      {"dgrad.*.rounding", "how Dgrad's operands are rounded", {"nearest_even", "stochastic"}, {1, 0.95}, {0, 0.5}},
      {"wgrad.hadamard.size",
       "0 = none",
       {"0", "16", "32", "64", "128"},
       {1, 0.7, 0.68, 0.67, 0.69},
       {0, .9, 1.1, 1.3, 1.6}},
      {"wgrad.hadamard.signs",
       "random signs before the transform",
       {"none", "fixed", "per_layer", "per_step"},
       {1, 0.99, 0.98, 1.02},
       {0, 0, 0, .05}},
      {"fprop.*.tensor_scale", "second-level scale", {"none", "current", "hold"}, {1, 0.9, 0.91}, {0, 1.2, 0.15}},
      {"fprop.*.scale_rule",
       "from amax to the scale code",
       {"floor", "rceil", "four_over_six"},
       {1, 0.93, 0.75},
       {0, 0, 1.4}},
      {"layers", "which layers are quantised", {"all", "skip_last 0.15"}, {1, 0.78}, {0, 4.2}},
  };
  return axes;
}

// Uniform in [0, 1) by position (splitmix64): the page is the same on every machine.
inline double synthetic_uniform(std::uint64_t position) {
  std::uint64_t z = position * 0x9e3779b97f4a7c15ULL + 0x1234567;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

inline double synthetic_normal(std::uint64_t position) {
  return std::sqrt(-2 * std::log(1 - synthetic_uniform(2 * position))) *
         std::cos(6.283185307179586 * synthetic_uniform(2 * position + 1));
}

inline constexpr double synthetic_ideal_ms = 26.4;

struct SyntheticChoice {
  std::vector<std::size_t> value;  // one index per axis
  bool dead_signs() const { return value[4] == 0; }
};

inline double synthetic_gap(const SyntheticChoice& choice, double task_gap) {
  double gap = task_gap;
  for (std::size_t a = 0; a < choice.value.size(); ++a)
    if (a != 5 || !choice.dead_signs()) gap *= synthetic_axes()[a].gap_factor[choice.value[a]];
  // An interaction that averages hide: stochastic rounding does not help where the Hadamard already does.
  return choice.value[2] == 1 && choice.value[4] != 0 ? gap * 1.25 : gap;
}

inline ReportPoint synthetic_point(const std::string& task, const SyntheticChoice& choice, std::uint64_t number) {
  const auto& axes = synthetic_axes();
  ReportPoint point;
  point.task = task;
  point.config_hash = fmt::format("{:016x}", (number + 1) * 0x9e3779b97f4a7c15ULL);
  const char* groups[] = {"quantise X", "quantise W",        "random bits",  "random bits",        "Hadamard",
                          "Hadamard",   "tensor scale pass", "scale search", "layers left in bf16"};
  point.cost_terms = {{"fprop GEMM", 5.4e-3},        {"dgrad GEMM", 5.4e-3}, {"wgrad GEMM", 5.6e-3},
                      {"attention and head", 10e-3}, {"quantise X", 0.5e-3}, {"quantise W", 0.2e-3},
                      {"quantise dY", 0.6e-3}};
  std::string sets;
  std::string config = fmt::format(
      R"({{"task":"{}","train":{{"steps":400,"batch":128,"lr":0.001,"schedule":"cosine"}},"recipe":{{"optimizer":"adamw","source":"high_precision")",
      task);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const bool dead = a == 5 && choice.dead_signs();
    const std::string value = dead ? "" : axes[a].values[choice.value[a]];
    point.axis_values.push_back(value);
    if (dead) continue;
    point.cost_terms.push_back({groups[a], axes[a].cost_ms[choice.value[a]] * 1e-3});
    config += fmt::format(R"(,"{}":{{"value":"{}","random_bits":16,"tile":[32,32]}})", axes[a].name, value);
    if (choice.value[a] != 0) sets += fmt::format(" --set {}={}", axes[a].name, value);
  }
  // As many leaves as a real canonical configuration has.
  for (const char* gemm : {"fprop", "dgrad", "wgrad"})
    for (const char* operand : {"a", "b"}) {
      config += fmt::format(R"(,"{}_{}":{{"element":"e2m1")", gemm, operand);
      for (const char* field :
           {"arithmetic", "hold_steps", "negative_zero", "nonfinite", "prescale", "ragged", "scale_floor",
            "scale_rounding", "source", "target", "zero_block", "zero_scale", "accumulator", "estimator"})
        config += fmt::format(R"(,"{}":"as in the base")", field);
      config += "}";
    }
  point.config = config + "}}";
  point.command = fmt::format("fp4sim train --task {} --recipe mxfp4{} --steps 400 --seed {{seed}}", task, sets);
  double step_s = 0;
  for (const auto& [term, seconds] : point.cost_terms) step_s += seconds;
  const double overhead = step_s * 1e3 / synthetic_ideal_ms - 1;
  point.costs = {overhead, overhead * 0.9, step_s, step_s * 1380, report_unknown};
  return point;
}

inline void synthetic_seeds(ReportInput& input, ReportPoint& point, double gap, double level, int seeds,
                            std::uint64_t number) {
  const std::string reference = fmt::format("{:016x}", (level > 1 ? 0xfULL : 0xeULL) << 32);
  point.reference_hash = reference;
  double sum = 0, squares = 0, sum_loss = 0;
  for (int s = 1; s <= seeds; ++s) {
    const std::uint64_t place = number * 64 + static_cast<std::uint64_t>(s);
    ReportRun run{point.task,
                  point.config_hash,
                  s,
                  "finished",
                  "run",
                  {},
                  fmt::format("{:016x}", place * 0xda942042e4dd58b5ULL),
                  0.02 + 0.01 * synthetic_uniform(place)};
    if (gap > 0.2 && synthetic_uniform(place + 77) < 0.35) {
      run.status = "diverged";
      run.qualities = {report_unknown, report_unknown, report_unknown};
      ++point.diverged;
    } else {
      const double g = gap + 0.0016 * synthetic_normal(place);
      const double loss = level + 0.01 * synthetic_normal(static_cast<std::uint64_t>(s)) + g;
      run.qualities = {g, loss, loss - 0.4 * g};
      sum += g;
      squares += g * g;
      sum_loss += loss;
      ++point.seeds;
    }
    input.runs.push_back(run);
  }
  if (point.seeds == 0) {
    point.qualities = {{}, {}, {}};
    return;
  }
  const double n = point.seeds, mean = sum / n;
  const double half =
      n < 3 ? report_unknown : 2.78 * std::sqrt(std::max(0.0, (squares - n * mean * mean) / (n - 1)) / n);
  point.qualities = {{mean, mean - half, mean + half},
                     {sum_loss / n, sum_loss / n - 3 * half, sum_loss / n + 3 * half},
                     {sum_loss / n - 0.4 * mean, report_unknown, report_unknown}};
}

inline void synthetic_curve(ReportInput& input, const ReportPoint& point, double level, double gap) {
  for (int s = 1; s <= std::max(1, std::min(point.seeds, 5)); ++s) {
    ReportCurve curve{point.config_hash, s, {}, {}, {}};
    for (int k = 1; k <= 20; ++k) {
      const double start = 2.3 * std::exp(-0.28 * k);
      const double wobble = 0.015 * synthetic_normal(static_cast<std::uint64_t>(1000 * s + k));
      curve.step.push_back(20 * k);
      curve.train_loss.push_back(level + gap * 0.9 + start + wobble);
      curve.validation_loss.push_back(k % 2 == 0 ? level + gap + start + 0.3 * wobble : report_unknown);
    }
    input.curves.push_back(curve);
  }
}

inline void synthetic_baseline(ReportInput& input, const std::string& task, const char* name, double gap, double level,
                               double factor, std::uint64_t number) {
  SyntheticChoice none{std::vector<std::size_t>(synthetic_axes().size(), 0)};
  ReportPoint point = synthetic_point(task, none, number);
  point.name = name;
  point.baseline = true;
  point.axis_values.assign(synthetic_axes().size(), "");
  point.config_hash =
      std::string(name) == "fp32" ? fmt::format("{:016x}", (level > 1 ? 0xfULL : 0xeULL) << 32) : point.config_hash;
  point.cost_terms = {{"fprop GEMM", 5.4e-3 * factor},
                      {"dgrad GEMM", 5.4e-3 * factor},
                      {"wgrad GEMM", 5.6e-3 * factor},
                      {"attention and head", 10e-3}};
  const double step_s = 16.4e-3 * factor + 10e-3;
  point.costs = {step_s * 1e3 / synthetic_ideal_ms - 1, 0, step_s, step_s * 1380, report_unknown};
  point.command = fmt::format("fp4sim train --task {} --recipe {} --steps 400 --seed {{seed}}", task, name);
  synthetic_seeds(input, point, gap, level, 5, number);
  if (std::string(name) == "fp32") point.qualities[0] = {0, 0, 0};
  synthetic_curve(input, point, level, gap);
  input.points.push_back(point);
}

// On: no cheaper point has a lower mean; undecided: within the noise of that.
inline void synthetic_front(ReportInput& input, const std::string& task, bool screening) {
  std::vector<ReportPoint*> points;
  for (ReportPoint& point : input.points)
    if (point.task == task && point.diverged == 0 && point.seeds > 0) points.push_back(&point);
  std::sort(points.begin(), points.end(), [](const auto* a, const auto* b) {
    return a->costs[0] != b->costs[0] ? a->costs[0] < b->costs[0] : a->qualities[0].mean < b->qualities[0].mean;
  });
  double best = 1e9;
  int undecided = 0;
  for (ReportPoint* point : points) {
    const double gap = point->qualities[0].mean;
    point->front = "off";
    if (gap < best - 0.0004)
      point->front = screening ? "screening" : "on";
    else if (screening && gap < best + 0.002)
      point->front = "screening";
    else if (gap < best + 0.0006 && ++undecided < 12)
      point->front = "undecided";
    if (point->front != "off")
      point->sensitivity = {{"Hadamard", 0.4, 2.1}, {"stochastic rounding", 0.25, 4}, {"tensor scale", 0.6, 1.3}};
    best = std::min(best, gap);
  }
}

inline void synthetic_effects(ReportInput& input, const std::string& task, double task_gap) {
  for (std::size_t a = 0; a < synthetic_axes().size(); ++a) {
    const SyntheticAxis& axis = synthetic_axes()[a];
    for (std::size_t v = 1; v < axis.values.size(); ++v) {
      const double mean = 0.45 * task_gap * (axis.gap_factor[v] - 1);
      const double half = 0.02 * task_gap;
      input.effects.push_back({task,
                               axis.name,
                               axis.values[v],
                               axis.values[0],
                               {mean, mean - half, mean + half},
                               mean * 1.7 - half,
                               mean * 0.3 + half,
                               std::abs(mean) > half ? 0.93 : 0.55,
                               mean + half < 0   ? "better"
                               : mean - half > 0 ? "worse"
                                                 : "undecided"});
    }
  }
}

// `points` configurations over the tasks, `seeds` runs each, plus three baselines a task.
inline ReportInput synthetic_report(std::size_t points, int seeds, const std::vector<std::string>& tasks,
                                    bool screening) {
  ReportInput input;
  input.name = "synthetic_sweep";
  input.workload = "llama3_8b on MI355X";
  input.notes = {"Noise floor (SD of bf16 - fp32): 0.0004; detectable at 80 % power with 5 seeds: 0.0007."};
  for (const SyntheticAxis& axis : synthetic_axes()) input.axes.push_back({axis.name, axis.doc, axis.values[0]});
  input.cost_columns = {
      {"overhead", "share",
       "time of a step over the ideal step (every quantisable GEMM in FP4, quantisation free), minus 1"},
      {"quantisation_overhead", "share", "time over the same step with free quantisation, minus 1"},
      {"step_time_s", "s", "modelled time of one training step"},
      {"energy_j", "J", "modelled energy of one training step"},
      {"points", "", "score of arXiv 2509.17791", false}};
  input.quality_columns = {{"loss_gap", "nats", "final loss minus that of fp32 with the same seed"},
                           {"loss", "nats", "final validation loss, forward as trained"},
                           {"loss_hp", "nats", "the same weights without quantisation"}};
  std::uint64_t number = 100;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const double task_gap = t % 2 == 0 ? 0.06 : 0.27, level = t % 2 == 0 ? 0.31 : 1.4;
    for (const auto& [name, gap, factor] :
         {std::tuple{"fp32", 0.0, 8.0}, {"bf16", 0.0002, 4.0}, {"mxfp8", 0.0021, 2.0}})
      synthetic_baseline(input, tasks[t], name, gap, level, factor, number++);
    std::size_t made = 0;
    // A stride that is coprime with the product walks through it in a mixed order; the base configuration comes first.
    for (std::size_t k = 0; made < points / tasks.size(); ++k) {
      std::size_t rest = k * 7919 % 51840;
      SyntheticChoice choice;
      for (const SyntheticAxis& axis : synthetic_axes()) {
        choice.value.push_back(rest % axis.values.size());
        rest /= axis.values.size();
      }
      if (choice.dead_signs() && choice.value[5] != 0) continue;
      ReportPoint point = synthetic_point(tasks[t], choice, number++);
      const double gap = synthetic_gap(choice, task_gap);
      synthetic_seeds(input, point, gap, level, seeds, number);
      if (made < 700) synthetic_curve(input, point, level, gap);
      input.points.push_back(point);
      ++made;
    }
    synthetic_front(input, tasks[t], screening);
    synthetic_effects(input, tasks[t], task_gap);
  }
  input.provenance =
      R"({"commit":"0123456789abcdef","version":"0.1.0","compiler":"g++ 12.2.0","command":"fp4sim sweep run synthetic_sweep.json","host":"somewhere","signature":"00112233445566aa"})";
  return input;
}

}  // namespace fp4::test
