// Schema and queries of the store. Runs are append-only: the plan (configs, points) may be replaced, a run never is,
// except that a success takes the place of a failure under the same key.
#include "sweeps/store.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "src/error.h"
#include "sweeps/sqlite.h"
#include "sweeps/store_files.h"

namespace fp4::sweeps {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr int64_t application_id = 0x66703473;  // "fp4s": tells a foreign SQLite file from a store
constexpr int64_t schema_version = 1;

constexpr const char* schema = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE configs(hash TEXT PRIMARY KEY, task TEXT NOT NULL, reference TEXT NOT NULL, recipe TEXT NOT NULL,
  static_cost REAL NOT NULL, probability REAL NOT NULL, config TEXT NOT NULL);
CREATE TABLE points(hash TEXT NOT NULL, labels TEXT NOT NULL);
CREATE TABLE runs(id INTEGER PRIMARY KEY, hash TEXT NOT NULL, seed INTEGER NOT NULL, signature TEXT NOT NULL,
  train_signature TEXT NOT NULL, role TEXT NOT NULL, status TEXT NOT NULL, message TEXT NOT NULL, loss REAL,
  loss_hp REAL, digest TEXT NOT NULL, seconds REAL NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL,
  host TEXT NOT NULL, metrics TEXT NOT NULL, curve TEXT NOT NULL,
  UNIQUE(hash, seed, signature, train_signature, digest));
)";

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

Curve parse_curve(std::string_view text) {
  if (text.empty()) return {};
  const Json json = Json::parse(text);
  return {numbers(json["step"]), numbers(json["train_loss"]), numbers(json["validation_loss"])};
}

std::optional<double> optional_real(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.real(column);
}

void check_kind(Database& database) {
  const int64_t id = database.integer("PRAGMA application_id");
  if (id != application_id) throw Error(database.file() + ": a SQLite file, but not a sweep store of fp4sim", 1);
  const int64_t version = database.integer("PRAGMA user_version");
  if (version != schema_version) {
    throw Error(database.file() + ": store schema " + std::to_string(version) + ", this program reads schema " +
                    std::to_string(schema_version) + "; use the program that wrote it",
                1);
  }
  const std::string check = database.text("PRAGMA quick_check(1)");
  if (check != "ok") {
    throw Error(database.file() + ": damaged (" + check +
                    "); nothing was changed. Move it away, or rescue its rows "
                    "with `sqlite3 FILE .recover`",
                1);
  }
}

}  // namespace

struct Store::Handle {
  std::unique_ptr<WriterLock> lock;
  std::unique_ptr<Snapshot> snapshot;
  std::unique_ptr<Database> database;
  bool writing = false;
};

