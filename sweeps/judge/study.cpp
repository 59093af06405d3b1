#include "sweeps/judge/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/text/csv.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/words.h"

namespace fp4::sweeps {

namespace {

using Ordered = nlohmann::ordered_json;

constexpr double share_that_matters = 0.02;  // as in races

}  // namespace

void StudyTable::add(std::string_view csv, const std::string& place) {
  std::vector<size_t> at;  // of the fields of this table among all columns
  size_t line = 0;
  for (std::string text : split(std::string(csv), '\n')) {
    ++line;
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    std::vector<std::string> fields = csv_fields(text);
    if (at.empty()) {
      for (const char* needed : {"task", "runs", "config_hash"})
        if (!contains(fields, needed))
          throw Error(
              fmt::format("{}: no column '{}' (what `fp4sim table --group --csv` writes has it)", place, needed));
      for (const std::string& name : fields) {
        const auto known = std::find(columns_.begin(), columns_.end(), name);
        at.push_back(static_cast<size_t>(known - columns_.begin()));
        if (known == columns_.end()) columns_.push_back(name);
      }
      continue;
    }
    if (fields.size() != at.size())
      throw Error(fmt::format("{}, line {}: {} fields, expected {}", place, line, fields.size(), at.size()));
    std::vector<std::string>& row = rows_.emplace_back(columns_.size());
    for (size_t i = 0; i < fields.size(); ++i) row[at[i]] = std::move(fields[i]);
  }
}

const std::string& StudyTable::cell(size_t row, const std::string& column) const {
  static const std::string empty;
  const auto at = static_cast<size_t>(std::find(columns_.begin(), columns_.end(), column) - columns_.begin());
  return at < rows_[row].size() ? rows_[row][at] : empty;
}

namespace {

// One task's runs of one configuration, by rung.
struct Chosen {
  std::string rate;
  std::vector<std::map<uint64_t, double>> rungs;  // losses by seed, the best rung first; infinite: diverged
  double gap_sum = 0, gap_runs = 0;
};

class StudyJudge {
 public:
  StudyJudge(const StudyTable& table, const std::string& study, std::string place)
      : table_(table), place_(std::move(place)), study_(parse_json<Ordered>(study, place_)) {
    object(study_, "", {"doc", "tables", "delta", "rung_cost", "groups", "orders"});
    if (study_.contains("groups") && study_["groups"].is_string()) take_groups(study_["groups"].get<std::string>());
    for (size_t row = 0; row < table.rows(); ++row)
      if (const std::string& task = table.cell(row, "task"); !contains(tasks_, task)) tasks_.push_back(task);
  }

  StudyResult judge() {
    const std::map<std::string, double> delta = deltas(), rung_cost = costs_of_rungs();
    StudyResult result{.effects = {}, .orders = orders(), .tasks = tasks_};
    const Ordered& groups = at(study_, "", "groups");
    object(groups, "groups", {});
    for (const auto& [group, content] : groups.items()) {
      const std::string here = "groups." + group;
      object(content, here, {"base", "rows"});
      const bool each = content.contains("rows") && content["rows"].size() > 0 && content["rows"].front().is_array();
      result.turned |= each;
      std::map<std::string, Chosen> base;
      if (!each) base = chosen(at(content, here, "base"), here + ".base");
      object(at(content, here, "rows"), here + ".rows", {});
      for (const auto& [name, settings] : content.at("rows").items()) {
        const std::string there = here + ".rows." + name;
        if (settings.is_array() != each || (each && settings.size() != 2))
          throw Error(where(there) + ": expected SETTINGS in all rows of the group, or [SETTINGS, BASE] in all");
        const std::map<std::string, Chosen> row = chosen(each ? settings[0] : settings, there);
        if (each) base = chosen(settings[1], there);
        for (const std::string& task : tasks_) {
          if (!row.contains(task) || !base.contains(task)) continue;
          StudyEffect effect{.group = group, .name = name, .task = task, .comparison = {}};
          effect.comparison.settings = {setting_of(row.at(task), base.at(task))};
          effect.comparison.delta = delta.contains(task) ? delta.at(task) : 0;
          effect.rates_differ = row.at(task).rate != base.at(task).rate;
          if (effect.rates_differ && std::min(row.at(task).rungs.size(), base.at(task).rungs.size()) < 2)
            effect.rung_cost = rung_cost.contains(task) ? rung_cost.at(task) : std::numeric_limits<double>::infinity();
          result.effects.push_back(std::move(effect));
        }
      }
    }
    judge_all(result.effects);
    for (StudyEffect& effect : result.effects) judge_rates(effect);
    return result;
  }

