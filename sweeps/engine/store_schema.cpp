#include "sweeps/engine/store_schema.h"

#include <array>
#include <bit>

#include "src/files/sha256.h"

namespace fp4::sweeps {

namespace {

constexpr int64_t application_id = 0x66703473;  // "fp4s": tells a foreign SQLite file from a store

constexpr const char* tables = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL, row_hash TEXT NOT NULL);
CREATE TABLE configs(hash TEXT PRIMARY KEY, task TEXT NOT NULL, reference TEXT NOT NULL, recipe TEXT NOT NULL,
  static_cost REAL NOT NULL, probability REAL NOT NULL, at TEXT NOT NULL, config TEXT NOT NULL,
  row_hash TEXT NOT NULL);
CREATE TABLE points(id INTEGER PRIMARY KEY, hash TEXT NOT NULL, labels TEXT NOT NULL, row_hash TEXT NOT NULL);
CREATE TABLE runs(id INTEGER PRIMARY KEY, hash TEXT NOT NULL, seed INTEGER NOT NULL, task TEXT NOT NULL,
  signature TEXT NOT NULL, train_signature TEXT NOT NULL, role TEXT NOT NULL, status TEXT NOT NULL,
  message TEXT NOT NULL, loss REAL, loss_hp REAL, digest TEXT NOT NULL, seconds REAL NOT NULL, backend TEXT NOT NULL,
  version TEXT NOT NULL, host TEXT NOT NULL, metrics TEXT NOT NULL, curve TEXT NOT NULL, row_hash TEXT NOT NULL,
  UNIQUE(hash, seed, signature, train_signature, digest));
)";

// Schema 1 stored one train signature over all tasks. What it stands for, task by task, measured with the last program
// that wrote it; runs under any other number stay as they are, under a signature that no task has.
struct EarlierSignature {
  const char* all_tasks;
  const char* task;
  const char* train_signature;
};
constexpr std::array<EarlierSignature, 4> earlier_signatures = {{
    {"22705506038745fc", "regression", "8f17e41c805ced95"},
    {"22705506038745fc", "classifier", "03f480183543fcb5"},
    {"22705506038745fc", "diffusion", "4e37f7b1430c7d4a"},
    {"22705506038745fc", "lm", "16a0c9836eab54eb"},
}};

void append(std::string& text, char kind, const void* data, size_t size) {
  const auto bytes = static_cast<uint64_t>(size);
  text += kind;
  text.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  text.append(static_cast<const char*>(data), size);
}

// Kind, length and bytes of every value, so that no two rows give the same text. Little-endian, as all platforms are.
static_assert(std::endian::native == std::endian::little);
void row_hash(sqlite3_context* context, int count, sqlite3_value** values) {
  try {
    std::string text;
    for (int i = 0; i < count; ++i) {
      sqlite3_value* const value = values[i];
      switch (sqlite3_value_type(value)) {
        case SQLITE_NULL: append(text, 'n', "", 0); break;
        case SQLITE_INTEGER: {
          const int64_t number = sqlite3_value_int64(value);
          append(text, 'i', &number, sizeof number);
          break;
        }
        case SQLITE_FLOAT: {
          const double number = sqlite3_value_double(value);
          append(text, 'r', &number, sizeof number);
          break;
        }
        default: {
          const void* const bytes = sqlite3_value_blob(value);
          append(text, 't', bytes == nullptr ? "" : bytes, static_cast<size_t>(sqlite3_value_bytes(value)));
        }
      }
    }
    const std::string hash = sha256_hex(text).substr(0, 16);
    sqlite3_result_text(context, hash.data(), static_cast<int>(hash.size()), SQLITE_TRANSIENT);
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
}

void set_row_hashes(Database& database) {
  database.execute("UPDATE meta SET row_hash=fp4_row_hash(key, value)");
  database.execute("UPDATE points SET row_hash=fp4_row_hash(id, hash, labels)");
  database.execute(
      "UPDATE configs SET row_hash=fp4_row_hash(hash, task, reference, recipe, static_cost, probability, at, config)");
  database.execute("UPDATE runs SET " + sound_run);
}

// The store's own signature by task: what the number of schema 1 stood for, or that number for every task it has.
std::string train_signatures_of(Database& database, const std::string& all_tasks) {
  Json by_task = Json::object();
  Statement tasks(database, "SELECT DISTINCT task FROM configs");
  while (tasks.step()) by_task[std::string(tasks.text(0))] = all_tasks;
  for (const EarlierSignature& earlier : earlier_signatures) {
    if (earlier.all_tasks == all_tasks) by_task[earlier.task] = earlier.train_signature;
  }
  return by_task.dump();
}

}  // namespace

