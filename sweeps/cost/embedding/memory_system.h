// Decides: what a batch of embedding bags costs in four memory systems, by replaying its rows one by one.
//   host    rows in the host's DRAM, summed by the host
//   pool    rows in CXL memory behind a switch, read and summed by the host (Pond, 2203.00241)
//   device  the devices of that pool sum what they hold of a bag, the host adds the parts (as BEACON, MICRO 2022)
//   switch  the fabric switch reads the devices and sums a bag (PIFS-Rec, 2409.16633)
// A row is read in lines of 64 bytes. It takes, one after another, servers that serve in order of arrival: the command
// on the host's link, the device's DRAM, the device's port, the host's link back; behind each lies a fixed latency. Who
// reads has a number of lines in flight and asks for the next row, in the order of the bags, once a line is free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fp4/embedding.h"

namespace fp4::cost {

/// Bandwidths in bytes/s of one direction, latencies in s.
struct MemoryProfile {
  double devices, host_bandwidth, host_latency, device_bandwidth, device_latency, port_bandwidth, link_bandwidth,
      hop_latency, line_bytes, command_bytes, host_lines, port_lines;
};
struct MemoryField {
  const char* name;
  double MemoryProfile::*field;
  double value;  // by default
  double least;
  const char* doc;
  const char* kind;  // stated, derived, estimate
  const char* source;
};
/// The rows of the profile, each with its source.
const std::vector<MemoryField>& memory_fields();
MemoryProfile default_memory();
/// "link_bandwidth=32e9"; throws Error with the accepted names and ranges.
void set_memory(MemoryProfile& profile, const std::string& assignment);

/// Bags of rows; row `id` of all tables lies on device hash(id) mod devices, or in the host's cache.
struct BagTrace {
  std::vector<int64_t> rows;    // ids, bag by bag
  std::vector<size_t> first;    // [bags + 1]
  std::vector<bool> is_cached;  // of each of rows
  size_t bags() const { return first.size() - 1; }
};

/// A batch of examples: `tables` bags of `pooling` rows each, ids by P(i) ~ (i + 1)^-zipf of `table_rows`; rows below
/// cached * table_rows, the hot ones, lie in the host. Throws Error for impossible numbers.
struct TraceOptions {
  int64_t batch = 256, tables = 8, pooling = 32, table_rows = 1000000;
  double zipf = 1.05, cached = 0;
  uint64_t seed = 1;
};
BagTrace zipf_trace(const TraceOptions& options);

enum class MemorySystem : uint8_t { host, pool, device, fabric_switch };
inline constexpr AxisWord<MemorySystem> memory_system_table[] = {
    {MemorySystem::host, "host", "rows in the host's DRAM"},
    {MemorySystem::pool, "pool", "CXL memory read by the host (Pond)"},
    {MemorySystem::device, "device", "devices sum what they hold (BEACON-like)"},
    {MemorySystem::fabric_switch, "switch", "the fabric switch sums (PIFS-Rec)"}};
static_assert(ids_are_indices(memory_system_table));

struct BagsRead {
  MemorySystem system = MemorySystem::host;
  int64_t row_bytes = 0;  // as stored; read in lines of 64
  int64_t sum_bytes = 0;  // of a sum: fp32
  bool in_order = false;  // a bag's rows are added in the order of its ids; else as they arrive
};

struct BagsCost {
  double seconds = 0;                                     // until the host has the last sum
  double dram_bytes = 0, port_bytes = 0, link_bytes = 0;  // links: towards the host
  double command_bytes = 0;                               // from the host
};
BagsCost replay(const BagTrace& trace, const BagsRead& how, const MemoryProfile& profile);

/// The device of a row.
int device_of(int64_t row, int devices);

}  // namespace fp4::cost
