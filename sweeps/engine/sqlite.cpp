// Error texts of SQLite are short and say nothing about the remedy; the common ones are told here in full.
#include "sweeps/engine/sqlite.h"

namespace fp4::sweeps {

Database::Database(const std::string& file, int flags, const std::string& name)
    : file_(file), name_(name.empty() ? file : name) {
  const int code = sqlite3_open_v2(file.c_str(), &handle_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string reason = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    sqlite3_close(handle_);
    throw store_error(name_, "cannot open the store: " + reason + " (is the folder writable?)");
  }
  sqlite3_extended_result_codes(handle_, 1);
  // The file may be anybody's: its schema calls no function with effects, and no trigger and no view of it runs.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_busy_timeout(handle_, 10'000);
}

Database::~Database() { sqlite3_close(handle_); }

void Database::fail(int code) {
  const std::string reason = sqlite3_errmsg(handle_);
  switch (code & 0xff) {
    case SQLITE_FULL:
      throw store_error(name_,
                        "the disk is full; every run committed before is safe. Make room and start the same "
                        "command again: it continues with what is missing");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      throw store_error(name_, "the store cannot be written (" + reason + "): check the folder's permissions");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      throw store_error(name_, "not a sound store (" + reason +
                                   "); nothing was changed. Move it away, or rescue its rows "
                                   "with `sqlite3 FILE .recover`");
    case SQLITE_BUSY:
    case SQLITE_LOCKED: throw store_error(name_, "another process holds the store (" + reason + ")");
    case SQLITE_IOERR:
      throw store_error(name_, "reading or writing failed (" + reason + "); every run committed before is safe");
    default: throw store_error(name_, reason);
  }
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? std::string(statement.text(0)) : std::string();
}

int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  const int code =
      sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
  if (code != SQLITE_OK) database_.fail(code);
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int index, std::string_view text) {
  sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
  return *this;
}

Statement& Statement::bind(int index, double value) {
  sqlite3_bind_double(statement_, index, value);
  return *this;
}

Statement& Statement::bind(int index, const std::optional<double>& value) {
  if (value) return bind(index, *value);
  sqlite3_bind_null(statement_, index);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3_reset(statement_);
  database_.fail(code);
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(statement_);
}

std::string_view Statement::text(int column) const {
  const auto* begin = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (begin == nullptr) return {};
  return {begin, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

}  // namespace fp4::sweeps
