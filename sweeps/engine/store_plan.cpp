// The plan of a store: what the grid means now, and the words that describe the store itself.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "src/text/words.h"
#include "sweeps/engine/store_schema.h"

namespace fp4::sweeps {

std::string Store::meta(const std::string& key) const {
  const Database& database = *handle_->database;
  Statement row(*handle_->database, "SELECT value, row_hash=fp4_row_hash(key, value) FROM meta WHERE key = ?");
  if (!row.bind(1, key).step()) return {};
  check_row(database, row.integer(1) == 1, "meta", "'" + key + "'");
  return std::string(row.text(0));
}

void Store::set_meta(const std::string& key, const std::string& value) {
  if (meta(key) == value) return;
  Statement(*handle_->database, "INSERT OR REPLACE INTO meta VALUES(?1, ?2, fp4_row_hash(?1, ?2))")
      .bind(1, key)
      .bind(2, value)
      .run();
}

void Store::set_counts() {
  for (const std::string table : {"points", "configs"})
    set_meta(table, std::to_string(handle_->database->integer("SELECT count(*) FROM " + table)));
}

std::string joined_parts(const std::string& a, const std::string& b) {
  std::set<std::string> all;
  for (const std::string& parts : {a, b})
    for (const std::string& part : split(parts, ' ')) all.insert(part);
  return fmt::format("{}", fmt::join(all, " "));
}

std::optional<std::vector<std::string>> Store::planned() const {
  std::vector<std::string> hashes;
  Statement row(*handle_->database, "SELECT hash FROM configs");
  while (row.step()) hashes.emplace_back(row.text(0));
  if (meta("configs") != std::to_string(hashes.size())) return std::nullopt;
  return hashes;
}

int Store::put_plan(const std::vector<std::string>& axes, std::span<const ConfigRecord> configs,
                    std::span<const PointRecord> points, const std::map<std::string, std::string>& about,
                    const std::string& part, std::span<const size_t> numbers) {
  Database& database = *handle_->database;
  Transaction transaction(database);
  const bool stays = !part.empty() && !meta("configs").empty() && meta("grid") == about.at("grid");
  const std::string parts = meta("part");
  if (stays && parts.empty()) return 0;  // the whole plan is here
  if (!stays) {
    database.execute("DELETE FROM configs");
    database.execute("DELETE FROM points");
  }
  for (const auto& [key, value] : about) set_meta(key, value);
  set_meta("part", stays ? joined_parts(parts, part) : part);
  Statement point_row(database, "INSERT OR REPLACE INTO points VALUES(?1, ?2, ?3, fp4_row_hash(?1, ?2, ?3))");
  int64_t id = 0;
  for (const PointRecord& point : points) {
    const std::string labels = Json(point.labels).dump();
    const int64_t number = part.empty() ? id + 1 : static_cast<int64_t>(numbers[static_cast<size_t>(id)]);
    point_row.bind(1, number).bind(2, point.hash).bind(3, labels).run();
    ++id;
  }
  set_meta("axes", Json(axes).dump());
  Statement config_row(database,
                       "INSERT OR REPLACE INTO configs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
                       "fp4_row_hash(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))");
  for (const ConfigRecord& config : configs) {
    config_row.bind(1, config.hash).bind(2, config.task).bind(3, config.reference).bind(4, config.recipe);
    config_row.bind(5, config.static_cost).bind(6, config.probability).bind(7, word(config.at));
    config_row.bind(8, config.config).run();
  }
  set_counts();
  const int adopted = adopt_runs(database);
  transaction.commit();
  return adopted;
}

std::vector<ConfigRecord> Store::configs(bool with_text) const {
  const Database& database = *handle_->database;
  Statement row(
      *handle_->database,
      std::string("SELECT hash, task, reference, recipe, static_cost, probability, at, ") +
          (with_text ? "config" : "''") +
          ", row_hash=fp4_row_hash(hash, task, reference, recipe, static_cost, probability, at, config) FROM configs "
          "ORDER BY task, hash");
  std::vector<ConfigRecord> configs;
  while (row.step()) {
    check_row(database, row.integer(8) == 1, "configs", "configuration " + std::string(row.text(0)));
    check_depth(database, row.text(7), "config");
    configs.push_back({.hash = std::string(row.text(0)),
                       .task = std::string(row.text(1)),
                       .reference = std::string(row.text(2)),
                       .recipe = std::string(row.text(3)),
                       .config = std::string(row.text(7)),
                       .static_cost = row.real(4),
                       .probability = row.real(5),
                       .at = parse_at(row.text(6))});
  }
  return configs;
}

std::vector<PointRecord> Store::points() const {
  const Database& database = *handle_->database;
  Statement row(*handle_->database,
                "SELECT hash, labels, id, row_hash=fp4_row_hash(id, hash, labels) FROM points ORDER BY id");
  const size_t columns = axes().size();
  std::vector<PointRecord> points;
  while (row.step()) {
    const std::string place = "point " + std::to_string(row.integer(2));
    check_row(database, row.integer(3) == 1, "points", place);
    const Json labels = stored_json(database, row.text(1), "labels");
    const auto is_text = [](const Json& label) { return label.is_string(); };
    if (!labels.is_array() || labels.size() != columns || !std::all_of(labels.begin(), labels.end(), is_text))
      throw store_error(database.name(),
                        place + ": its labels are not one text for each of the " + std::to_string(columns) + " axes");
    points.push_back({std::string(row.text(0)), labels.get<std::vector<std::string>>()});
  }
  const std::string count = meta("points");
  if (!count.empty() && count != std::to_string(points.size()))
    throw store_error(database.name(),
                      "damaged: " + std::to_string(points.size()) + " rows in table points, not " + count);
  return points;
}

std::vector<std::string> Store::axes() const {
  const std::string text = meta("axes");
  if (text.empty()) return {};
  const Json axes = stored_json(*handle_->database, text, "axes");
  const auto is_text = [](const Json& axis) { return axis.is_string(); };
  if (!axes.is_array() || !std::all_of(axes.begin(), axes.end(), is_text))
    throw store_error(file_, "axes: not a list of texts");
  return axes.get<std::vector<std::string>>();
}

}  // namespace fp4::sweeps
