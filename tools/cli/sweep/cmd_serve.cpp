// `fp4sim serve`: a prediction service simulated event by event: what policies cost, how long they take, how often both
// targets of a request are met; with --votes, what members answer together.
#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "src/files/output_file.h"
#include "src/text/named_rows.h"
#include "sweeps/report/page.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/sweep/serve_print.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using serve::PolicyRow;
using serve::Pool;
using serve::ServiceFile;

struct ServeOptions {
  std::string file, requests, page, backend = "auto";
  std::vector<std::string> policies;
  int seeds = 10;
  uint64_t first_seed = 1;
  bool votes = false, force = false, json = false;
};

const PolicyRow& policy_of(const std::string& name) { return named_row("--policies", name, serve::policy_table); }

// One line for each request of a policy's first trace, for whoever wants to check a run.
constexpr const char* request_columns =
    "policy,request,arrival_s,target,example,answered_s,latency_ms,members,answer,label,right\n";
void add_requests(std::string& text, const std::string& policy, const serve::ServiceRun& run, const Pool& pool) {
  for (size_t i = 0; i < run.requests.size(); ++i) {
    const serve::Request& r = run.requests[i];
    const serve::Answered& a = run.served.answers[i];
    text += fmt::format("{},{},{:.9f},{},{},{:.9f},{:.6f},{},{},{},{}\n", policy, i,
                        static_cast<double>(r.at) / serve::second, r.target, r.example,
                        static_cast<double>(a.at) / serve::second, static_cast<double>(a.at - r.at) / 1e6, a.members,
                        a.answer, pool.labels[r.example], a.is_right ? 1 : 0);
  }
}

// The policies on all traces; `requests` collects the lines of the first.
std::vector<PolicyRuns> simulate(const ServeOptions& o, const ServiceFile& file, const Pool& pool,
                                 std::string* requests) {
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} traces/s", rate); }, 2);
  std::vector<PolicyRuns> runs;
  const int64_t all = static_cast<int64_t>(o.policies.size()) * o.seeds;
  int64_t done = 0;
  for (const std::string& name : o.policies) {
    runs.push_back({&policy_of(name), {}});
    for (uint64_t seed = o.first_seed; runs.back().seeds.size() < static_cast<size_t>(o.seeds); ++seed) {
      const serve::ServiceRun run = serve::run_seed(file, pool, *runs.back().policy, seed);
      if (requests != nullptr && seed == o.first_seed) add_requests(*requests, name, run, pool);
      runs.back().seeds.push_back(run.figures);
      line.count(++done, all, name);
    }
  }
  return runs;
}

// Text of a file that --requests or --out names. It is opened before anything is simulated, so that a place that cannot
// be written is known at once.
class NamedOutput {
 public:
  NamedOutput(const std::string& path, bool force) {
    if (!path.empty()) file_.emplace(path, force);
  }
  bool is_wanted() const { return file_.has_value(); }
  void commit(const std::string& text) {
    file_->write(text);
    file_->commit();
  }

 private:
  std::optional<OutputFile> file_;
};

void run_serve(ServeOptions o, Invocation& invocation) {
  if (o.policies.empty()) o.policies = names_of(serve::policy_table);
  for (const std::string& name : o.policies) policy_of(name);
  const NamedText text = read_text_file(o.file, "service");
  const ServiceFile file = serve::parse_service(parse_json(text.text, text.place), text.place,
                                                std::filesystem::path(o.file).parent_path().string());
  NamedOutput requests(o.requests, o.force), page(o.page, o.force);
  const Pool pool = make_pool(file, o.backend);
  ordered_json result;
  if (o.votes) {
    const std::vector<serve::VoteRow> rows = serve::votes_of(pool);
    result = votes_json(file, rows, invocation);
    if (!o.json) print_votes(rows);
  } else {
    std::string lines = request_columns;
    const std::vector<PolicyRuns> runs = simulate(o, file, pool, requests.is_wanted() ? &lines : nullptr);
    result = runs_json(file, pool, runs, o.first_seed, invocation);
    if (requests.is_wanted()) requests.commit(lines);
    if (!o.json) print_runs(file, pool, runs, o.first_seed);
  }
  if (page.is_wanted()) page.commit(make_page("report/service.html", file.name, json_text(result)));
  if (o.json) print_json(result);
}

}  // namespace

void command_serve(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ServeOptions>();
  option(app, "SERVICE FILE", o->file, "JSON file: members, instances, targets, arrivals")->required();
  CLI::Option* votes =
      app.add_flag("--votes", o->votes, "No service: what the first 1, 2, .. members of each group answer together");
  option(app, "--policies POLICY,..", o->policies, "Rows of `fp4sim list serving`; left out: all")->excludes(votes);
  defaulted(app, "--seeds", o->seeds, "Traces for each policy; the same for all")
      ->check(CLI::Range(1, 10000))
      ->excludes(votes);
  defaulted(app, "--first-seed", o->first_seed, "Of the traces")->excludes(votes);
  option(app, "--requests FILE", o->requests, "CSV with every request of the first trace")->excludes(votes);
  option(app, "-o,--out FILE", o->page, "A page of charts: cost against accuracy, latency percentiles, targets met");
  add_force_option(app, o->force);
  add_backend_option(app, o->backend, "; the result is the same")->type_name("BACKEND");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_serve(*o, invocation); });
  set_example(app, "fp4sim serve service.json --policies infaas,cocktail --seeds 20");
}

}  // namespace fp4::tools
