// A thin owner of SQLite's handles, so that store.cpp reads as SQL. Every failure becomes one fp4::Error that names the
// file and says what to do; used by the store alone.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "src/text/error.h"

namespace fp4::sweeps {

// What keeps a store from being read or written; exit code 1.
inline Error store_error(const std::filesystem::path& file, const std::string& what) {
  return {file.string(), what, Error::failed};
}

class Statement;

class Database {
 public:
  // flags: SQLITE_OPEN_...; `name` opens messages: the file, or the one that it is a copy of.
  Database(const std::string& file, int flags, const std::string& name = "");
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  std::string text(const std::string& sql);  // first column of the first row
  int64_t integer(const std::string& sql);
  [[noreturn]] void fail(int code);
  sqlite3* handle() { return handle_; }
  const std::string& file() const { return file_; }
  const std::string& name() const { return name_; }

 private:
  std::string file_, name_;
  sqlite3* handle_ = nullptr;
};

class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bound texts must live until the next step or reset.
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);
  Statement& bind(int index, const std::optional<double>& value);
  bool step();  // true: a row is there
  void run();   // step to the end, then reset

  std::string_view text(int column) const;
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

// Commits at commit(), rolls back when an exception passes.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (!committed_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  void commit() {
    database_.execute("COMMIT");
    committed_ = true;
  }

 private:
  Database& database_;
  bool committed_ = false;
};

}  // namespace fp4::sweeps
