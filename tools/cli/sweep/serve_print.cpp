#include "tools/cli/sweep/serve_print.h"

#include <fmt/core.h>

#include "src/text/member_json.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

using nlohmann::ordered_json;
using serve::Figures;
using serve::Pool;
using serve::ServiceFile;

namespace {

// A figure of a run, by the name it has in JSON.
struct FigureRow {
  const char* name;
  double Figures::*value;
};
constexpr FigureRow figure_table[] = {
    {"cost_per_million", &Figures::cost_per_million},
    {"p50_ms", &Figures::p50_ms},
    {"p95_ms", &Figures::p95_ms},
    {"p99_ms", &Figures::p99_ms},
    {"accuracy", &Figures::accuracy},
    {"members", &Figures::members},
    {"met_latency", &Figures::met_latency},
    {"met_accuracy", &Figures::met_accuracy},
    {"met_both", &Figures::met_both},
    {"instances_lost", &Figures::lost},
};

std::string four_digits(double value) { return fmt::format("{:.4g}", value); }
std::string share_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

Table members_table(const Pool& pool) {
  Table table{
      {"member", ">accuracy", ">ms, one", fmt::format(">ms, {}", pool.members.front().batch.size()), ">$ a million"},
      {}};
  for (const serve::Member& m : pool.members)
    table.rows.push_back({m.name, share_percent(m.accuracy), four_digits(static_cast<double>(m.of_batch(1)) / 1e6),
                          four_digits(static_cast<double>(m.batch.back()) / 1e6), four_digits(1e6 * m.cost)});
  return table;
}

ordered_json policies_json(const std::vector<PolicyRuns>& runs) {
  ordered_json list = ordered_json::array();
  for (const PolicyRuns& run : runs) {
    ordered_json row = {{"policy", run.policy->name}, {"doc", run.policy->doc}};
    for (const FigureRow& figure : figure_table) {
      const sweeps::Summary s = run.summary(figure.value);
      row[figure.name] = {{"mean", s.mean}};
      if (s.interval) row[figure.name]["interval"] = {s.interval->low, s.interval->high};
      for (const Figures& f : run.seeds) row[figure.name]["seeds"].push_back(f.*figure.value);
    }
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

void print_runs(const ServiceFile& file, const Pool& pool, const std::vector<PolicyRuns>& runs, uint64_t first_seed) {
  print_sentence(
      "{}: {} members on {:.3g} of a {}, traces of seeds {} .. {}; accuracy: on the {} examples that requests do not "
      "ask about",
      file.name, pool.members.size(), file.instance_share, file.hardware, first_seed,
      first_seed + runs.front().seeds.size() - 1, pool.calibration);
  print_table(members_table(pool));
  Table costs{{"policy", ">$ a million", ">interval", ">p50 ms", ">p95 ms", ">p99 ms"}, {}};
  Table met{{"policy", ">votes", ">right", ">in time", ">accurate", ">both", ">interval"}, {}};
  for (const PolicyRuns& run : runs) {
    const auto mean = [&](double Figures::*value) { return run.summary(value).mean; };
    const sweeps::Summary cost = run.summary(&Figures::cost_per_million), both = run.summary(&Figures::met_both);
    costs.rows.push_back({run.policy->name, four_digits(cost.mean), interval_text(cost.interval),
                          four_digits(mean(&Figures::p50_ms)), four_digits(mean(&Figures::p95_ms)),
                          four_digits(mean(&Figures::p99_ms))});
    met.rows.push_back({run.policy->name, four_digits(mean(&Figures::members)), share_percent(mean(&Figures::accuracy)),
                        share_percent(mean(&Figures::met_latency)), share_percent(mean(&Figures::met_accuracy)),
                        share_percent(both.mean), interval_text(both.interval, 100, " %")});
  }
  print_wrapped("What a million requests cost and how long one takes (95 % over the traces, each row by itself):");
  print_table(costs);
  print_sentence("Requests answered in time, in windows of {} that reached their accuracy less {:g} %, and both:",
                 file.rules.policy.window, 100 * file.tolerance);
  print_table(met);
}

ordered_json runs_json(const ServiceFile& file, const Pool& pool, const std::vector<PolicyRuns>& runs,
                       uint64_t first_seed, const Invocation& invocation) {
  ordered_json members = ordered_json::array(), targets = ordered_json::array();
  for (const serve::Member& m : pool.members)
    members.push_back({{"member", m.name},
                       {"group", m.group},
                       {"accuracy", m.accuracy},
                       {"one_ms", static_cast<double>(m.of_batch(1)) / 1e6},
                       {"full_batch_ms", static_cast<double>(m.batch.back()) / 1e6},
                       {"cost_per_million", 1e6 * m.cost}});
  for (const serve::Target& t : file.targets)
    targets.push_back(
        {{"accuracy", t.accuracy}, {"latency_ms", static_cast<double>(t.latency) / 1e6}, {"share", t.share}});
  return {{"schema", 1},
          {"service", file.name},
          {"hardware", file.hardware},
          {"first_seed", first_seed},
          {"seeds", runs.front().seeds.size()},
          {"targets", targets},
          {"window", file.rules.policy.window},
          {"tolerance", file.tolerance},
          {"members", members},
          {"policies", policies_json(runs)},
          {"provenance", provenance(invocation)}};
}

void print_votes(const std::vector<serve::VoteRow>& rows) {
  Table table{{"group", ">members", ">mean of one", ">majority", ">weighted", ">$ a million"}, {}};
  for (const serve::VoteRow& r : rows)
    table.rows.push_back({r.group, std::to_string(r.members), fmt::format("{:.2f} %", 100 * r.mean),
                          fmt::format("{:.2f} %", 100 * r.majority), fmt::format("{:.2f} %", 100 * r.weighted),
                          four_digits(1e6 * r.cost)});
  print_table(table);
}

ordered_json votes_json(const ServiceFile& file, const std::vector<serve::VoteRow>& rows,
                        const Invocation& invocation) {
  ordered_json list = ordered_json::array();
  for (const serve::VoteRow& r : rows)
    list.push_back(joined_json(
        {FP4_NAMED(r.group, r.members, r.mean, r.majority, r.weighted), {{"cost_per_million", 1e6 * r.cost}}}));
  return {{"schema", 1}, {"service", file.name}, {"votes", list}, {"provenance", provenance(invocation)}};
}

}  // namespace fp4::tools
