#include "tools/cli/sweep/alarm_print.h"

#include <fmt/core.h>

#include "tools/cli/table_print.h"

namespace fp4::tools {

void print_alarms(const std::vector<sweeps::RaisedAlarm>& alarms) {
  constexpr size_t most = 8;
  if (!alarms.empty()) fmt::print("\n");
  for (size_t i = 0; i < alarms.size() && i < most; ++i)
    print_wrapped(fmt::format("alarm: {}: {}: {}.", alarms[i].context, word(alarms[i].alarm), alarms[i].text));
  if (alarms.size() > most) fmt::print("{} more alarms; `pareto --json` lists all\n", alarms.size() - most);
}

nlohmann::ordered_json alarms_json(const std::vector<sweeps::RaisedAlarm>& alarms) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const sweeps::RaisedAlarm& raised : alarms)
    list.push_back({{"alarm", word(raised.alarm)}, {"context", raised.context}, {"text", raised.text}});
  return list;
}

}  // namespace fp4::tools