 private:
  std::string where(const std::string& path) const {
    const std::string& place = path.starts_with("groups") && !owner_.empty() ? owner_ : place_;
    return path.empty() ? place : place + ": " + path;
  }

  // Those of another study, which writes them out.
  void take_groups(const std::string& name) {
    const NamedText other = open_named_json(name, "studies", "study", where("groups"));
    auto content = parse_json<Ordered>(other.text, other.place);
    if (!content.is_object() || !content.contains("groups") || !content["groups"].is_object())
      throw Error(other.place + ": groups: expected an object, which other studies may take");
    study_["groups"] = std::move(content["groups"]);
    owner_ = other.place;
  }

  // Of these keys alone; any, where none is listed.
  void object(const Ordered& value, const std::string& path, const std::vector<std::string>& keys) const {
    if (!value.is_object() || (keys.empty() && value.empty())) throw Error(where(path) + ": expected an object");
    for (const auto& [key, unused] : value.items())
      if (!keys.empty()) accepted_index(where(path), key, keys);
  }

  const Ordered& at(const Ordered& value, const std::string& path, const char* key) const {
    if (!value.contains(key)) throw Error(where(path) + ": missing key '" + key + "'");
    return value.at(key);
  }

  std::string column(const std::string& word, const std::string& path) const {
    std::vector<std::string> found;
    for (const std::string& name : table_.columns())
      if (name == word) return name;
    for (const std::string& name : table_.columns())
      if (name.ends_with("." + word)) found.push_back(name);
    if (found.size() == 1) return found[0];
    if (found.empty()) throw unknown_word(where(path), word, table_.columns());
    throw Error(where(path) + ": '" + word + "' is the end of several columns: " + joined(found));
  }

  std::vector<std::pair<std::string, std::string>> conditions(const Ordered& settings, const std::string& path) const {
    std::vector<std::pair<std::string, std::string>> list;
    if (settings.is_object()) {
      for (const auto& [key, value] : settings.items()) {
        if (!value.is_string()) throw Error(where(path) + "." + key + ": expected the word of a table");
        list.emplace_back(column(key, path), value.get<std::string>());
      }
    } else if (settings.is_string()) {
      for (const std::string& part : split(settings.get<std::string>(), ',')) {
        const size_t equals = part.find('=');
        if (equals == std::string::npos) throw Error(where(path) + ": expected COLUMN=VALUE, found '" + part + "'");
        list.emplace_back(column(part.substr(0, equals), path), part.substr(equals + 1));
      }
    }
    if (list.empty()) throw Error(where(path) + R"(: expected {"COLUMN": "VALUE"} or "COLUMN=VALUE,..")");
    return list;
  }

  // "1:0.358:7e25c8a1b2c3d4e5 2:diverged" into losses by seed; failed runs are none.
  static void add_runs(const std::string& text, std::map<uint64_t, double>& losses) {
    for (const std::string& run : split(text, ' ')) {
      const std::vector<std::string> parts = split(run, ':');
      uint64_t seed = 0;
      if (parts.size() < 2 ||
          std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), seed).ec != std::errc())
        continue;
      if (const auto loss = real_from_text(parts[1]); loss && std::isfinite(*loss))
        losses[seed] = *loss;
      else if (loss || parts[1] == "diverged")
        losses[seed] = std::numeric_limits<double>::infinity();
    }
  }

