// The stability edge of a configuration: the largest value of one setting (the learning rate) at which at least a given
// share of seeds train stably: they finish instead of diverging, and with a loss at least 1 % below the trivial
// predictor's. (Clipping keeps a network at a rate far too large from diverging, and it learns nothing.) A search over
// the ladder start * factor^e: up or down from the start by 1, 2, 4, .. rungs until a rung that passes and one that
// fails enclose the edge, then by halves. It supposes that a larger rate is never more stable, as everything about an
// edge does.
//
// The interval: a rung is surely stable when the exact (Clopper-Pearson 1934) interval of its share lies above the
// wanted share, surely unstable when it lies below. Rungs beside the edge are run until one of each kind is found;
// the true edge lies between the highest rung up to which all that were run are surely stable, and the lowest from
// which all are surely unstable. Read from the outside inwards the first wrong rung would have to fail its own test, so
// either end is wrong with probability alpha / 2 at most, however many rungs were run.
#pragma once

#include <map>
#include <optional>

#include "sweeps/grid/tuning.h"
#include "sweeps/record.h"

namespace fp4::sweeps {

struct EdgeRules {
  Ladder ladder = {.start = 1, .factor = 1.4142135623730951, .rungs = 1};
  double share = 0.9;    // of the seeds that are stable, above 0 and below 1
  size_t seeds = 50;     // of a rung; 42 are the fewest that can show a share of .9 at alpha = .025
  double alpha = 0.025;  // of the interval; two of them then make a ratio's hold at 95 %
  int widest = 24;       // no rung further from the start
  int beside = 6;        // rungs tried beyond the edge for either end of the interval
};

// Runs of a rung by how they ended.
struct RungCount {
  size_t stable = 0;
  size_t failed = 0;
  double stable_loss = 0;  // sum over the stable runs; no search looks at it

  std::optional<double> mean_loss() const {
    return stable > 0 ? std::optional(stable_loss / static_cast<double>(stable)) : std::nullopt;
  }
};

inline constexpr double least_learned = 0.01;  // of the trivial predictor's loss

bool is_stable(const RunRecord& run);

// The fewest failures among all seeds of a rung that show it to be unstable, whatever the other seeds do; seeds + 1
// where no number of them does. So many failures end a rung early: 11 of 50, with the words that all 50 would have.
size_t deciding_failures(const EdgeRules& rules);

// Whether all seeds of a rung were run, or enough of them.
bool is_decided(const EdgeRules& rules, const RungCount& count);

struct Edge {
  std::optional<int> wanted;  // the rung whose runs are needed next; none: all below is final
  // The highest rung that passes below one that fails. None: unstable down to the widest rung, or stable up to it.
  std::optional<int> rung;
  bool is_above = false;         // stable up to the widest rung
  std::optional<int> low, high;  // ends of the interval; none: not shown by these seeds
};

// `counts` by exponent; a rung that is not decided counts as missing. Throws Error for rules without sense.
Edge find_edge(const EdgeRules& rules, const std::map<int, RungCount>& counts);

// The edge as a multiple of another one on the same ladder, and its interval (level 2 alpha).
struct EdgeRatio {
  std::optional<double> ratio, low, high;
};
EdgeRatio edge_ratio(const EdgeRules& rules, const Edge& edge, const Edge& reference);

}  // namespace fp4::sweeps
