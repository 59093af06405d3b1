// Opening and closing a store. Its runs are in store_runs.cpp, its plan in store_plan.cpp, merging and checking in
// store_merge.cpp.
#include "sweeps/engine/store.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/text/error.h"
#include "src/text/input_file.h"
#include "sweeps/engine/store_schema.h"

namespace fp4::sweeps {

namespace fs = std::filesystem;

bool Identity::agrees_with(const Identity& other) const {
  return signature == other.signature &&
         std::all_of(train_signatures.begin(), train_signatures.end(), [&](const auto& mine) {
           const auto theirs = other.train_signatures.find(mine.first);
           return theirs == other.train_signatures.end() || theirs->second == mine.second;
         });
}

// Copies and comparisons of a tree go down level by level on the stack, so a text of 200,000 brackets would end it.
void check_depth(const Database& database, std::string_view text, const char* column) {
  constexpr int deepest = 64;  // as json_reader.h
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_text && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_text = !in_text;
    } else if (!in_text) {
      depth += text[i] == '[' || text[i] == '{' ? 1 : text[i] == ']' || text[i] == '}' ? -1 : 0;
      if (depth > deepest)
        throw store_error(database.name(),
                          std::string("damaged: column ") + column + " is nested deeper than 64 levels");
    }
  }
}

Json stored_json(const Database& database, std::string_view text, const char* column) {
  check_depth(database, text, column);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw store_error(database.name(), std::string("damaged: column ") + column + " is not JSON");
  return json;
}

static std::map<std::string, std::string> parse_train_signatures(const Database& database, const std::string& text) {
  std::map<std::string, std::string> by_task;
  const Json json = text.empty() ? Json::object() : stored_json(database, text, "train_signatures");
  for (const auto& [task, signature] : json.items()) {
    if (!json.is_object() || !signature.is_string())
      throw store_error(database.name(), "train_signatures: not one text for each task");
    by_task[task] = signature.get<std::string>();
  }
  return by_task;
}

