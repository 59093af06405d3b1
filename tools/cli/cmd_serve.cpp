// `fp4sim serve`: a prediction service simulated event by event: what policies cost, how long they take, how often both
// targets of a request are met; with --votes, what members answer together.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "src/error.h"
#include "src/output.h"
#include "sweeps/judge/statistics.h"
#include "sweeps/serve/service_file.h"
#include "sweeps/serve/votes.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using serve::Figures;
using serve::PolicyRow;
using serve::Pool;
using serve::ServiceFile;

struct ServeOptions {
  std::string file, requests, backend = "auto";
  std::vector<std::string> policies;
  int seeds = 10;
  uint64_t first_seed = 1;
  bool votes = false, force = false, json = false;
};

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

// All seeds of a policy.
struct PolicyRuns {
  const PolicyRow* policy = nullptr;
  std::vector<Figures> seeds;
  sweeps::Summary summary(double Figures::*value) const {
    std::vector<double> values;
    for (const Figures& f : seeds) values.push_back(f.*value);
    return sweeps::summarise(values);
  }
};

const PolicyRow& policy_of(const std::string& name) {
  std::vector<std::string> names;
  for (const PolicyRow& row : serve::policy_table) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw unknown_word("--policies", name, names);
}

std::string four_digits(double value) { return fmt::format("{:.4g}", value); }
std::string share_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string interval_text(const sweeps::Summary& s, const char* unit = "", double factor = 1) {
  return s.interval ? fmt::format("{:.3g} .. {:.3g}{}", factor * s.interval->low, factor * s.interval->high, unit) : "";
}

// One line for each request of the first seed, for whoever wants to check a run.
void write_requests(const ServeOptions& o, const ServiceFile& file, const Pool& pool) {
  std::string text = "policy,request,arrival_s,target,example,answered_s,latency_ms,members,answer,label,right\n";
  for (const std::string& name : o.policies) {
    const serve::ServiceRun run = serve::run_seed(file, pool, policy_of(name), o.first_seed);
    for (size_t i = 0; i < run.requests.size(); ++i) {
      const serve::Request& r = run.requests[i];
      const serve::Answered& a = run.served.answers[i];
      text += fmt::format("{},{},{:.9f},{},{},{:.9f},{:.6f},{},{},{},{}\n", name, i,
                          static_cast<double>(r.at) / serve::second, r.target, r.example,
                          static_cast<double>(a.at) / serve::second, static_cast<double>(a.at - r.at) / 1e6, a.members,
                          a.answer, pool.labels[r.example], a.is_right ? 1 : 0);
    }
  }
  write_file(o.requests, text, o.force);
}

Table members_table(const Pool& pool) {
  Table table{{{"member"},
               {"accuracy", Align::right},
               {"ms, one", Align::right},
               {fmt::format("ms, {}", pool.members.front().batch.size()), Align::right},
               {"$ a million", Align::right}},
              {}};
  for (const serve::Member& m : pool.members)
    table.rows.push_back({m.name, share_percent(m.accuracy), four_digits(static_cast<double>(m.of_batch(1)) / 1e6),
                          four_digits(static_cast<double>(m.batch.back()) / 1e6), four_digits(1e6 * m.cost)});
  return table;
}

void print_runs(const ServeOptions& o, const ServiceFile& file, const Pool& pool, const std::vector<PolicyRuns>& runs) {
  print_wrapped(
      fmt::format("{}: {} members on {:.3g} of a {}, traces of seeds {} .. {}; accuracy: on the {} examples "
                  "that requests do not ask about",
                  file.name, pool.members.size(), file.instance_share, file.hardware, o.first_seed,
                  o.first_seed + static_cast<uint64_t>(o.seeds) - 1, pool.calibration));
  print_table(members_table(pool));
  Table costs{{{"policy"},
               {"$ a million", Align::right},
               {"interval", Align::right},
               {"p50 ms", Align::right},
               {"p95 ms", Align::right},
               {"p99 ms", Align::right}},
              {}};
  Table met{{{"policy"},
             {"votes", Align::right},
             {"right", Align::right},
             {"in time", Align::right},
             {"accurate", Align::right},
             {"both", Align::right},
             {"interval", Align::right}},
            {}};
  for (const PolicyRuns& run : runs) {
    const auto mean = [&](double Figures::*value) { return run.summary(value).mean; };
    const sweeps::Summary cost = run.summary(&Figures::cost_per_million), both = run.summary(&Figures::met_both);
    costs.rows.push_back({run.policy->name, four_digits(cost.mean), interval_text(cost),
                          four_digits(mean(&Figures::p50_ms)), four_digits(mean(&Figures::p95_ms)),
                          four_digits(mean(&Figures::p99_ms))});
    met.rows.push_back({run.policy->name, four_digits(mean(&Figures::members)), share_percent(mean(&Figures::accuracy)),
                        share_percent(mean(&Figures::met_latency)), share_percent(mean(&Figures::met_accuracy)),
                        share_percent(both.mean), interval_text(both, " %", 100)});
  }
  print_wrapped("What a million requests cost and how long one takes (95 % over the traces, each row by itself):");
  print_table(costs);
  print_wrapped(
      fmt::format("Requests answered in time, in windows of {} that reached their accuracy less {:g} %, and "
                  "both:",
                  file.rules.policy.window, 100 * file.tolerance));
  print_table(met);
}

