#include <fmt/core.h>

#include <algorithm>

#include "src/gpu/gpu_backend.h"
#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "tools/bench/benches.h"
#include "tools/bench/device_rates.h"

namespace fp4::tools {
namespace {

void print(const std::vector<gpu::Measurement>& rows) {
  print_fields({{"device", gpu_status()}, {"compiler", __VERSION__}});
  Table table{{"bench", "size", "bits", ">ms", ">rate", "unit", ">ratio", "to"}, {}};
  for (const gpu::Measurement& r : rows) {
    std::vector<std::string> row = {r.what, r.size, r.is_equal ? "equal" : "DIFFER"};
    if (r.is_equal) {
      for (const std::string& cell : {fmt::format("{:.3f}", r.seconds * 1e3), fmt::format("{:.1f}", r.rate), r.unit,
                                      r.ratio > 0 ? fmt::format("{:.2f}", r.ratio) : "", r.yardstick})
        row.push_back(cell);
    }
    table.rows.push_back(row);
  }
  print_table(table);
}

void print_as_json(const std::vector<gpu::Measurement>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const gpu::Measurement& r : rows) {
    list.push_back(
        joined_json({{{"bench", r.what}, {"backend", "gpu"}, {"threads", 1}, {"size", r.size}, {"equal", r.is_equal}},
                     FP4_NAMED(r.seconds, r.unit, r.rate),
                     {{"baseline", r.yardstick}, {"ratio", r.ratio}}}));
  }
  print_json({{"device", gpu_status()}, {"compiler", __VERSION__}, {"rows", list}});
}

}  // namespace

void bench_gpu(const GpuBenchOptions& o) {
  const auto wants = [&](const char* name) { return o.what.empty() || contains(o.what, name); };
  for (const std::string& word : o.what) accepted_index("bench: with the gpu backend", word, {"gemm", "quantize"});
  gpu::BenchSize size;
  size.cols = 8192;
  size.rows = wants("quantize") ? std::max<int64_t>(o.elements / size.cols, 64) : 0;
  size.gemm = wants("gemm") ? o.sizes : std::vector<int64_t>();
  size.repeats = o.rounds;
  const std::vector<gpu::Measurement> rows = gpu::bench(size);
  o.json ? print_as_json(rows) : print(rows);
  std::string differ;
  for (const gpu::Measurement& r : rows)
    if (!r.is_equal) add_word(differ, r.what);
  if (!differ.empty()) throw Error("bench: bits differ from the reference, not timed: " + differ, Error::failed);
}

}  // namespace fp4::tools