Store::Store(fs::path file, std::unique_ptr<Handle> handle, Identity identity)
    : file_(std::move(file)), handle_(std::move(handle)), identity_(std::move(identity)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store::~Store() {
  try {
    finish();
  } catch (const std::exception&) {  // the journal stays beside the file, and nothing is lost
  }
}

void Store::finish() {
  if (!handle_ || !handle_->writing) return;
  handle_->writing = false;
  Database& database = *handle_->database;
  try {
    handle_->watch.check();
  } catch (const Error&) {
    // The names may lead to another store by now: closing must not touch files by name.
    int keep = 1;
    sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    throw;
  }
  database.execute("PRAGMA synchronous=FULL");
  if (database.integer("PRAGMA wal_checkpoint(TRUNCATE)") != 0) {
    throw store_error(file_, "another program reads it, so its last runs stay in " + file_.string() +
                                 "-wal; keep the two together, or start the same command again");
  }
  // Fails while others read; then an empty journal stays.
  sqlite3_busy_timeout(database.handle(), 500);
  sqlite3_exec(database.handle(), "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
  sync_to_disk(file_);
  sync_to_disk(file_.parent_path().empty() ? fs::path(".") : file_.parent_path());
}

// Nothing has been stored: what a kill leaves between making the file and filling it.
static bool is_empty(Database& database) {
  return database.integer("PRAGMA application_id") == 0 && database.integer("SELECT count(*) FROM sqlite_master") == 0;
}

[[noreturn]] static void throw_absent(const fs::path& folder, const char* why) {
  throw Error(folder.string() + ": no sweep here (" + why + "); `fp4sim sweep run GRID --out " + folder.string() +
              "` makes one");
}

bool Store::exists(const fs::path& folder) {
  const fs::path file = folder / "sweep.sqlite";
  refuse_links(folder, /*to_write=*/false);
  if (!fs::exists(file)) return false;
  try {
    Database database(file.string(), SQLITE_OPEN_READONLY);
    return !is_empty(database);
  } catch (const Error&) {
  }
  try {  // a journal that a kill has left is rolled back in a copy
    const Snapshot copy(file);
    Database database(copy.file(), SQLITE_OPEN_READWRITE, file.string());
    return !is_empty(database);
  } catch (const Error&) {
    return true;  // whatever is wrong with it, its reader says
  }
}

Store Store::open(const fs::path& folder, const Identity& identity, StoreMode mode) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error(folder.string() + ": the folder cannot be made: " + failure.message(), Error::failed);
  auto handle = std::make_unique<Handle>();
  handle->lock = std::make_unique<WriterLock>(folder);
  const fs::path file = folder / "sweep.sqlite";
  remove_unusable_sidecars(file);
  // An empty file is what a kill between creating and filling leaves: as good as none.
  const bool fresh = !fs::exists(file) || (fs::file_size(file) == 0 && !fs::exists(file.string() + "-wal"));
  handle->database = std::make_unique<Database>(file.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  Database& database = *handle->database;
  add_row_hash_function(database);
  if (mode == StoreMode::automatic) mode = is_network_file_system(folder) ? StoreMode::network : StoreMode::local;
  if (mode == StoreMode::network) database.execute("PRAGMA locking_mode=EXCLUSIVE");
  // Judged before anything is changed: setting the journal mode already writes to the header.
  const bool empty = fresh || is_empty(database);
  const int version = empty ? current_schema : check_file(database);
  database.execute(mode == StoreMode::network ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL");
  database.execute("PRAGMA synchronous=NORMAL");
  if (empty) create_tables(database);
  if (version < current_schema) migrate(database);
  handle->writing = true;
  Store store(file, std::move(handle), identity);
  if (store.meta("signature") == identity.signature)
    store.identity_.train_signatures.merge(
        parse_train_signatures(*store.handle_->database, store.meta("train_signatures")));
  store.set_meta("signature", identity.signature);
  store.set_meta("train_signatures", store.train_signatures_json());
  store.set_meta("version", identity.version);
  store.set_meta("host", identity.host);
  store.handle_->watch.add(file);
  store.handle_->watch.add(file.string() + "-wal");
  return store;
}

Store Store::read(const fs::path& folder) {
  const fs::path file = folder / "sweep.sqlite";
  refuse_links(folder, /*to_write=*/false);
  if (!fs::exists(file)) throw_absent(folder, "there is no sweep.sqlite");
  for (const char* ending : {"", "-wal", "-journal"}) note_input(file.string() + ending);
  auto handle = std::make_unique<Handle>();
  const auto open_copy = [&] {
    handle->database.reset();
    handle->snapshot = std::make_unique<Snapshot>(file);
    handle->database = std::make_unique<Database>(handle->snapshot->file(), SQLITE_OPEN_READWRITE, file.string());
    add_row_hash_function(*handle->database);
  };
  try {
    handle->database = std::make_unique<Database>(file.string(), SQLITE_OPEN_READONLY);
    add_row_hash_function(*handle->database);
    sqlite3_busy_timeout(handle->database->handle(), 200);
    handle->database->integer("SELECT count(*) FROM sqlite_master");
  } catch (const Error&) {
    // A lone writer, or a journal that a read-only folder keeps from being rolled back: read a private copy.
    open_copy();
  }
  if (is_empty(*handle->database)) throw_absent(folder, "sweep.sqlite is empty");
  if (check_file(*handle->database) < current_schema) {
    if (!handle->snapshot) open_copy();
    migrate(*handle->database);
  }
  Store store(file, std::move(handle), {});
  store.identity_ = {
      .signature = store.meta("signature"),
      .train_signatures = parse_train_signatures(*store.handle_->database, store.meta("train_signatures")),
      .version = store.meta("version"),
      .host = store.meta("host")};
  return store;
}

std::string Store::train_signatures_json() const { return Json(identity_.train_signatures).dump(); }

void Store::limit_pages(int pages) { handle_->database->execute("PRAGMA max_page_count=" + std::to_string(pages)); }

}  // namespace fp4::sweeps