void add_row_hash_function(Database& database) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
  const int code =
      sqlite3_create_function(database.handle(), "fp4_row_hash", -1, flags, nullptr, row_hash, nullptr, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

int check_file(Database& database) {
  const int64_t id = database.integer("PRAGMA application_id");
  if (id != application_id) throw store_error(database.name(), "a SQLite file, but not a sweep store of fp4sim");
  const int64_t version = database.integer("PRAGMA user_version");
  if (version < 1 || version > current_schema) {
    throw store_error(database.name(), "store schema " + std::to_string(version) +
                                           ", this program reads schemas 1 to " + std::to_string(current_schema) +
                                           "; use the program that wrote it");
  }
  // Views, triggers, virtual tables and indexes with expressions are programs that would run in ours.
  const std::string foreign = database.text(
      "SELECT type || ' ' || name FROM sqlite_master WHERE NOT (type='table' AND name IN ('meta', 'configs', 'points', "
      "'runs') AND sql LIKE 'CREATE TABLE %' OR type='index' AND sql IS NULL)");
  if (!foreign.empty())
    throw store_error(database.name(), "holds a " + foreign + ", which no sweep store has; nothing was changed");
  const std::string check = database.text("PRAGMA integrity_check(1)");
  if (check != "ok") {
    throw store_error(
        database.name(),
        "damaged (" + check + "); nothing was changed. Move it away, or rescue its rows with `sqlite3 FILE .recover`");
  }
  return static_cast<int>(version);
}

void create_tables(Database& database) {
  // The header's ids go in with the tables: a kill in between leaves either nothing or a whole store.
  Transaction transaction(database);
  database.execute(tables);
  database.execute("PRAGMA application_id=" + std::to_string(application_id));
  database.execute("PRAGMA user_version=" + std::to_string(current_schema));
  transaction.commit();
}

void migrate(Database& database) {
  Transaction transaction(database);
  for (const char* table : {"meta", "configs", "points", "runs"})
    database.execute(std::string("ALTER TABLE ") + table + " RENAME TO old_" + table);
  database.execute(tables);
  database.execute("INSERT INTO meta SELECT key, value, '' FROM old_meta");
  database.execute(
      "INSERT INTO configs SELECT hash, task, reference, recipe, static_cost, probability, 'fixed', config, '' "
      "FROM old_configs");
  database.execute("INSERT INTO points(hash, labels, row_hash) SELECT hash, labels, '' FROM old_points ORDER BY rowid");
  database.execute(
      "INSERT INTO runs SELECT id, hash, seed, '', signature, train_signature, role, status, message, loss, loss_hp, "
      "digest, seconds, backend, version, host, metrics, curve, '' FROM old_runs");
  for (const char* table : {"meta", "configs", "points", "runs"})
    database.execute(std::string("DROP TABLE old_") + table);
  const std::string all_tasks = database.text("SELECT value FROM meta WHERE key='train_signature'");
  const std::string by_task = train_signatures_of(database, all_tasks);
  database.execute("DELETE FROM meta WHERE key='train_signature'");
  Statement(database, "INSERT INTO meta VALUES('train_signatures', ?, '')").bind(1, by_task).run();
  database.execute("INSERT INTO meta SELECT 'points', count(*), '' FROM points");
  set_row_hashes(database);
  adopt_runs(database);
  database.execute("PRAGMA user_version=" + std::to_string(current_schema));
  transaction.commit();
}

int adopt_runs(Database& database) {
  database.execute(std::string() +
                   "UPDATE runs SET task=(SELECT task FROM configs WHERE configs.hash=runs.hash), row_hash='' "
                   "WHERE task='' AND EXISTS(SELECT 1 FROM configs WHERE configs.hash=runs.hash) AND " +
                   sound_run);
  const int adopted = sqlite3_changes(database.handle());
  if (adopted == 0) return 0;
  for (const EarlierSignature& earlier : earlier_signatures) {
    // A run that was done again meanwhile has the new row already; then the old one stays under its old signature.
    Statement(database,
              "UPDATE OR IGNORE runs SET train_signature=?1 WHERE row_hash='' AND task=?2 AND "
              "train_signature=?3")
        .bind(1, earlier.train_signature)
        .bind(2, earlier.task)
        .bind(3, earlier.all_tasks)
        .run();
  }
  database.execute(hash_runs);
  return adopted;
}

void check_row(const Database& database, bool fits, const std::string& table, const std::string& row) {
  if (fits) return;
  throw store_error(
      database.name(),
      "damaged: the row of " + row + " in table " + table +
          " does not have the hash it was stored with (`fp4sim sweep check` lists all such rows and can drop "
          "them)");
}

}  // namespace fp4::sweeps
