// Putting stores together, and looking a whole store over.
#include "src/text/error.h"
#include "sweeps/engine/store_schema.h"

namespace fp4::sweeps {

namespace fs = std::filesystem;

namespace {

// A table, its columns without the hash, and what names one of its rows to a person.
struct HashedTable {
  const char* table;
  const char* columns;
  const char* row;
};
constexpr HashedTable hashed_tables[] = {
    {"meta", "key, value", "quote(key)"},
    {"configs", "hash, task, reference, recipe, static_cost, probability, at, config", "'configuration ' || hash"},
    {"points", "id, hash, labels", "'point ' || id"},
    {"runs", run_columns, "'configuration ' || hash || ', seed ' || seed || ' (id ' || id || ')'"},
};

std::string unfit(const HashedTable& table) {
  return std::string(" FROM ") + table.table + " WHERE row_hash<>fp4_row_hash(" + table.columns + ")";
}

void check_hashes(Database& database, std::vector<std::string>& damage) {
  for (const HashedTable& table : hashed_tables) {
    Statement row(database, std::string("SELECT ") + table.row + unfit(table));
    while (row.step())
      damage.push_back(std::string(table.table) + ": the row of " + std::string(row.text(0)) +
                       " does not have the hash it was stored with");
  }
}

const char* const same_key =
    "m.hash=o.hash AND m.seed=o.seed AND m.signature=o.signature AND m.train_signature=o.train_signature";

void copy_rows(Database& database, bool is_part) {
  Transaction transaction(database);
  const std::string key = same_key;
  const std::string columns = run_columns;
  database.execute("INSERT OR IGNORE INTO configs SELECT * FROM other.configs");
  database.execute(is_part ? "INSERT OR IGNORE INTO points SELECT * FROM other.points"
                           : "INSERT INTO points SELECT * FROM other.points WHERE NOT EXISTS(SELECT 1 FROM points)");
  database.execute("DELETE FROM runs AS m WHERE status='failed' AND EXISTS(SELECT 1 FROM other.runs AS o WHERE " + key +
                   " AND o.status<>'failed')");
  database.execute("UPDATE runs AS m SET role=o.role, row_hash='' FROM other.runs AS o WHERE " + key +
                   " AND (CASE o.role WHEN 'run' THEN 0 WHEN 'confirm' THEN 1 ELSE 2 END) < "
                   "(CASE m.role WHEN 'run' THEN 0 WHEN 'confirm' THEN 1 ELSE 2 END)");
  database.execute("INSERT OR IGNORE INTO runs(" + columns + ", row_hash) SELECT " + columns +
                   ", row_hash FROM other.runs AS o WHERE status<>'failed' OR NOT EXISTS(SELECT 1 FROM main.runs AS m "
                   "WHERE " +
                   key + " AND m.status<>'failed')");
  database.execute(hash_runs);
  transaction.commit();
}

// Why the runs of `other` may not go into `mine`.
void check_alike(const Store& mine, const Store& other) {
  const std::string name = mine.meta("name");
  const std::string file = other.file().string();
  if (!name.empty() && name != other.meta("name"))
    throw Error(file + ": a store of the sweep '" + other.meta("name") + "', not of '" + name + "'", Error::failed);
  if (!mine.identity().agrees_with(other.identity())) {
    throw Error(file + ": its runs have another signature than those of " + mine.file().string() +
                    ": the arithmetic or a task changed in between; run the grid again there",
                Error::failed);
  }
  const std::string grid = mine.meta("grid");
  if (!grid.empty() && grid != other.meta("grid")) {
    throw Error(file + ": holds another edition of the grid '" + name +
                    "'; `fp4sim sweep run` with the edited grid brings it up to date",
                Error::failed);
  }
}

}  // namespace

void Store::absorb(const Store& other) {
  Database& database = *handle_->database;
  check_alike(*this, other);
  std::vector<std::string> damage;
  for (const Store* store : {static_cast<const Store*>(this), &other}) {
    check_hashes(*store->handle_->database, damage);
    if (!damage.empty()) throw store_error(store->file_, "damaged: " + damage.front());
  }
  const std::string theirs = other.meta("part"), mine = meta("grid").empty() ? theirs : meta("part");
  const bool counted = !other.meta("configs").empty() && (meta("grid").empty() || !meta("configs").empty());
  for (const std::string key : {"name", "grid", "recipes", "axes", "points"}) {
    if (meta(key).empty()) set_meta(key, other.meta(key));
  }
  // A whole plan beside a part takes its place.
  if (!mine.empty() && theirs.empty()) database.execute("DELETE FROM points");
  const bool is_part = !mine.empty() && !theirs.empty();
  set_meta("part", is_part ? joined_parts(mine, theirs) : "");
  for (const auto& [task, signature] : other.identity_.train_signatures)
    identity_.train_signatures.try_emplace(task, signature);
  set_meta("train_signatures", train_signatures_json());
  // Attached by the name of what was opened (a snapshot where the original could not be), never by SQL text.
  Statement(database, "ATTACH DATABASE ? AS other").bind(1, other.handle_->database->file()).run();
  try {
    copy_rows(database, is_part);
  } catch (...) {
    sqlite3_exec(database.handle(), "DETACH DATABASE other", nullptr, nullptr, nullptr);
    throw;
  }
  database.execute("DETACH DATABASE other");
  if (counted)
    set_counts();
  else
    set_meta("configs", "");
  handle_->watch.add(file_.string() + "-wal");
  handle_->watch.check();
}

StoreCheck check_store(const fs::path& folder) {
  const fs::path file = folder / "sweep.sqlite";
  refuse_links(folder, /*to_write=*/false);
  if (!fs::exists(file)) throw Error(folder.string(), "no sweep here (there is no sweep.sqlite)");
  const Snapshot copy(file);  // with its journal, whoever is writing
  Database database(copy.file(), SQLITE_OPEN_READWRITE, file.string());
  add_row_hash_function(database);
  StoreCheck result;
  try {
    if (check_file(database) < current_schema) migrate(database);
    for (const HashedTable& table : hashed_tables) {
      const int64_t count = database.integer(std::string("SELECT count(*) FROM ") + table.table);
      result.rows.emplace_back(table.table, static_cast<size_t>(count));
    }
    check_hashes(database, result.damage);
  } catch (const Error& error) {
    result.damage.push_back(error.text);  // whoever prints it names the file
  }
  return result;
}

size_t drop_damaged_rows(const fs::path& folder) {
  const WriterLock lock(folder);
  Database database((folder / "sweep.sqlite").string(), SQLITE_OPEN_READWRITE);
  add_row_hash_function(database);
  if (check_file(database) < current_schema) migrate(database);
  Transaction transaction(database);
  size_t dropped = 0;
  for (const HashedTable& table : hashed_tables) {
    database.execute("DELETE" + unfit(table));
    dropped += static_cast<size_t>(sqlite3_changes(database.handle()));
  }
  transaction.commit();
  return dropped;
}

}  // namespace fp4::sweeps
