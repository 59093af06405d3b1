// Decides: what the members of a service are and what a service knows of them before the first request. Each member is
// a trained network under a recipe; its answers on the validation set are fixed before the service starts. The first
// half of the set (`calibration`) is where accuracies and weights of votes come from, requests ask about the second, so
// that no policy is judged on what it was chosen by.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sweeps/serve/traces.h"

namespace fp4::serve {

struct Member {
  std::string name = {}, group = {};
  std::vector<int32_t> answers;           // the class chosen, by example
  std::vector<Nanoseconds> batch = {};    // time of a batch of 1, 2, .. requests
  double price_per_hour = 0;              // of an instance on demand, US dollars
  double accuracy = 0;                    // the rest is filled in by `learn`: share of right answers,
  std::vector<double> class_weight = {};  // and of right answers among those that name a class
  double cost = 0;                        // of a request in a full batch on demand, US dollars
  size_t rank = 0;                        // 0: the most accurate; of equals the cheaper, then the first

  Nanoseconds of_batch(size_t requests) const { return batch[requests - 1]; }
  double seconds_a_request() const {
    return static_cast<double>(batch.back()) / second / static_cast<double>(batch.size());
  }
};

struct Pool {
  std::vector<Member> members;
  std::vector<int32_t> labels;
  size_t calibration = 0;  // examples that a service may learn from; requests ask about the others

  /// Members by rank.
  std::vector<size_t> ranked() const;
};

/// Fills in what follows from answers, labels, times and prices. The weight of a member for class c is
/// (right + 1) / (n + 2), of the n examples for which it answered c (Laplace's rule: a class it never named counts .5).
void learn(Pool& pool);

/// The answer with the largest sum of weights; of equal sums that of the member named first.
struct Ballot {
  int32_t answer = 0;
  double weight = 1;
};
int32_t vote(std::span<const Ballot> ballots);

/// What some members, in the order of their ranks, answer together: by majority, or by weights of classes.
int32_t answer_of(const Pool& pool, std::span<const size_t> members, bool is_weighted, size_t example);
/// Share of right answers on the examples [first, last).
double share_right(const Pool& pool, std::span<const size_t> members, bool is_weighted, size_t first, size_t last);

/// What members answer together, without a service: votes of the first 1, 2, .. members of each group.
struct VoteRow {
  std::string group;
  size_t members = 0;
  double mean = 0, majority = 0, weighted = 0;  // shares of right answers on the examples that requests ask about
  double cost = 0;                              // of a request in full batches on demand, US dollars
};

/// Groups and their members stand in the order of the pool; voters are ranked by what calibration says of them.
std::vector<VoteRow> votes_of(const Pool& pool);

}  // namespace fp4::serve
