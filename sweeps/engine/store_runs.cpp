// The runs of a store. They are append-only: the plan may be replaced, a run never is, except that a success takes the
// place of a failure under the same key.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "src/text/error.h"
#include "sweeps/engine/store_schema.h"

namespace fp4::sweeps {

namespace {

// Curves as columns: a third of the bytes of a list of objects.
std::string curve_text(const Curve& curve) {
  if (curve.step.empty()) return "";
  return Json{{"step", curve.step}, {"train_loss", curve.train_loss}, {"validation_loss", curve.validation_loss}}
      .dump();
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  values.reserve(list.size());
  for (const Json& value : list) values.push_back(value.is_number() ? value.get<double>() : std::nan(""));
  return values;
}

Curve parse_curve(const Database& database, std::string_view text) {
  if (text.empty()) return {};
  const Json json = stored_json(database, text, "curve");
  Curve curve{numbers(json.at("step")), numbers(json.at("train_loss")), numbers(json.at("validation_loss"))};
  if (curve.train_loss.size() != curve.step.size() || curve.validation_loss.size() != curve.step.size())
    throw Error("curve: columns of different lengths", Error::failed);
  return curve;
}

std::optional<double> optional_real(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.real(column);
}

const std::string insert_run = std::string("INSERT OR IGNORE INTO runs(") + run_columns +
                               ", row_hash) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
                               "?16, ?17, fp4_row_hash(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                               "?15, ?16, ?17))";

// One row of runs(): columns hash, seed, role, status, message, loss, loss_hp, digest, seconds, backend, metrics,
// curve, task.
RunRecord run_of(const Database& database, const Statement& row) {
  RunRecord run{.hash = std::string(row.text(0)),
                .seed = static_cast<uint64_t>(row.integer(1)),
                .task = std::string(row.text(12)),
                .role = parse_role(row.text(2)),
                .status = parse_status(row.text(3)),
                .message = std::string(row.text(4)),
                .loss = optional_real(row, 5),
                .loss_hp = optional_real(row, 6),
                .metrics = {},
                .digest = std::string(row.text(7)),
                .seconds = row.real(8),
                .backend = std::string(row.text(9)),
                .curve = parse_curve(database, row.text(11))};
  if (row.text(10).size() > 2) {
    const Json metrics = stored_json(database, row.text(10), "metrics");
    for (const auto& [name, value] : metrics.items())
      run.metrics.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
  }
  return run;
}

}  // namespace

void Store::insert(std::span<const RunRecord> runs) {
  Database& database = *handle_->database;
  std::string conflict;
  Transaction transaction(database);
  Statement known(database,
                  "SELECT digest, status FROM runs WHERE hash=? AND seed=? AND signature=? AND train_signature=?");
  Statement forget(database,
                   "DELETE FROM runs WHERE hash=? AND seed=? AND signature=? AND train_signature=? AND "
                   "status='failed'");
  Statement insert(database, insert_run);
  for (const RunRecord& run : runs) {
    const auto seed = static_cast<int64_t>(run.seed);
    const auto train_signature = identity_.train_signatures.find(run.task);
    if (train_signature == identity_.train_signatures.end())
      throw store_error(file_, "a run of the task '" + run.task + "', whose train signature is not known");
    const auto bind_key = [&](Statement& statement) -> Statement& {
      return statement.bind(1, run.hash).bind(2, seed).bind(3, identity_.signature).bind(4, train_signature->second);
    };
    bool succeeded = false;
    bind_key(known);
    while (known.step()) {
      if (known.text(1) == "failed") continue;
      succeeded = true;
      if (run.status != Status::failed && known.text(0) != run.digest)
        conflict = "configuration " + run.hash + ", seed " + std::to_string(run.seed) + ": digest " + run.digest +
                   ", but an earlier run gave " + std::string(known.text(0));
    }
    known.run();
    if (run.status == Status::failed && succeeded) continue;
    bind_key(forget).run();
    Json metrics = Json::object();
    for (const auto& [name, value] : run.metrics) metrics[name] = value;
    const std::string metrics_text = metrics.dump();
    const std::string curve = curve_text(run.curve);
    insert.bind(1, run.hash).bind(2, seed).bind(3, run.task);
    insert.bind(4, identity_.signature).bind(5, train_signature->second);
    insert.bind(6, word(run.role)).bind(7, word(run.status)).bind(8, run.message);
    insert.bind(9, run.loss).bind(10, run.loss_hp).bind(11, run.digest).bind(12, run.seconds);
    insert.bind(13, run.backend).bind(14, identity_.version).bind(15, identity_.host);
    insert.bind(16, metrics_text).bind(17, curve).run();
  }
  transaction.commit();
  handle_->watch.add(file_.string() + "-wal");
  handle_->watch.check();
  if (!conflict.empty()) {
    throw store_error(file_,
                      "non-determinism found: " + conflict + "; both rows are kept (`fp4sim sweep status` lists them)");
  }
}

void Store::raise_role(const std::string& hash, uint64_t seed, Role role) {
  Database& database = *handle_->database;
  Transaction transaction(database);
  Statement(database, std::string("UPDATE runs SET role=?, row_hash='' WHERE hash=? AND seed=? AND ") + sound_run)
      .bind(1, word(role))
      .bind(2, hash)
      .bind(3, static_cast<int64_t>(seed))
      .run();
  database.execute(hash_runs);
  transaction.commit();
}

std::vector<RunRecord> Store::runs(bool with_curves, const std::vector<std::string>& hashes) const {
  const Database& database = *handle_->database;
  // Every row is compared with its hash, those of other signatures too: a flipped bit must not turn one into the other.
  Statement row(*handle_->database,
                std::string("SELECT hash, seed, role, status, message, loss, loss_hp, digest, seconds, backend, "
                            "metrics, ") +
                    (with_curves ? "curve" : "''") + ", task, " + sound_run +
                    ", signature=?1 AND (task, train_signature) IN (SELECT key, value FROM json_each(?2)) FROM runs "
                    "ORDER BY hash, seed, id");
  const std::string by_task = train_signatures_json();
  row.bind(1, identity_.signature).bind(2, by_task);
  const std::set<std::string, std::less<>> wanted(hashes.begin(), hashes.end());
  std::vector<RunRecord> runs;
  while (row.step()) {
    const std::string place = "configuration " + std::string(row.text(0)) + ", seed " + std::to_string(row.integer(1));
    check_row(database, row.integer(13) == 1, "runs", place);
    if (row.integer(14) != 1 || (!wanted.empty() && !wanted.contains(row.text(0)))) continue;
    try {
      runs.push_back(run_of(database, row));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw store_error(file_, place + ": " + error.what());
    }
  }
  return runs;
}

size_t Store::runs_of_other_signatures() const {
  Statement row(*handle_->database,
                "SELECT count(*) FROM runs WHERE signature<>?1 OR (task, train_signature) NOT IN "
                "(SELECT key, value FROM json_each(?2))");
  const std::string by_task = train_signatures_json();
  row.bind(1, identity_.signature).bind(2, by_task).step();
  return static_cast<size_t>(row.integer(0));
}

std::vector<Conflict> Store::conflicts() const {
  Statement row(*handle_->database,
                "SELECT hash, seed, group_concat(digest) FROM runs WHERE status<>'failed' "
                "GROUP BY hash, seed, signature, train_signature HAVING count(*) > 1");
  std::vector<Conflict> conflicts;
  while (row.step()) {
    conflicts.push_back({std::string(row.text(0)), static_cast<uint64_t>(row.integer(1)), std::string(row.text(2))});
  }
  return conflicts;
}

}  // namespace fp4::sweeps
