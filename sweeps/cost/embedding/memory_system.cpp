#include "sweeps/cost/embedding/memory_system.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "fp4/rng.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4::cost {

namespace {

using P = MemoryProfile;
constexpr char ddr5[] = "JESD79-5: 4800 MT/s x 8 bytes";
constexpr char pond[] = "Pond 2203.00241: 85 ns local, 270 ns through a switch, four hops of (270 - 85)/4";
constexpr char pcie5[] = "PCIe 5.0: 32 GT/s a lane, one direction, before flits";
constexpr char flits[] = "CXL 2.0 flit of 68 bytes = four slots of 16";

constexpr double line_size = 64;

int64_t lines_of(int64_t bytes) { return (bytes + 63) / 64; }

// Where a packet has to be served, for how long, and how far the next server is.
struct Stop {
  int server;
  double seconds;
  double latency;
};

// Rows and sums on their way. Servers serve in order of arrival; equal times in order of departure.
class Replay {
 public:
  Replay(const BagTrace& trace, const BagsRead& how, const MemoryProfile& profile)
      : trace_(trace), how_(how), p_(profile), devices_(static_cast<int>(profile.devices)) {
    const int readers = reads_near() ? devices_ + 1 : 1;
    free_lines_.assign(static_cast<size_t>(readers), static_cast<int64_t>(p_.port_lines));
    free_lines_[0] = static_cast<int64_t>(p_.host_lines);
    waiting_.resize(static_cast<size_t>(readers));
    server_free_.assign(static_cast<size_t>(3 + 2 * devices_), 0.0);
    bag_of_.resize(trace.rows.size());
    left_.resize(trace.bags());
    next_.assign(trace.first.begin(), trace.first.end() - 1);
    has_come_.assign(trace.rows.size(), false);
    for (size_t b = 0; b < trace.bags(); ++b)
      for (size_t r = trace.first[b]; r < trace.first[b + 1]; ++r) {
        bag_of_[r] = b;
        if (how_.system == MemorySystem::device && !is_local(r)) ++parts_[part_of(r)];
        waiting_[reader_of(r)].push(r);
      }
    for (size_t b = 0; b < trace.bags(); ++b) left_[b] = trace.first[b + 1] - trace.first[b];
  }

  BagsCost run() {
    for (size_t reader = 0; reader < waiting_.size(); ++reader) issue(reader, 0);
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      Packet& packet = packets_[e.packet];
      if (packet.at >= packet.stops.size()) {
        packet.stops = {};
        if (packet.row < 0)
          cost_.seconds = std::max(cost_.seconds, e.time);
        else
          arrive(static_cast<size_t>(packet.row), e.time);  // sends other packets: `packet` may move
        continue;
      }
      const Stop& stop = packet.stops[packet.at++];
      double& free = server_free_[static_cast<size_t>(stop.server)];
      free = std::max(free, e.time) + stop.seconds;
      events_.push({free + stop.latency, sent_++, e.packet});
    }
    return cost_;
  }

 private:
  // Servers: the host's DRAM, its link away from it and towards it, then DRAM and port of each device.
  static constexpr int host_dram = 0, away = 1, towards = 2;
  int dram(int device) const { return 3 + 2 * device; }
  int port(int device) const { return 4 + 2 * device; }

  struct Packet {
    std::vector<Stop> stops;
    int64_t row;  // -1: a sum
    size_t at = 0;
  };
  struct Event {
    double time;
    uint64_t order;
    size_t packet;
    bool operator<(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
  };

  bool reads_near() const { return how_.system == MemorySystem::device || how_.system == MemorySystem::fabric_switch; }
  bool is_local(size_t row) const { return how_.system == MemorySystem::host || trace_.is_cached[row]; }
  int device(size_t row) const { return device_of(trace_.rows[row], devices_); }
  // Who has the row's lines in flight: 0 the host, else the device's port.
  size_t reader_of(size_t row) const {
    return reads_near() && !is_local(row) ? static_cast<size_t>(1 + device(row)) : 0;
  }
  uint64_t part_of(size_t row) const {
    return static_cast<uint64_t>(bag_of_[row]) * static_cast<uint64_t>(devices_) + static_cast<uint64_t>(device(row));
  }
  int64_t lines_in_flight(size_t row) const {
    const double most = reader_of(row) == 0 ? p_.host_lines : p_.port_lines;
    return std::min(lines_of(how_.row_bytes), static_cast<int64_t>(most));
  }

  void send(std::vector<Stop> stops, int64_t row, double time) {
    packets_.push_back({std::move(stops), row});
    events_.push({time, sent_++, packets_.size() - 1});
  }

  Stop transfer(int server, double bytes, double bandwidth, double& counter) {
    counter += bytes;
    return {server, bytes / bandwidth, p_.hop_latency};
  }

