#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/files/sha256.h"
#include "src/model/model_files.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/threads/in_order.h"

namespace fp4 {

void check_hashes(const std::string& command, const std::vector<std::string>& files) {
  namespace fs = std::filesystem;
  std::map<std::string, nlohmann::json> records;  // of each folder
  for (const std::string& file : files) {
    const std::string path = (fs::path(file).parent_path() / model_record).string();
    if (!fs::is_regular_file(path)) continue;
    const auto [at, is_new] = records.try_emplace(path);
    if (is_new) at->second = parse_json(read_text_file(path, "record of a model").text, path);
    const nlohmann::json& record = at->second;
    const std::string name = fs::path(file).filename().string();
    if (!record.is_object() || !record.contains("files") || !record["files"].is_object()) continue;
    const auto entry = record["files"].find(name);
    if (entry == record["files"].end() || !entry->is_object() || !entry->contains("sha256")) continue;
    if ((*entry)["sha256"] == sha256_file(file)) continue;
    throw Error(fmt::format("{} {}: is not the file that {} describes: its SHA-256 is another one. A copy that went "
                            "wrong? --changed takes it as it is",
                            command, file, path),
                Error::failed);
  }
}

void SourceHashes::begin(const std::vector<std::string>& files) {
  if (changed_) return;
  std::vector<std::string> unseen;
  for (const std::string& file : files)
    if (seen_.insert(file).second) unseen.push_back(file);
  if (!unseen.empty())
    begun_.push_back(beside(threads_, [command = command_, unseen] { check_hashes(command, unseen); }));
}

void SourceHashes::end() {
  // Each is waited for once, also when an error ends the loop.
  std::vector<std::future<void>> waited = std::exchange(begun_, {});
  for (std::future<void>& one : waited) one.get();
}

}  // namespace fp4
