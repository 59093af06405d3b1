#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/words.h"
#include "sweeps/explore/sweep.h"
#include "tools/cli/options.h"
#include "tools/cli/streams.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

struct StatusOptions {
  std::vector<std::string> folders;
  bool json = false, complete = false;
};

// What several folders (shards, attempts) hold together: what is missing in all of them is missing.
struct Gathered {
  std::vector<sweeps::RunRecord> runs;
  std::vector<sweeps::Conflict> conflicts;
  std::vector<std::string> damaged;
  std::optional<sweeps::Grid> grid;
  sweeps::Identity identity;
  sweeps::StoredPlan plan;
  size_t others = 0;  // runs of other signatures
  std::map<std::pair<std::string, uint64_t>, sweeps::RunRecord> unique;

  void add(const std::string& folder, const std::string& first) {
    const sweeps::Store store = sweeps::Store::read(folder);
    if (!grid) {
      if (!store.meta("grid").empty()) grid = sweeps::stored_grid(store);
      identity = store.identity();
    }
    if (!store.identity().agrees_with(identity))
      throw Error(folder + ": another signature than " + first + ": the arithmetic or a task changed in between",
                  Error::failed);
    plan.add(store);
    others += store.runs_of_other_signatures();
    for (sweeps::RunRecord& run : store.runs()) runs.push_back(std::move(run));
    for (sweeps::Conflict& conflict : store.conflicts()) conflicts.push_back(std::move(conflict));
  }
};

Gathered gather(const std::vector<std::string>& folders) {
  Gathered all;
  for (const std::string& folder : folders) {
    try {
      all.add(folder, folders.front());
    } catch (const Error& error) {
      if (folders.size() == 1) throw;
      all.damaged.emplace_back(error.what());
    }
  }
  if (!all.grid)
    throw Error("sweep status: no folder holds a sweep" + (all.damaged.empty() ? "" : ": " + all.damaged.front()),
                Error::failed);
  for (const sweeps::RunRecord& run : all.runs) {
    const auto [entry, fresh] = all.unique.try_emplace({run.hash, run.seed}, run);
    if (!fresh && entry->second.status == sweeps::Status::failed) entry->second = run;
    if (!fresh && entry->second.digest != run.digest && run.status != sweeps::Status::failed && folders.size() > 1)
      all.conflicts.push_back({run.hash, run.seed, entry->second.digest + "," + run.digest});
  }
  return all;
}

std::string gap_text(const sweeps::Gap& gap) {
  if (!gap.reached) return "not reached yet";
  if (gap.missing == 0) return fmt::format("complete ({} runs)", gap.wanted);
  return fmt::format("{} of {} runs missing{}", gap.missing, gap.wanted,
                     gap.failed > 0 ? fmt::format(" ({} failed)", gap.failed) : "");
}

void run_status(const StatusOptions& o, Invocation& invocation) {
  const Gathered all = gather(o.folders);
  const std::vector<sweeps::Gap> gaps = sweeps::find_gaps(*all.grid, all.plan, all.runs);
  std::map<std::string, size_t> by_status, by_role;
  double seconds = 0;
  for (const auto& [key, run] : all.unique) {
    ++by_status[std::string(word(run.status))];
    ++by_role[std::string(word(run.role))];
    seconds += run.seconds;
  }
  // A folder that could not be read may hold anything: together with it, nothing is known to be complete.
  const auto is_whole = [](const sweeps::Gap& gap) { return gap.reached && gap.missing == 0; };
  const bool complete = all.damaged.empty() && std::all_of(gaps.begin(), gaps.end(), is_whole);
  if (o.json) {
    nlohmann::ordered_json stages = nlohmann::ordered_json::array(), conflicts = nlohmann::ordered_json::array();
    for (const sweeps::Gap& gap : gaps)
      stages.push_back(FP4_NAMED(gap.stage, gap.reached, gap.wanted, gap.missing, gap.failed));
    for (const sweeps::Conflict& conflict : all.conflicts)
      conflicts.push_back({{"config_hash", conflict.hash}, {"seed", conflict.seed}, {"digests", conflict.digests}});
    print_json(joined_json(
        {{{"sweep", all.grid->name}, {"complete", complete}, {"runs", all.unique.size()}},
         FP4_NAMED(by_status, by_role, seconds, all.identity.signature, all.identity.train_signatures),
         {{"other_signatures", all.others}, {"stages", stages}, {"conflicts", conflicts}, {"damaged", all.damaged}}}));
  } else {
    std::vector<std::pair<std::string, std::string>> fields = {{"sweep", all.grid->name},
                                                               {"runs", std::to_string(all.unique.size())}};
    for (const auto& [name, count] : by_status) fields.emplace_back("  " + name, std::to_string(count));
    for (const auto& [name, count] : by_role) fields.emplace_back("  role " + name, std::to_string(count));
    fields.emplace_back("time in runs", duration(seconds));
    for (const sweeps::Gap& gap : gaps) fields.emplace_back(gap.stage, gap_text(gap));
    if (all.others > 0) fields.emplace_back("other signatures", fmt::format("{} runs, not used", all.others));
    print_fields(fields);
    for (const sweeps::Conflict& conflict : all.conflicts)
      fmt::print("NON-DETERMINISM: configuration {}, seed {}: digests {}\n", conflict.hash, conflict.seed,
                 conflict.digests);
    for (const std::string& text : all.damaged) fmt::print("not read: {}\n", text);
  }
  if (!all.conflicts.empty() || !all.damaged.empty() || (o.complete && !complete)) invocation.exit_code = 1;
}

