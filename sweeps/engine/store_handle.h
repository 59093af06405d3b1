// What a store holds open, and how rows become records: shared by the store's own source files.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sweeps/engine/sqlite.h"
#include "sweeps/engine/store.h"
#include "sweeps/engine/store_files.h"

namespace fp4::sweeps {

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
nlohmann::json stored_json(const Database& database, std::string_view text, const char* column);

}  // namespace fp4::sweeps