  std::map<std::string, Chosen> chosen(const Ordered& settings, const std::string& path) const {
    const auto wanted = conditions(settings, path);
    std::vector<size_t> rows;
    std::set<std::string> tuned;  // tasks on which some row stands at its own best
    for (size_t row = 0; row < table_.rows(); ++row) {
      if (!std::all_of(wanted.begin(), wanted.end(),
                       [&](const auto& condition) { return table_.cell(row, condition.first) == condition.second; }))
        continue;
      rows.push_back(row);
      const std::string& at = table_.cell(row, "at");
      if (at == "best" || at == "at edge") tuned.insert(table_.cell(row, "task"));
    }
    std::map<std::string, Chosen> by_task;
    std::map<std::string, std::map<std::string, size_t>> rung_of;  // by task and hash
    for (const bool near : {false, true}) {
      for (const size_t row : rows) {
        const std::string &task = table_.cell(row, "task"), &at = table_.cell(row, "at");
        if ((at == "near best" || (at == "fixed" && tuned.contains(task))) != near) continue;
        auto& rungs = rung_of[task];
        if (near && rungs.empty()) continue;
        Chosen& one = by_task[task];
        const auto [rung, fresh] = rungs.try_emplace(table_.cell(row, "config_hash"), rungs.size());
        if (fresh && !near && rungs.size() > 1) throw Error(where(path) + ": names several configurations of " + task);
        if (fresh) one.rungs.emplace_back();
        add_runs(table_.cell(row, "runs"), one.rungs[rung->second]);
        if (near) continue;
        one.rate = table_.cell(row, "lr");
        const auto gap = real_from_text(table_.cell(row, "loss_gap")), n = real_from_text(table_.cell(row, "n"));
        if (gap && n) one.gap_sum += *gap * *n, one.gap_runs += *n;
      }
    }
    if (by_task.empty()) throw Error(where(path) + ": no row of the tables is " + settings.dump());
    return by_task;
  }

  std::map<std::string, double> deltas() const {
    std::map<std::string, double> delta;
    if (!study_.contains("delta")) return delta;
    const Ordered& rule = study_.at("delta");
    object(rule, "delta", {"share", "of"});
    double share = share_that_matters;
    if (rule.contains("share")) {
      if (!rule.at("share").is_number() || !(rule.at("share").get<double>() >= 0))
        throw Error(where("delta.share") + ": expected a number from 0");
      share = rule.at("share");
    }
    for (const auto& [task, one] : chosen(at(rule, "delta", "of"), "delta.of"))
      if (one.gap_runs > 0) delta[task] = share * std::fabs(one.gap_sum / one.gap_runs);
    return delta;
  }

  // Losses of each task at the best rung, by seed; diverged runs have none. Settings that stand for several sizes give
  // the runs of all of them.
  std::map<std::string, std::vector<LawPoint>> points(const Ordered& settings, const std::string& path) const {
    std::map<std::string, std::vector<LawPoint>> points;
    double size = 0;
    for (const Ordered& of_size : settings.is_array() ? settings : Ordered::array({settings})) {
      ++size;
      for (const auto& [task, one] : chosen(of_size, path))
        for (const auto& [seed, loss] : one.rungs.front())
          if (std::isfinite(loss)) points[task].push_back({.n = size, .d = 1, .seed = seed, .loss = loss});
    }
    return points;
  }

