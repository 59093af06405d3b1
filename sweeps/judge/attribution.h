// What one value of an axis does on average over all settings of the other axes, compared with the axis's first value
// (or another one), over the whole product or a named part of it.
// For each seed the mean of the paired differences over the settings, then a t interval over the SEEDS: settings share
// seeds and are no replicates, so thousands of them do not make an interval narrow. Beside the mean stand the range
// over settings and the share with its sign, since an average hides interactions (a Hadamard helps one rounding only).
// Every seed counts that all settings of a comparison have, those of a race as well. The intervals of everything
// listed, on all axes and tasks, hold together.
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/comparison.h"
#include "sweeps/judge/results.h"

namespace fp4::sweeps {

struct Effect {
  std::string task;
  std::string axis;
  std::string value;
  std::string reference;
  std::string group;               // "value, ...": those of the axes in Contrast::by
  double reference_gap = unknown;  // mean gap of the reference over the same settings and seeds
  double noise_floor = unknown;    // SD of bf16 - fp32 on this task
  size_t family = 0;               // comparisons whose intervals hold together
  size_t settings = 0;             // pairs compared; pairs in which the axis is dead are left out
  size_t rates_differ = 0;         // of the settings: those whose two sides were tuned to different values
  std::optional<std::pair<double, double>> products;  // quantised in a step, where the two sides' numbers are not equal
  Comparison comparison;                              // negative: the value lowers the loss
  double low_decile = unknown, high_decile = unknown;  // of the settings' mean differences
  double same_sign = unknown;  // share of settings whose mean difference has the sign of the average
  bool weighted = false;       // Hajek means of an importance sample instead of pairs
  // Of an importance sample: configurations with the reference's value, and those of either value of which a run
  // diverged. The means leave these out; the larger share of them wins nothing.
  struct Sample {
    size_t reference_settings = 0, diverged = 0, reference_diverged = 0;
  };
  Sample sample;
};

// What `effects` compares. As it stands: on each axis each value with the grid's first, at every setting of the others.
struct Contrast {
  std::string axis;       // only this one
  std::string reference;  // a value of `axis` to compare with, instead of the grid's first
  std::map<std::string, std::vector<std::string>> where;  // axis: the values that take part
  std::vector<std::string> by;                            // separately for each combination of these axes' values
};

// Effects of all values of all axes with at least two, on every task, judged together.
// Where only a share of a sweep was tuned, all at the grid's fixed values: the product is whole there. `delta`: of the
// word `equal`, by task. Throws Error for an axis or value that is not in the sweep, naming those that are.
std::vector<Effect> attribute(const Results& results, Metric metric, const std::map<std::string, double>& delta,
                              const Contrast& contrast = {});

// Average gap over the whole space from an importance sample, by task: Hajek's mean of the configurations' mean gaps
// and its effective sample size (all probabilities 1: the plain mean).
std::map<std::string, WeightedMean> space_average(const Results& results, Metric metric);

}  // namespace fp4::sweeps
