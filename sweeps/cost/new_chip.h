// Decides: what a profile of one's own says where its author says nothing. Every derived figure is an estimate and
// names what it comes from, so that `fp4sim cost explain` shows which numbers of a result are the author's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/cost/hardware.h"

namespace fp4::cost {

struct ChipFacts {
  std::string name;
  std::map<std::string, double> rates;  // dense FLOP/s by format class; bf16 is needed
  double memory_bandwidth = 0;          // bytes/s
  double memory_bytes = 0;
  std::vector<std::string> block_scales;  // of fp4, as SCALE/BLOCK; empty: E8M0 for 32 alone, OCP MX
  std::vector<std::string> elements;      // of fp4, by name; empty: e2m1
  std::optional<double> issue_per_s, board_w, price_per_hour, link_bandwidth, network_bandwidth, node_size;
  bool hardware_random = false;
};

/// Throws Error for a missing bf16 rate, bandwidth or memory.
Hardware new_chip(const ChipFacts& facts);

}  // namespace fp4::cost