  std::vector<StudyOrder> orders() const {
    constexpr size_t samples = 1000;
    const std::string base_name = "base";
    std::vector<StudyOrder> list;
    if (!study_.contains("orders")) return list;
    object(study_.at("orders"), "orders", {});
    for (const auto& [name, content] : study_.at("orders").items()) {
      const std::string here = "orders." + name;
      object(content, here, {"source", "what", "noise", "base", "rows"});
      PublishedOrder published;
      for (const auto& [key, text] : {std::pair{"source", &published.source}, std::pair{"what", &published.what},
                                      std::pair{"noise", &published.noise}}) {
        if (!at(content, here, key).is_string()) throw Error(where(here) + "." + key + ": expected a text");
        *text = content.at(key).get<std::string>();
      }
      std::map<std::string, std::map<std::string, std::vector<LawPoint>>> by_task;
      for (const auto& [task, runs] : points(at(content, here, "base"), here + ".base"))
        by_task[task][base_name] = runs;
      object(at(content, here, "rows"), here + ".rows", {});
      for (const auto& [row, pair] : content.at("rows").items()) {
        if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number() || row == base_name)
          throw Error(where(here) + ".rows." + row + ": expected [SETTINGS, NUMBER]");
        published.numbers.emplace_back(row, pair[1].get<double>());
        for (const auto& [task, runs] : points(pair[0], here + ".rows." + row)) by_task[task][row] = runs;
      }
      for (const auto& [task, runs] : by_task)
        if (auto found = agreement(published, runs, base_name, samples))
          list.push_back({name, task, published, std::move(*found)});
    }
    return list;
  }

  std::map<std::string, double> costs_of_rungs() const {
    constexpr const char* file = "judge/rung_costs.json";
    auto costs = parse_json(embedded(file), file).at("losses").get<std::map<std::string, double>>();
    if (!study_.contains("rung_cost")) return costs;
    object(study_.at("rung_cost"), "rung_cost", tasks_);
    for (const auto& [task, cost] : study_.at("rung_cost").items()) {
      if (!cost.is_number() || !(cost.get<double>() >= 0))
        throw Error(where("rung_cost." + task) + ": expected a number from 0");
      costs[task] = cost;
    }
    return costs;
  }

  static Setting setting_of(const Chosen& mine, const Chosen& theirs) {
    std::set<uint64_t> seeds;
    for (const Chosen* side : {&mine, &theirs})
      for (const auto& rung : side->rungs)
        for (const auto& [seed, loss] : rung) seeds.insert(seed);
    const auto losses = [&](const Chosen& side) {
      RungLosses list;
      for (const auto& rung : side.rungs) {
        std::vector<double>& row = list.emplace_back();
        for (const uint64_t seed : seeds) {
          const auto found = rung.find(seed);
          row.push_back(found == rung.end() ? std::numeric_limits<double>::quiet_NaN() : found->second);
        }
      }
      return list;
    };
    return {losses(mine), losses(theirs)};
  }

  // Words of an interval that leaves out 0; those of divergence alone hold at any rate.
  static void judge_rates(StudyEffect& effect) {
    Comparison& comparison = effect.comparison;
    const double end = comparison.interval ? std::max(comparison.interval->low, -comparison.interval->high) : 0;
    if (end <= 0) effect.rung_cost.reset();
    if (!effect.rung_cost) return;
    effect.beyond_rung = end > *effect.rung_cost;
    if (!effect.beyond_rung) comparison.verdict = Verdict::undecided;
  }

  const StudyTable& table_;
  std::string place_, owner_;  // where the study stands, and where its groups do if they are another's
  Ordered study_;
  std::vector<std::string> tasks_;
};

// Two digits of a width.
int decimals(double width) {
  if (!(width > 0)) return 6;
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(width))), 2, 6);
}

// +.0031: without the zero in front.
std::string brief(double value, int digits, bool sign = true) {
  std::string text = sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
  if (const size_t zero = text.find("0."); zero <= 1) text.erase(zero, 1);
  return text;
}

std::string table_cell(const StudyEffect& effect) {
  const Comparison& c = effect.comparison;
  std::string text;
  if (!c.interval) {
    text = fmt::format("{} seeds", c.summary.n);
  } else if (c.interval->low == 0 && c.interval->high == 0) {
    text = "equal in every run";
  } else {
    const int digits = decimals((c.interval->high - c.interval->low) / 2);
    text = fmt::format("{} [{}, {}]", brief(c.summary.mean, digits), brief(c.interval->low, digits),
                       brief(c.interval->high, digits));
    if ((c.interval->low > 0 || c.interval->high < 0) && !(effect.rung_cost && !effect.beyond_rung))
      text = "**" + text + "**";
  }
  if (effect.rates_differ) text += effect.rung_cost && !effect.beyond_rung ? "‡" : "†";
  if (c.diverged + c.rival_diverged > 0) text += fmt::format(", {} against {} diverged", c.diverged, c.rival_diverged);
  return text;
}

std::string reason(const StudyEffect& effect) {
  if (!effect.rung_cost) return "";
  const std::string cost = std::isfinite(*effect.rung_cost)
                               ? brief(*effect.rung_cost, decimals(*effect.rung_cost), false)
                               : std::string("unknown");
  return fmt::format("rates differ: {} the {} that a rung may cost", effect.beyond_rung ? "beyond" : "within", cost);
}

}  // namespace

StudyResult judge_study(const StudyTable& table, const std::string& study, const std::string& place) {
  return StudyJudge(table, study, place).judge();
}