struct MergeOptions {
  std::vector<std::string> folders;
  std::string out;
};

void check_same_signature(const sweeps::Store& result, const sweeps::Store& part) {
  // A crash before the first row leaves a store that nobody has signed.
  if (result.identity().signature.empty() || result.identity().agrees_with(part.identity())) return;
  throw Error(part.file().string() + ": its runs have another signature than those of " + result.file().string() +
                  ": the arithmetic or a task changed in between; merge into another --out",
              Error::failed);
}

void run_merge(const MergeOptions& o, Invocation& invocation) {
  for (const std::string& folder : o.folders) {
    std::error_code absent;
    if (folder == o.out || std::filesystem::equivalent(folder, o.out, absent))
      throw Error("sweep merge: " + folder + ": source and target are one folder; give --out another one");
  }
  const std::filesystem::path out = (std::filesystem::path(o.out) / "").parent_path();
  std::vector<std::string> problems;
  std::unique_ptr<sweeps::Store> merged;
  size_t read = 0;
  for (const std::string& folder : o.folders) {
    // One damaged shard must not keep the others from being saved; a result that cannot be written ends the command.
    const auto could = [&](const auto& work) {
      try {
        work();
        return true;
      } catch (const Error& error) {
        if (std::filesystem::path(error.place).parent_path() == out) throw;
        if (merged == nullptr && &folder == &o.folders.back() && problems.empty()) throw;
        problems.emplace_back(error.what());
        return false;
      }
    };
    std::optional<sweeps::Store> store;
    if (!could([&] { store = sweeps::Store::read(folder); })) continue;
    if (!merged) {
      // Judged before the result is opened: opening makes this program's signature the store's own.
      const bool exists = sweeps::Store::exists(o.out);
      if (exists && !could([&] { check_same_signature(sweeps::Store::read(o.out), *store); })) continue;
      merged = std::make_unique<sweeps::Store>(sweeps::Store::open(o.out, store->identity()));
    }
    read += could([&] { merged->absorb(*store); });
  }
  for (const std::string& problem : problems) print_error("not merged: " + problem);
  if (!merged) throw Error("sweep merge: no folder could be read", Error::failed);
  const std::vector<sweeps::Conflict> conflicts = merged->conflicts();
  for (const sweeps::Conflict& conflict : conflicts) {
    say("fp4sim: non-determinism: configuration {}, seed {}: digests {}\n", conflict.hash, conflict.seed,
        conflict.digests);
  }
  const size_t runs = merged->runs().size();
  merged->finish();
  fmt::print("{}: {} runs from {} stores\n", o.out, runs, read);
  if (!conflicts.empty() || !problems.empty()) invocation.exit_code = 1;
}

struct CheckOptions {
  std::string folder;
  bool drop = false, json = false;
};

void run_check(const CheckOptions& o, Invocation& invocation) {
  const size_t dropped = o.drop ? sweeps::drop_damaged_rows(o.folder) : 0;
  const sweeps::StoreCheck check = sweeps::check_store(o.folder);
  if (o.json) {
    nlohmann::ordered_json json = {{"sound", check.damage.empty()}, {"dropped", dropped}, {"damage", check.damage}};
    json["rows"] = nlohmann::ordered_json::object();
    for (const auto& [table, count] : check.rows) json["rows"][table] = count;
    print_json(json);
  } else {
    const auto count_of = [](const auto& row) { return fmt::format("{} {}", row.second, row.first); };
    const std::string file = o.folder + "/sweep.sqlite";
    for (const std::string& damage : check.damage) print_error(file + ": damaged: " + damage);
    if (dropped > 0) fmt::print("{}: {} damaged rows dropped; `fp4sim sweep run` makes them again\n", file, dropped);
    if (check.damage.empty()) fmt::print("{}: sound ({})\n", file, joined(check.rows, ", ", count_of));
  }
  if (!check.damage.empty()) invocation.exit_code = 1;
}

}  // namespace

void add_sweep_check(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<CheckOptions>();
  option(app, "DIR DIR", o->folder, "Folder of a sweep")->required();
  app.add_flag("--drop", o->drop, "Delete the damaged rows, so that `sweep run` makes them again");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_check(*o, invocation); });
  set_example(app, "fp4sim sweep check quick.sweep");
}

void add_sweep_status(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<StatusOptions>();
  option(app, "DIR DIR..", o->folders, "Folders of one sweep: its store, shards or attempts")->required();
  app.add_flag("--complete", o->complete, "Exit 1 unless every run is there");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_status(*o, invocation); });
  set_example(app, "fp4sim sweep status quick.sweep");
}

void add_sweep_merge(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<MergeOptions>();
  option(app, "DIR DIR..", o->folders, "Folders of shards or attempts of one sweep")->required();
  option(app, "-o,--out DIR", o->out, "Folder of the merged sweep; an existing one of the same sweep grows")
      ->required();
  app.callback([o, &invocation] { run_merge(*o, invocation); });
  set_example(app, "fp4sim sweep merge shard1 shard2 shard3 --out all.sweep");
}

}  // namespace fp4::tools
