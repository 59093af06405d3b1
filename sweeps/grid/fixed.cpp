#include "sweeps/grid/fixed.h"

#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4::sweeps {

std::string at_fixed(const std::string& text, const std::string& place, std::span<const std::string> fixed) {
  if (fixed.empty()) return text;
  using Ordered = nlohmann::ordered_json;
  auto grid = parse_json<Ordered>(text, place);
  for (const std::string& word : fixed) {
    const std::string here = "--fixed '" + word + "'";
    const size_t equals = word.find('=');
    const std::string path = word.substr(0, equals);
    Ordered value;
    if (equals != std::string::npos) value = parse_json<Ordered>(word.substr(equals + 1), here);
    if (!value.is_number()) throw Error(here + ": expected PATH=NUMBER such as train.lr=0.002");
    if (!grid.is_object() || !grid.contains("tune") || !grid["tune"].is_object())
      throw Error(here + ": " + place + " tunes no field");
    Ordered& tune = grid["tune"];
    std::vector<std::string> tuned;
    for (const auto& [name, ladder] : tune.items()) tuned.push_back(name);
    if (!tune.contains(path)) throw unknown_word(here, path, tuned);
    tune.erase(path);
    if (tune.empty()) grid.erase("tune"), grid.erase("tune_best");
    grid["axes"][path] = Ordered::array({value});
    if (!grid.contains("include")) continue;
    for (Ordered& point : grid["include"])
      if (point.is_object()) point[path] = value;
  }
  return grid.dump();
}

}  // namespace fp4::sweeps