std::string study_csv(const StudyResult& result) {
  std::string out = "group,name,task,n,mean,low,high,detectable,delta,verdict,reason,rates,diverged,base_diverged\n";
  const auto end = [](const Comparison& c, double Interval::*which) {
    return c.interval ? fmt::format("{:.6g}", (*c.interval).*which) : std::string();
  };
  const auto known = [](double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : ""; };
  for (const StudyEffect& effect : result.effects) {
    const Comparison& c = effect.comparison;
    out += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{},{},{},{},{}\n", csv_field(effect.group),
                       csv_field(effect.name), effect.task, c.summary.n, known(c.summary.mean), end(c, &Interval::low),
                       end(c, &Interval::high), known(c.detectable), c.delta, word(c.verdict), reason(effect),
                       effect.rates_differ ? "differ" : "equal", c.diverged, c.rival_diverged);
  }
  return out;
}

std::string study_table(const StudyResult& result, const std::string& group) {
  std::string out = "| |", rule = "|---|";
  for (const std::string& task : result.tasks) out += " " + task + " |", rule += "---|";
  out += "\n" + rule + "\n";
  std::vector<std::string> names;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  std::map<std::string, std::vector<double>> detectable;
  bool differ = false, within = false;
  for (const StudyEffect& effect : result.effects) {
    if (effect.group != group) continue;
    if (std::isfinite(effect.comparison.detectable)) detectable[effect.task].push_back(effect.comparison.detectable);
    if (!contains(names, effect.name)) names.push_back(effect.name);
    cells[{effect.name, effect.task}] = table_cell(effect);
    const bool undecided = effect.rung_cost && !effect.beyond_rung;
    differ |= effect.rates_differ && !undecided;
    within |= undecided;
  }
  for (const std::string& name : names) {
    out += "| " + name + " |";
    for (const std::string& task : result.tasks) out += " " + cells[{name, task}] + " |";
    out += "\n";
  }
  out += "| *would show from* |";
  for (const std::string& task : result.tasks) {
    const std::vector<double>& widths = detectable[task];
    const double middle = widths.empty() ? 0 : quantile(widths, 0.5);
    out += widths.empty() ? "  |" : " " + brief(middle, decimals(middle), false) + " |";
  }
  out += "\n";
  if (differ || within) out += "\n";
  if (differ) out += "† rates differ: the two settings' best learning rates are not the same.\n";
  if (within)
    out += std::string(differ ? "\n" : "") + "‡ rates differ, and by no more than a rung may cost: undecided.\n";
  return out;
}

std::string study_orders_table(const StudyResult& result) {
  std::string out =
      "| published order | numbers | their noise | of them here | tau-b | median | p | our order, from the least loss "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const StudyOrder& order : result.orders) {
    const Tau& tau = order.agreement.all;
    out +=
        fmt::format("| {} | {} | {} | {} of {} | {} [{}, {}] | {} | {} | {} |\n", order.name, order.published.what,
                    order.published.noise, order.agreement.recipes.size(), order.published.numbers.size(),
                    brief(tau.value, 2, false), brief(tau.interval.low, 2, false), brief(tau.interval.high, 2, false),
                    brief(tau.median, 2, false), brief(tau.chance, 2, false), joined(order.agreement.ours));
  }
  return out;
}

std::string study_page(const StudyResult& result, const std::string& page, const std::string& place) {
  const std::string mark = result.turned ? "<!-- turned: " : "<!-- effects: ", end = " -->",
                    orders_mark = "<!-- orders -->";
  std::set<std::string> groups;
  for (const StudyEffect& effect : result.effects) groups.insert(effect.group);
  std::string out;
  bool inside = false;  // what follows a mark: empty lines, a table and its note, until another line
  for (const std::string& line : split(page, '\n')) {
    if (inside && (line.empty() || line.starts_with('|') || line.starts_with("†") || line.starts_with("‡"))) continue;
    if (inside) out += "\n";
    inside = false;
    out += line + "\n";
    if (line == orders_mark) {
      out += "\n" + study_orders_table(result);
      inside = true;
      continue;
    }
    if (!line.starts_with(mark) || !line.ends_with(end)) continue;
    const std::string group = line.substr(mark.size(), line.size() - mark.size() - end.size());
    accepted_index(place, group, {groups.begin(), groups.end()});
    out += "\n" + study_table(result, group);
    inside = true;
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace fp4::sweeps