Store::Store(fs::path file, std::unique_ptr<Handle> handle, Identity identity)
    : file_(std::move(file)), handle_(std::move(handle)), identity_(std::move(identity)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store::~Store() {
  if (!handle_ || !handle_->writing) return;
  // Folding the WAL back may meet a full disk; then the WAL stays beside the file, and nothing is lost.
  sqlite3_exec(handle_->database->handle(), "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
}

bool Store::exists(const fs::path& folder) { return fs::exists(folder / "sweep.sqlite"); }

Store Store::open(const fs::path& folder, const Identity& identity, StoreMode mode) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error(folder.string() + ": the folder cannot be made: " + failure.message(), 1);
  auto handle = std::make_unique<Handle>();
  handle->lock = std::make_unique<WriterLock>(folder);
  const fs::path file = folder / "sweep.sqlite";
  // An empty file is what a kill between creating and filling leaves: as good as none.
  const bool fresh = !fs::exists(file) || (fs::file_size(file) == 0 && !fs::exists(file.string() + "-wal"));
  handle->database = std::make_unique<Database>(file.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  Database& database = *handle->database;
  if (mode == StoreMode::automatic) mode = is_network_file_system(folder) ? StoreMode::network : StoreMode::local;
  if (mode == StoreMode::network) database.execute("PRAGMA locking_mode=EXCLUSIVE");
  // Judged before anything is changed: setting the journal mode already writes to the header.
  const bool empty = fresh || (database.integer("PRAGMA application_id") == 0 &&
                               database.integer("SELECT count(*) FROM sqlite_master") == 0);
  if (!empty) check_kind(database);
  database.execute(mode == StoreMode::network ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL");
  database.execute("PRAGMA synchronous=NORMAL");
  if (empty) {
    // The header's ids go in with the tables: a kill in between leaves either nothing or a whole store.
    Transaction transaction(database);
    database.execute(schema);
    database.execute("PRAGMA application_id=" + std::to_string(application_id));
    database.execute("PRAGMA user_version=" + std::to_string(schema_version));
    transaction.commit();
  }
  handle->writing = true;
  Store store(file, std::move(handle), identity);
  store.set_meta("signature", identity.signature);
  store.set_meta("train_signature", identity.train_signature);
  store.set_meta("version", identity.version);
  store.set_meta("host", identity.host);
  return store;
}

Store Store::read(const fs::path& folder) {
  const fs::path file = folder / "sweep.sqlite";
  if (!fs::exists(file)) {
    throw Error(folder.string() + ": no sweep here (there is no sweep.sqlite); `fp4sim sweep run GRID --out " +
                folder.string() + "` makes one");
  }
  auto handle = std::make_unique<Handle>();
  try {
    handle->database = std::make_unique<Database>(file.string(), SQLITE_OPEN_READONLY);
    sqlite3_busy_timeout(handle->database->handle(), 200);
    handle->database->integer("SELECT count(*) FROM sqlite_master");
  } catch (const Error&) {
    // A lone writer, or a journal that a read-only folder keeps from being rolled back: read a private copy.
    handle->database.reset();
    handle->snapshot = std::make_unique<Snapshot>(file);
    handle->database = std::make_unique<Database>(handle->snapshot->file(), SQLITE_OPEN_READWRITE);
  }
  check_kind(*handle->database);
  Store store(file, std::move(handle), {});
  store.identity_ = {store.meta("signature"), store.meta("train_signature"), store.meta("version"), store.meta("host")};
  return store;
}

std::string Store::meta(const std::string& key) const {
  Statement row(*handle_->database, "SELECT value FROM meta WHERE key = ?");
  return row.bind(1, key).step() ? std::string(row.text(0)) : std::string();
}

void Store::set_meta(const std::string& key, const std::string& value) {
  if (meta(key) == value) return;
  Statement(*handle_->database, "INSERT OR REPLACE INTO meta VALUES(?, ?)").bind(1, key).bind(2, value).run();
}

void Store::add_configs(std::span<const ConfigRecord> configs) {
  Database& database = *handle_->database;
  Transaction transaction(database);
  Statement insert(database, "INSERT OR REPLACE INTO configs VALUES(?, ?, ?, ?, ?, ?, ?)");
  for (const ConfigRecord& config : configs) {
    insert.bind(1, config.hash).bind(2, config.task).bind(3, config.reference).bind(4, config.recipe);
    insert.bind(5, config.static_cost).bind(6, config.probability).bind(7, config.config).run();
  }
  transaction.commit();
}

void Store::put_plan(const std::vector<std::string>& axes, std::span<const ConfigRecord> configs,
                     std::span<const PointRecord> points) {
  Database& database = *handle_->database;
  {
    Transaction transaction(database);
    database.execute("DELETE FROM configs");
    database.execute("DELETE FROM points");
    Statement insert(database, "INSERT INTO points VALUES(?, ?)");
    for (const PointRecord& point : points) {
      const std::string labels = Json(point.labels).dump();
      insert.bind(1, point.hash).bind(2, labels).run();
    }
    const std::string names = Json(axes).dump();
    Statement(database, "INSERT OR REPLACE INTO meta VALUES('axes', ?)").bind(1, names).run();
    transaction.commit();
  }
  add_configs(configs);
}

std::vector<ConfigRecord> Store::configs(bool with_text) const {
  Statement row(*handle_->database, std::string("SELECT hash, task, reference, recipe, static_cost, probability, ") +
                                        (with_text ? "config" : "''") + " FROM configs ORDER BY task, hash");
  std::vector<ConfigRecord> configs;
  while (row.step()) {
    configs.push_back({.hash = std::string(row.text(0)),
                       .task = std::string(row.text(1)),
                       .reference = std::string(row.text(2)),
                       .recipe = std::string(row.text(3)),
                       .config = std::string(row.text(6)),
                       .static_cost = row.real(4),
                       .probability = row.real(5)});
  }
  return configs;
}

std::vector<PointRecord> Store::points() const {
  Statement row(*handle_->database, "SELECT hash, labels FROM points ORDER BY rowid");
  std::vector<PointRecord> points;
  while (row.step()) {
    points.push_back({std::string(row.text(0)), Json::parse(row.text(1)).get<std::vector<std::string>>()});
  }
  return points;
}

std::vector<std::string> Store::axes() const {
  const std::string text = meta("axes");
  if (text.empty()) return {};
  return Json::parse(text).get<std::vector<std::string>>();
}

void Store::insert(std::span<const RunRecord> runs) {
  Database& database = *handle_->database;
  std::string conflict;
  Transaction transaction(database);
  Statement known(database,
                  "SELECT digest, status FROM runs WHERE hash=? AND seed=? AND signature=? AND train_signature=?");
  Statement forget(database,
                   "DELETE FROM runs WHERE hash=? AND seed=? AND signature=? AND train_signature=? AND "
                   "status='failed'");
  Statement insert(database,
                   "INSERT OR IGNORE INTO runs(hash, seed, signature, train_signature, role, status, message, loss, "
                   "loss_hp, digest, seconds, backend, version, host, metrics, curve) "
                   "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const RunRecord& run : runs) {
    const auto seed = static_cast<int64_t>(run.seed);
    bool succeeded = false;
    known.bind(1, run.hash).bind(2, seed).bind(3, identity_.signature).bind(4, identity_.train_signature);
    while (known.step()) {
      if (known.text(1) == "failed") continue;
      succeeded = true;
      if (run.status != Status::failed && known.text(0) != run.digest) {
        conflict = "configuration " + run.hash + ", seed " + std::to_string(run.seed) + ": digest " + run.digest +
                   ", but an earlier run gave " + std::string(known.text(0));
      }
    }
    known.run();
    if (run.status == Status::failed && succeeded) continue;
    forget.bind(1, run.hash).bind(2, seed).bind(3, identity_.signature).bind(4, identity_.train_signature).run();
    Json metrics = Json::object();
    for (const auto& [name, value] : run.metrics) metrics[name] = value;
    const std::string metrics_text = metrics.dump();
    const std::string curve = curve_text(run.curve);
    insert.bind(1, run.hash).bind(2, seed).bind(3, identity_.signature).bind(4, identity_.train_signature);
    insert.bind(5, word(run.role)).bind(6, word(run.status)).bind(7, run.message);
    insert.bind(8, run.loss).bind(9, run.loss_hp).bind(10, run.digest).bind(11, run.seconds);
    insert.bind(12, run.backend).bind(13, identity_.version).bind(14, identity_.host);
    insert.bind(15, metrics_text).bind(16, curve).run();
  }
  transaction.commit();
  if (!conflict.empty()) {
    throw Error(file_.string() + ": non-determinism found: " + conflict +
                    "; both rows are kept (`fp4sim sweep status` lists them)",
                1);
  }
}

void Store::raise_role(const std::string& hash, uint64_t seed, Role role) {
  Statement(*handle_->database, "UPDATE runs SET role=? WHERE hash=? AND seed=?")
      .bind(1, word(role))
      .bind(2, hash)
      .bind(3, static_cast<int64_t>(seed))
      .run();
}

std::vector<RunRecord> Store::runs(bool with_curves, const std::vector<std::string>& hashes) const {
  Statement row(
      *handle_->database,
      std::string("SELECT hash, seed, role, status, message, loss, loss_hp, digest, seconds, backend, metrics") +
          (with_curves ? ", curve" : ", ''") +
          " FROM runs WHERE signature=? AND train_signature=? ORDER BY hash, seed, id");
  row.bind(1, identity_.signature).bind(2, identity_.train_signature);
  const std::set<std::string, std::less<>> wanted(hashes.begin(), hashes.end());
  std::vector<RunRecord> runs;
  while (row.step()) {
    if (!wanted.empty() && !wanted.contains(row.text(0))) continue;
    RunRecord run{.hash = std::string(row.text(0)),
                  .seed = static_cast<uint64_t>(row.integer(1)),
                  .role = parse_role(row.text(2)),
                  .status = parse_status(row.text(3)),
                  .message = std::string(row.text(4)),
                  .loss = optional_real(row, 5),
                  .loss_hp = optional_real(row, 6),
                  .metrics = {},
                  .digest = std::string(row.text(7)),
                  .seconds = row.real(8),
                  .backend = std::string(row.text(9)),
                  .curve = parse_curve(row.text(11))};
    if (row.text(10).size() > 2) {
      const Json metrics = Json::parse(row.text(10));
      for (const auto& [name, value] : metrics.items()) {
        run.metrics.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
      }
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

size_t Store::runs_of_other_signatures() const {
  Statement row(*handle_->database, "SELECT count(*) FROM runs WHERE signature<>? OR train_signature<>?");
  row.bind(1, identity_.signature).bind(2, identity_.train_signature).step();
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

void Store::absorb(const Store& other) {
  Database& database = *handle_->database;
  const std::string mine = meta("name");
  const std::string theirs = other.meta("name");
  if (!mine.empty() && mine != theirs) {
    throw Error(other.file_.string() + ": a store of the sweep '" + theirs + "', not of '" + mine + "'");
  }
  for (const std::string key : {"name", "grid", "axes"}) {
    if (meta(key).empty()) set_meta(key, other.meta(key));
  }
  // Attached by the name of what was opened (a snapshot where the original could not be), never by SQL text.
  Statement(database, "ATTACH DATABASE ? AS other").bind(1, other.handle_->database->file()).run();
  try {
    Transaction transaction(database);
    const std::string same_key =
        "m.hash=o.hash AND m.seed=o.seed AND m.signature=o.signature AND m.train_signature=o.train_signature";
    database.execute("INSERT OR IGNORE INTO configs SELECT * FROM other.configs");
    database.execute("INSERT INTO points SELECT * FROM other.points WHERE NOT EXISTS(SELECT 1 FROM points)");
    database.execute("DELETE FROM runs AS m WHERE status='failed' AND EXISTS(SELECT 1 FROM other.runs AS o WHERE " +
                     same_key + " AND o.status<>'failed')");
    database.execute("UPDATE runs AS m SET role=o.role FROM other.runs AS o WHERE " + same_key + " AND " +
                     "(CASE o.role WHEN 'run' THEN 0 WHEN 'confirm' THEN 1 ELSE 2 END) < "
                     "(CASE m.role WHEN 'run' THEN 0 WHEN 'confirm' THEN 1 ELSE 2 END)");
    database.execute(
        "INSERT OR IGNORE INTO runs(hash, seed, signature, train_signature, role, status, message, loss, loss_hp, "
        "digest, seconds, backend, version, host, metrics, curve) SELECT hash, seed, signature, train_signature, role, "
        "status, message, loss, loss_hp, digest, seconds, backend, version, host, metrics, curve FROM other.runs AS o "
        "WHERE status<>'failed' OR NOT EXISTS(SELECT 1 FROM main.runs AS m WHERE " +
        same_key + " AND m.status<>'failed')");
    transaction.commit();
  } catch (...) {
    sqlite3_exec(database.handle(), "DETACH DATABASE other", nullptr, nullptr, nullptr);
    throw;
  }
  database.execute("DETACH DATABASE other");
}

void Store::limit_pages(int pages) { handle_->database->execute("PRAGMA max_page_count=" + std::to_string(pages)); }

}  // namespace fp4::sweeps
