// Decides: who answers a request, and how many instances of each member there shall be. A policy is a row of the table:
// a choice of members, a vote, a way to scale, and the market that it rents on.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "sweeps/serve/member_pool.h"

namespace fp4::serve {

enum class MemberChoice : uint8_t { most_accurate, all, smallest_set, cheapest, shrinking_set };
/// measured: by the requests for a member in the last tick; predicted: by a forecast of all requests, times the share
/// that asks the member (the weight of importance sampling); predicted_whole: by that forecast for each member in use.
enum class Scaling : uint8_t { measured, predicted, predicted_whole };

struct PolicyRow {
  const char* name;
  MemberChoice choice;
  bool is_weighted;  // votes count by the voter's weight for the class
  Scaling scaling;
  bool is_transient;  // cheaper instances that can be lost
  const char* doc;
  const char* source;
};

inline constexpr std::array policy_table = {
    PolicyRow{"single", MemberChoice::most_accurate, false, Scaling::measured, false,
              "the most accurate member that meets the latency", ""},
    PolicyRow{"full", MemberChoice::all, false, Scaling::measured, false,
              "majority of all members that meet the latency", "Cocktail 2106.05345"},
    PolicyRow{"clipper", MemberChoice::smallest_set, false, Scaling::measured, false,
              "static: the cheapest set whose majority meets the highest target", "Clipper, NSDI 2017"},
    PolicyRow{"infaas", MemberChoice::cheapest, false, Scaling::measured, false,
              "the cheapest member that meets both targets", "INFaaS, ATC 2021"},
    PolicyRow{"infaas_transient", MemberChoice::cheapest, false, Scaling::measured, true,
              "infaas on transient instances", ""},
    PolicyRow{"cocktail", MemberChoice::shrinking_set, true, Scaling::predicted, true,
              "the cheapest set by class-weighted vote, shrunk while accuracy allows", "Cocktail 2106.05345"},
    PolicyRow{"cocktail_on_demand", MemberChoice::shrinking_set, true, Scaling::predicted, false,
              "cocktail on instances that are never lost", ""},
    PolicyRow{"cocktail_whole", MemberChoice::shrinking_set, true, Scaling::predicted_whole, true,
              "cocktail without importance sampling", ""},
};

struct PolicyRules {
  double margin = 0.005;  // of accuracy above the target, from which a member is dropped
  size_t window = 500;    // last answers of a target by which that is decided
};

/// Chooses the members of each target's requests. A member meets a latency where a batch of one takes half of it, the
/// rest being for waiting; where none does, the fastest counts. Sets list members by rank.
class Chooser {
 public:
  Chooser(const PolicyRow& row, const Pool& pool, const std::vector<Target>& targets, const PolicyRules& rules);

  const std::vector<size_t>& members(size_t target) const { return sets_[target]; }
  /// An answer was given and turned out right or not.
  void heard(size_t target, bool is_right);
  /// shrinking_set: over the last `window` answers of a target, an accuracy of its target + margin drops the
  /// least accurate member, one below the target takes in the most accurate of the others. The answers before a change
  /// are then forgotten.
  void tick();

 private:
  std::vector<size_t> in_time(const Target& target) const;
  std::vector<size_t> smallest(const std::vector<size_t>& members, double accuracy) const;

  const PolicyRow& row_;
  const Pool& pool_;
  const std::vector<Target>& targets_;
  PolicyRules rules_;
  std::vector<std::vector<size_t>> sets_;
  std::vector<std::deque<bool>> heard_;
};

/// Holt's double exponential smoothing of a rate (1957): level and trend, by tick.
class Forecast {
 public:
  explicit Forecast(double first) : level_(first) {}
  void add(double rate);
  /// The rate so many ticks ahead, at least 0.
  double ahead(double ticks) const;

 private:
  static constexpr double alpha = 0.5, beta = 0.3;
  double level_, trend_ = 0;
};

/// Instances that serve `rate` requests a second for a member in full batches, each busy `utilisation` of its time; 0
/// for no requests.
size_t instances_for(const Member& member, double rate, double utilisation);

}  // namespace fp4::serve
