#include "src/text/member_json.h"

#include "src/text/words.h"

namespace fp4 {

std::vector<std::string> member_names(std::string_view arguments) {
  std::vector<std::string> names;
  for (const std::string& argument : split(std::string(arguments), ',')) {
    const size_t begin = argument.find_last_of(".>: ") + 1;  // behind "row." or "row->"; 0 where nothing stands before
    names.push_back(argument.substr(begin, argument.find('(') - begin));
  }
  return names;
}

}  // namespace fp4
