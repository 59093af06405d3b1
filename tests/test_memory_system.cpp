// The memory model of embedding bags beside traces worked out by hand, in ns: a line of 64 bytes takes 64 in a DRAM and
// 85 on a link, a command 17; a hop takes 10, a read 100 in a device and 50 in the host.
#include <catch2/catch.hpp>
#include <cmath>

#include "sweeps/cost/embedding/memory_system.h"

using namespace fp4;
using namespace fp4::cost;

namespace {

MemoryProfile by_hand(double devices, double host_lines, double port_lines) {
  MemoryProfile p = default_memory();
  p.devices = devices, p.host_lines = host_lines, p.port_lines = port_lines;
  p.host_bandwidth = p.device_bandwidth = p.port_bandwidth = p.link_bandwidth = 1e9;
  p.host_latency = 50e-9, p.device_latency = 100e-9, p.hop_latency = 10e-9;
  return p;
}

// One bag.
BagTrace bag(std::vector<int64_t> rows) {
  BagTrace t;
  t.first = {0, rows.size()};
  t.is_cached.assign(rows.size(), false);
  t.rows = std::move(rows);
  return t;
}

double nanoseconds(const BagTrace& t, MemorySystem system, const MemoryProfile& p, bool in_order = false) {
  return replay(t, {system, 64, 64, in_order}, p).seconds * 1e9;
}

}  // namespace

TEST_CASE("two rows of one device take what one works out by hand", "[quick]") {
  const BagTrace t = bag({5, 6});
  // Command 17, two hops 20, DRAM 64 + 100, port 85 + 10, link 85 + 10: 391 a row; with one line in flight twice that.
  CHECK(nanoseconds(t, MemorySystem::pool, by_hand(1, 1, 2)) == Approx(782));
  // Both in flight: the second leaves DRAM at 165 + 100, waits for the port until 286, for the link until 381.
  const MemoryProfile p = by_hand(1, 2, 2);
  CHECK(nanoseconds(t, MemorySystem::pool, p) == Approx(381 + 85 + 10));
  // The second is in the switch at 286 + 85 + 10; one line of the sum goes on.
  CHECK(nanoseconds(t, MemorySystem::fabric_switch, p) == Approx(381 + 85 + 10));
  // The second is read at 265; the sum takes port and link.
  CHECK(nanoseconds(t, MemorySystem::device, p) == Approx(265 + 95 + 95));
  CHECK(nanoseconds(t, MemorySystem::host, p) == Approx(2 * 64 + 50));
  const BagsCost pool = replay(t, {MemorySystem::pool, 64, 64, false}, p);
  CHECK(pool.dram_bytes == 128);
  CHECK(pool.port_bytes == 170);
  CHECK(pool.link_bytes == 170);
  CHECK(pool.command_bytes == 34);
  const BagsCost in_switch = replay(t, {MemorySystem::fabric_switch, 64, 64, false}, p);
  CHECK(in_switch.port_bytes == 170);
  CHECK(in_switch.link_bytes == 85);
}

TEST_CASE("a hot row in the host is read there, and added to what comes", "[quick]") {
  BagTrace t = bag({5, 6});
  t.is_cached[1] = true;
  const BagsCost cost = replay(t, {MemorySystem::fabric_switch, 64, 64, false}, by_hand(1, 2, 2));
  CHECK(cost.seconds * 1e9 == Approx(296 + 95));  // the other row's way, then the sum's
  CHECK(cost.port_bytes == 85);
  t.is_cached[0] = true;
  CHECK(nanoseconds(t, MemorySystem::fabric_switch, by_hand(1, 2, 2)) == Approx(178));
}

TEST_CASE("sums in the order of the ids hold lines that sums in any order free", "[quick]") {
  std::vector<int64_t> a, b;  // rows of device 0 and of device 1
  for (int64_t row = 0; a.size() < 2 || b.size() < 2; ++row) (device_of(row, 2) == 0 ? a : b).push_back(row);
  const BagTrace t = bag({a[0], a[1], b[0], b[1]});
  const MemoryProfile p = by_hand(2, 4, 1);
  // One line for each device. In the switch: a0 at 296, b0, whose command left second, at 313. In any order b1 is asked
  // for at 313 and there at 609, a1 at 592. In order b0 waits for a1, and b1 is asked for at 592: 888.
  CHECK(nanoseconds(t, MemorySystem::fabric_switch, p) == Approx(609 + 95));
  CHECK(nanoseconds(t, MemorySystem::fabric_switch, p, true) == Approx(888 + 95));
}

TEST_CASE("traces follow Zipf, rows spread over devices, numbers are checked", "[quick]") {
  TraceOptions o;
  o.batch = 100, o.tables = 2, o.pooling = 50, o.table_rows = 10, o.zipf = 1, o.cached = 0.2;
  const BagTrace t = zipf_trace(o);
  REQUIRE((t.bags() == 200 && t.rows.size() == 10000));
  double harmonic = 0, share = 0, cached = 0;
  for (int i = 1; i <= 10; ++i) harmonic += 1.0 / i;
  for (size_t i = 0; i < t.rows.size(); ++i) {
    share += t.rows[i] % 10 == 3 ? 1e-4 : 0;
    cached += t.is_cached[i] ? 1e-4 : 0;
  }
  CHECK(share == Approx(0.25 / harmonic).epsilon(0.1));
  CHECK(cached == Approx(1.5 / harmonic).epsilon(0.05));
  int on_first = 0;
  for (int64_t row = 0; row < 8000; ++row) on_first += device_of(row, 8) == 0;
  CHECK(std::abs(on_first - 1000) < 150);
  MemoryProfile p = default_memory();
  set_memory(p, "link_bandwidth=32e9");
  CHECK(p.link_bandwidth == 32e9);
  CHECK_THROWS_WITH(set_memory(p, "links=3"), Catch::Contains("link_bandwidth"));
  CHECK_THROWS_WITH(set_memory(p, "devices=0"), Catch::Contains("from 1 on"));
  o.zipf = -1;
  CHECK_THROWS_WITH(zipf_trace(o), Catch::Contains("zipf between 0 and 10"));
}

TEST_CASE("no system is faster than its narrowest server", "[quick]") {
  TraceOptions o;
  o.batch = 32, o.table_rows = 1000;
  const BagTrace t = zipf_trace(o);
  const MemoryProfile p = default_memory();
  for (const int64_t bytes : {256, 34})
    for (const auto& system : memory_system_table) {
      const BagsCost c = replay(t, {system.id, bytes, 256, false}, p);
      const bool is_host = system.id == MemorySystem::host;
      const double dram = c.dram_bytes / (is_host ? p.host_bandwidth : p.devices * p.device_bandwidth);
      CHECK(c.seconds >=
            std::max({dram, c.link_bytes / p.link_bandwidth, c.port_bytes / (p.devices * p.port_bandwidth)}));
      CHECK(c.dram_bytes == static_cast<double>(t.rows.size()) * 64 * static_cast<double>((bytes + 63) / 64));
    }
}
