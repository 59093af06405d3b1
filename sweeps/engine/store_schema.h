// What a store's own source files share: what is inside its file (tables, the hash of every row, the change from schema
// 1 to 2), what it holds open, and how rows become records.
//
// Every row of every table ends with `row_hash`: the first 16 hex digits of SHA-256 over its other columns, made and
// compared by the SQL function fp4_row_hash. A changed bit in a text or number is found when its row is read; pages and
// indexes that do not fit together are found by SQLite's integrity check when the file is opened.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sweeps/engine/sqlite.h"
#include "sweeps/engine/store.h"
#include "sweeps/engine/store_files.h"

namespace fp4::sweeps {

using Json = nlohmann::json;

// All columns of `runs` but id and row_hash, in the order of the table.
inline constexpr const char* run_columns =
    "hash, seed, task, signature, train_signature, role, status, message, loss, loss_hp, digest, seconds, backend, "
    "version, host, metrics, curve";

// A run that is what was stored. An update of a row takes its hash away ('') and hash_runs gives it a new one, so only
// sound rows may be updated: a damaged one would become believable.
inline const std::string sound_run = std::string("row_hash=fp4_row_hash(") + run_columns + ")";
inline const std::string hash_runs = "UPDATE runs SET " + sound_run + " WHERE row_hash=''";

void add_row_hash_function(Database& database);

// Throws Error (exit code 1) for a foreign file, an unknown schema and a damaged file. Returns the schema's number.
int check_file(Database& database);
inline constexpr int current_schema = 2;

// The empty tables of the current schema, in one transaction.
void create_tables(Database& database);

// From schema 1, in one transaction: adds tasks and row hashes, and gives the runs the train signature of their task.
void migrate(Database& database);

// Schema 1 knew a run's task only by its configuration. Gives runs without a task that of their configuration, when the
// plan holds it again, and with it the task's train signature; returns how many.
int adopt_runs(Database& database);

// Throws Error naming the table and the row when `fits` is false.
void check_row(const Database& database, bool fits, const std::string& table, const std::string& row);

// Members go in reverse: the database is closed before its copy is removed and its lock released.
struct Store::Handle {
  std::unique_ptr<WriterLock> lock;
  std::unique_ptr<Snapshot> snapshot;
  std::unique_ptr<Database> database;
  FileWatch watch;
  bool writing = false;
};

// "1/3 3/3": shares of a plan, each once.
std::string joined_parts(const std::string& a, const std::string& b);

// Throws Error for a JSON text that is nested deeper than 64 levels.
void check_depth(const Database& database, std::string_view text, const char* column);

// JSON of a column, nested at most so deep; throws Error that names the file, the column and the parser's reason.
Json stored_json(const Database& database, std::string_view text, const char* column);

}  // namespace fp4::sweeps
