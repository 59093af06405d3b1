// Numbers of the memory systems with their sources, and traces; see memory_system.h.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "fp4/rng.h"
#include "src/text/error.h"
#include "sweeps/cost/embedding/memory_system.h"

namespace fp4::cost {

namespace {

using P = MemoryProfile;
constexpr char ddr5[] = "JESD79-5: 4800 MT/s x 8 bytes";
constexpr char pond[] = "Pond 2203.00241: 85 ns local, 270 ns through a switch, four hops of (270 - 85)/4";
constexpr char pcie5[] = "PCIe 5.0: 32 GT/s a lane, one direction, before flits";
constexpr char flits[] = "CXL 2.0 flit of 68 bytes = four slots of 16";

}  // namespace

const std::vector<MemoryField>& memory_fields() {
  static const std::vector<MemoryField> fields = {
      {"devices", &P::devices, 8, 1, "CXL memories behind the switch", "estimate",
       "a 16-port switch, half of it memory"},
      {"host_bandwidth", &P::host_bandwidth, 8 * 38.4e9, 1, "the host's DRAM, 8 channels", "derived", ddr5},
      {"host_latency", &P::host_latency, 85e-9, 0, "of a read in the host's DRAM", "stated", pond},
      {"device_bandwidth", &P::device_bandwidth, 38.4e9, 1, "DRAM of a device, one channel", "derived", ddr5},
      {"device_latency", &P::device_latency, 85e-9, 0, "of a read in a device", "stated", pond},
      {"port_bandwidth", &P::port_bandwidth, 32e9, 1, "between device and switch, x8", "derived", pcie5},
      {"link_bandwidth", &P::link_bandwidth, 64e9, 1, "between switch and host, x16", "derived", pcie5},
      {"hop_latency", &P::hop_latency, 46.25e-9, 0, "of each link, one direction", "derived", pond},
      {"line_bytes", &P::line_bytes, 85, 64, "on a link for 64 bytes: five slots", "derived", flits},
      {"command_bytes", &P::command_bytes, 17, 1, "on a link for a request: one slot", "derived", flits},
      {"host_lines", &P::host_lines, 256, 1, "in flight for the host", "estimate", "16 cores x 16 fill buffers"},
      {"port_lines", &P::port_lines, 128, 1, "in flight for each device, read by switch or device", "estimate",
       "bandwidth x latency of a port, rounded up to 2^k"}};
  return fields;
}

MemoryProfile default_memory() {
  MemoryProfile p = {};
  for (const MemoryField& f : memory_fields()) p.*f.field = f.value;
  return p;
}

void set_memory(MemoryProfile& profile, const std::string& assignment) {
  const size_t at = assignment.find('=');
  const std::string name = assignment.substr(0, at), text = at == std::string::npos ? "" : assignment.substr(at + 1);
  std::vector<std::string> names;
  for (const MemoryField& f : memory_fields()) {
    names.push_back(f.name);
    if (name != f.name) continue;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < f.least)
      throw Error("--set " + name + ": '" + text + "' is no number; accepted: from " +
                  std::to_string(static_cast<int>(f.least)) + " on");
    if (f.field == &P::devices && (value != std::floor(value) || value > 4096))
      throw Error("--set devices: accepted: a whole number from 1 to 4096");
    profile.*f.field = value;
    return;
  }
  throw unknown_word("--set", name, names);
}

BagTrace zipf_trace(const TraceOptions& o) {
  if (o.batch < 1 || o.tables < 1 || o.pooling < 1 || o.table_rows < 1 || o.batch * o.tables * o.pooling > 100000000)
    throw Error("embedding: batch, tables, pooling and table rows must be at least 1, rows read at most 1e8");
  if (!(o.cached >= 0 && o.cached <= 1) || !(o.zipf >= 0 && o.zipf <= 10))
    throw Error("embedding: cached must lie between 0 and 1, zipf between 0 and 10");
  std::vector<double> below;
  double total = 0;
  for (int64_t i = 0; i < o.table_rows; ++i) below.push_back(total += std::pow(static_cast<double>(i + 1), -o.zipf));
  const double hot = o.cached * static_cast<double>(o.table_rows);
  BagTrace trace;
  trace.first.push_back(0);
  const RandomPlace place = {o.seed, stream_number(0, 0, 0, Purpose::data), 0};
  for (int64_t b = 0; b < o.batch * o.tables; ++b) {
    for (int64_t k = 0; k < o.pooling; ++k) {
      const double u = random_draw(place, static_cast<uint64_t>(trace.rows.size()), 32) * 0x1p-32;
      const int64_t id =
          std::min<int64_t>(std::upper_bound(below.begin(), below.end(), u * total) - below.begin(), o.table_rows - 1);
      trace.rows.push_back(b % o.tables * o.table_rows + id);
      trace.is_cached.push_back(static_cast<double>(id) < hot);
    }
    trace.first.push_back(trace.rows.size());
  }
  return trace;
}

}  // namespace fp4::cost
