// `fp4sim cost embedding`: a batch of embedding bags in four memory systems, for each format of the rows.
#include <fmt/format.h>

#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "sweeps/cost/embedding/memory_system.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

struct EmbeddingArguments {
  std::vector<std::string> rows = {"fp32", "bf16", "int8", "int4", "mxfp4", "nvfp4", "ue5m3"};
  int64_t embedding = 64;
  cost::TraceOptions trace;
  std::vector<std::string> sets;
  bool in_order = false, explains = false, json = false;
};

struct ReplayedRows {
  std::string rows, system;
  int64_t row_bytes;
  cost::BagsCost cost;
  double over_pool;  // latency of the pool, same rows, over this one
};

std::vector<ReplayedRows> replay_all(const EmbeddingArguments& o, const cost::MemoryProfile& profile) {
  const cost::BagTrace trace = cost::zipf_trace(o.trace);
  std::vector<ReplayedRows> lines;
  for (const std::string& word : o.rows) {
    const RowFormatInfo& format = named_row("cost embedding: --rows", word, row_format_table);
    const size_t first = lines.size();
    double pool = 0;
    for (const auto& system : cost::memory_system_table) {
      const int64_t bytes = row_bytes(format.id, o.embedding);
      const cost::BagsCost cost = cost::replay(trace, {system.id, bytes, 4 * o.embedding, o.in_order}, profile);
      if (system.id == cost::MemorySystem::pool) pool = cost.seconds;
      lines.push_back({word, system.name, bytes, cost, 0});
    }
    for (size_t i = first; i < lines.size(); ++i) lines[i].over_pool = pool / lines[i].cost.seconds;
  }
  return lines;
}

void print_profile(const cost::MemoryProfile& profile) {
  Table table{{"field", ">value", "meaning", "kind", "source"}, {}};
  for (const cost::MemoryField& f : cost::memory_fields()) {
    const bool given = profile.*f.field != f.value;
    table.rows.push_back(
        {f.name, format_number(profile.*f.field), f.doc, given ? "given" : f.kind, given ? "--set" : f.source});
  }
  print_table(table);
}

ordered_json profile_json(const cost::MemoryProfile& profile) {
  ordered_json out;
  for (const cost::MemoryField& f : cost::memory_fields()) {
    const bool given = profile.*f.field != f.value;
    out[f.name] = {
        {"value", profile.*f.field}, {"kind", given ? "given" : f.kind}, {"source", given ? "--set" : f.source}};
  }
  return out;
}

void run_embedding(const EmbeddingArguments& o) {
  cost::MemoryProfile profile = cost::default_memory();
  for (const std::string& set : o.sets) cost::set_memory(profile, set);
  if (o.explains) return o.json ? print_json({{"profile", profile_json(profile)}}) : print_profile(profile);
  const std::vector<ReplayedRows> lines = replay_all(o, profile);
  if (o.json) {
    ordered_json json = {{"profile", profile_json(profile)}, {"rows", ordered_json::array()}};
    for (const ReplayedRows& l : lines)
      json["rows"].push_back(FP4_NAMED(l.rows, l.system, l.row_bytes, l.cost.seconds, l.over_pool, l.cost.dram_bytes,
                                       l.cost.port_bytes, l.cost.link_bytes, l.cost.command_bytes));
    return print_json(json);
  }
  fmt::print("{} x {} bags of {} rows, {} numbers a row\n\n", o.trace.batch, o.trace.tables, o.trace.pooling,
             o.embedding);
  Table table{{"rows", ">bytes", "system", ">latency", ">x pool", ">DRAM", ">ports", ">host link"}, {}};
  for (const ReplayedRows& l : lines)
    table.rows.push_back({l.rows, std::to_string(l.row_bytes), l.system, format_seconds(l.cost.seconds),
                          fmt::format("{:.2f}", l.over_pool), format_bytes(l.cost.dram_bytes),
                          format_bytes(l.cost.port_bytes), format_bytes(l.cost.link_bytes)});
  print_table(table);
  fmt::print("\n");
  for (const auto& system : cost::memory_system_table) fmt::print("{:7} {}\n", system.name, system.doc);
}

}  // namespace

void add_cost_embedding(CLI::App& app, Invocation&) {
  static EmbeddingArguments o;
  CLI::App* embedding = app.add_subcommand("embedding", "Embedding bags in host, CXL pool, devices and fabric switch");
  defaulted(*embedding, "--rows FORMAT,..", o.rows, "Formats of the rows: fp32, bf16, int8, int4, mxfp4, nvfp4, ue5m3");
  defaulted(*embedding, "--embedding", o.embedding, "Numbers in a row")->check(CLI::Range(1, 1 << 20));
  defaulted(*embedding, "--batch", o.trace.batch, "Examples");
  defaulted(*embedding, "--tables", o.trace.tables, "Bags of an example, one for each table");
  defaulted(*embedding, "--pooling", o.trace.pooling, "Rows of a bag");
  defaulted(*embedding, "--table-rows", o.trace.table_rows, "Rows of a table")->check(CLI::Range(1, 1 << 28));
  defaulted(*embedding, "--zipf", o.trace.zipf, "P(row i) ~ (i + 1)^-ZIPF");
  defaulted(*embedding, "--cached", o.trace.cached, "Share of each table, its hot rows, in the host's DRAM");
  defaulted(*embedding, "--seed", o.trace.seed, "Of the trace");
  embedding->add_flag("--in-order", o.in_order, "Add the rows of a bag in the order of its ids, not as they arrive");
  option(*embedding, "--set FIELD=NUMBER", o.sets, "FIELD=NUMBER of the memory profile (several allowed)");
  embedding->add_flag("--explain", o.explains, "Print the profile with the source of each number");
  embedding->add_flag("--json", o.json, "Print JSON");
  embedding->callback([] { run_embedding(o); });
  set_example(*embedding, "fp4sim cost embedding --rows fp32,mxfp4 --pooling 16 --set devices=4");
}

}  // namespace fp4::tools