ordered_json runs_json(const std::vector<PolicyRuns>& runs) {
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

void run_votes(const ServeOptions& o, const Pool& pool, const Invocation& invocation) {
  const std::vector<serve::VoteRow> rows = serve::votes_of(pool);
  if (o.json) {
    ordered_json list = ordered_json::array();
    for (const serve::VoteRow& r : rows)
      list.push_back({{"group", r.group},
                      {"members", r.members},
                      {"mean", r.mean},
                      {"majority", r.majority},
                      {"weighted", r.weighted},
                      {"cost_per_million", 1e6 * r.cost}});
    return print_json({{"schema", 1}, {"votes", list}, {"provenance", provenance(invocation)}});
  }
  Table table{{{"group"},
               {"members", Align::right},
               {"mean of one", Align::right},
               {"majority", Align::right},
               {"weighted", Align::right},
               {"$ a million", Align::right}},
              {}};
  for (const serve::VoteRow& r : rows)
    table.rows.push_back({r.group, std::to_string(r.members), fmt::format("{:.2f} %", 100 * r.mean),
                          fmt::format("{:.2f} %", 100 * r.majority), fmt::format("{:.2f} %", 100 * r.weighted),
                          four_digits(1e6 * r.cost)});
  print_table(table);
}

void run_serve(ServeOptions o, Invocation& invocation) {
  if (o.policies.empty())
    for (const PolicyRow& row : serve::policy_table) o.policies.emplace_back(row.name);
  for (const std::string& name : o.policies) policy_of(name);
  const NamedText text = read_text_file(o.file, "service");
  const ServiceFile file = serve::parse_service(parse_json(text.text, text.place), text.place,
                                                std::filesystem::path(o.file).parent_path().string());
  const Pool pool = make_pool(file, o.backend);
  if (o.votes) return run_votes(o, pool, invocation);
  if (!o.requests.empty()) write_requests(o, file, pool);
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} traces/s", rate); }, 2);
  std::vector<PolicyRuns> runs;
  const size_t all = o.policies.size() * static_cast<size_t>(o.seeds);
  size_t done = 0;
  for (const std::string& name : o.policies) {
    runs.push_back({&policy_of(name), {}});
    for (uint64_t seed = o.first_seed; runs.back().seeds.size() < static_cast<size_t>(o.seeds); ++seed) {
      runs.back().seeds.push_back(serve::run_seed(file, pool, *runs.back().policy, seed).figures);
      ++done;
      line.update({.done = static_cast<double>(done),
                   .all = static_cast<double>(all),
                   .count = fmt::format("{}/{}", done, all),
                   .more = name});
    }
  }
  if (!o.json) return print_runs(o, file, pool, runs);
  ordered_json members = ordered_json::array();
  for (const serve::Member& m : pool.members)
    members.push_back({{"member", m.name},
                       {"group", m.group},
                       {"accuracy", m.accuracy},
                       {"one_ms", static_cast<double>(m.of_batch(1)) / 1e6},
                       {"full_batch_ms", static_cast<double>(m.batch.back()) / 1e6},
                       {"cost_per_million", 1e6 * m.cost}});
  print_json({{"schema", 1},
              {"service", file.name},
              {"hardware", file.hardware},
              {"first_seed", o.first_seed},
              {"seeds", o.seeds},
              {"members", members},
              {"policies", runs_json(runs)},
              {"provenance", provenance(invocation)}});
}

void add_serve(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ServeOptions>();
  app.add_option("SERVICE", o->file, "JSON file: members, instances, targets, arrivals")
      ->required()
      ->type_name("FILE");
  app.add_option("--policies", o->policies, "Rows of `fp4sim list serving`; left out: all")
      ->type_name("POLICY,..")
      ->delimiter(',');
  app.add_option("--seeds", o->seeds, "Traces for each policy; the same for all")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--first-seed", o->first_seed, "Of the traces")->capture_default_str();
  app.add_flag("--votes", o->votes, "No service: what the first 1, 2, .. members of each group answer together");
  app.add_option("--requests", o->requests, "CSV with every request of the first trace")->type_name("FILE");
  add_force_option(app, o->force);
  add_backend_option(app, o->backend, "; the result is the same")->type_name("BACKEND");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_serve(*o, invocation); });
  set_example(app, "fp4sim serve service.json --policies infaas,cocktail --seeds 20");
}

}  // namespace

Command command_serve() { return {"serve", "A prediction service of ensembles, event by event", add_serve}; }

}  // namespace fp4::tools