  // Asks for the reader's next rows while their lines are free.
  void issue(size_t reader, double time) {
    std::queue<size_t>& rows = waiting_[reader];
    while (!rows.empty() && lines_in_flight(rows.front()) <= free_lines_[reader]) {
      const size_t row = rows.front();
      rows.pop();
      free_lines_[reader] -= lines_in_flight(row);
      send(way_of(row), static_cast<int64_t>(row), time);
    }
  }

  // The way of a row to where it is added.
  std::vector<Stop> way_of(size_t row) {
    const double lines = static_cast<double>(lines_of(how_.row_bytes)), bytes = lines * line_size;
    cost_.dram_bytes += bytes;
    if (is_local(row)) return {{host_dram, bytes / p_.host_bandwidth, p_.host_latency}};
    const int d = device(row);
    // The host asks for lines, a switch or a device is told of the row.
    const double asked = how_.system == MemorySystem::pool ? lines : 1;
    std::vector<Stop> stops = {transfer(away, asked * p_.command_bytes, p_.link_bandwidth, cost_.command_bytes)};
    stops[0].latency = 2 * p_.hop_latency;
    stops.push_back({dram(d), bytes / p_.device_bandwidth, p_.device_latency});
    if (how_.system == MemorySystem::device) return stops;
    stops.push_back(transfer(port(d), lines * p_.line_bytes, p_.port_bandwidth, cost_.port_bytes));
    if (how_.system == MemorySystem::pool)
      stops.push_back(transfer(towards, lines * p_.line_bytes, p_.link_bandwidth, cost_.link_bytes));
    return stops;
  }

  void arrive(size_t row, double time) {
    has_come_[row] = true;
    if (!how_.in_order) return add(row, time);
    const size_t bag = bag_of_[row];
    for (size_t& next = next_[bag]; next < trace_.first[bag + 1] && has_come_[next]; ++next) add(next, time);
  }

  // The row's lines are free again; a sum that is whole goes to the host.
  void add(size_t row, double time) {
    const size_t reader = reader_of(row), bag = bag_of_[row];
    free_lines_[reader] += lines_in_flight(row);
    --left_[bag];
    const double lines = static_cast<double>(lines_of(how_.sum_bytes));
    cost_.seconds = std::max(cost_.seconds, time);
    if (how_.system == MemorySystem::device && !is_local(row)) {
      if (--parts_[part_of(row)] == 0)
        send({transfer(port(device(row)), lines * p_.line_bytes, p_.port_bandwidth, cost_.port_bytes),
              transfer(towards, lines * p_.line_bytes, p_.link_bandwidth, cost_.link_bytes)},
             -1, time);
    } else if (how_.system == MemorySystem::fabric_switch && !is_local(row)) {
      has_remote_.insert(bag);
    }
    if (how_.system == MemorySystem::fabric_switch && left_[bag] == 0 && has_remote_.count(bag) > 0)
      send({transfer(towards, lines * p_.line_bytes, p_.link_bandwidth, cost_.link_bytes)}, -1, time);
    issue(reader, time);
  }

  const BagTrace& trace_;
  const BagsRead& how_;
  const MemoryProfile& p_;
  int devices_;
  BagsCost cost_;
  std::vector<Packet> packets_;
  std::priority_queue<Event> events_;
  uint64_t sent_ = 0;
  std::vector<double> server_free_;
  std::vector<int64_t> free_lines_;
  std::vector<std::queue<size_t>> waiting_;
  std::vector<size_t> bag_of_, left_, next_;
  std::vector<bool> has_come_;
  std::unordered_map<uint64_t, size_t> parts_;  // rows of a bag that a device has still to read
  std::unordered_set<size_t> has_remote_;       // bags of which a device holds a row
};

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
  const MemoryField& f = named_row("--set", name, memory_fields());
  const double value = real_from_text(text).value_or(std::nan(""));
  if (!std::isfinite(value) || value < f.least)
    throw Error("--set " + name + ": '" + text + "' is no number; accepted: from " +
                std::to_string(static_cast<int>(f.least)) + " on");
  if (f.field == &P::devices && (value != std::floor(value) || value > 4096))
    throw Error("--set devices: accepted: a whole number from 1 to 4096");
  profile.*f.field = value;
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

int device_of(int64_t row, int devices) {
  uint64_t z = static_cast<uint64_t>(row) + 0x9E3779B97F4A7C15u;  // splitmix64
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return static_cast<int>((z ^ z >> 31) % static_cast<uint64_t>(devices));
}

BagsCost replay(const BagTrace& trace, const BagsRead& how, const MemoryProfile& profile) {
  return Replay(trace, how, profile).run();
}

}  // namespace fp4::cost
