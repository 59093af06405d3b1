#include "tools/cli/tensor/random_words_file.h"

#include <fmt/format.h>

#include "src/files/tensor_reader.h"
#include "src/text/error.h"
#include "tools/cli/options.h"

namespace fp4::tools {

std::vector<uint32_t> load_random_words(const std::string& option, const std::string& path) {
  if (path.empty()) return {};
  const RawTensor tensor = load_raw(path);
  if (info(tensor.dtype).kind != DtypeKind::integer)
    throw Error(fmt::format("{} {}: holds {}; random bits are unsigned integers: uint8, uint16 or uint32", option, path,
                            info(tensor.dtype).name));
  if (tensor.bytes.empty()) throw Error(fmt::format("{} {}: is empty", option, path));
  std::vector<uint32_t> words((tensor.bytes.size() + 3) / 4, 0);
  for (size_t i = 0; i < tensor.bytes.size(); ++i)
    words[i / 4] |= static_cast<uint32_t>(tensor.bytes[i]) << (8 * (i % 4));
  return words;
}

void add_random_words_option(CLI::App& app, const std::string& option, std::string& path, const std::string& of) {
  app.add_option(option, path,
                 fmt::format("Random bits {} in place of Philox's, an array of unsigned integers: position i takes "
                             "random_bits bits from bit i*random_bits on, low bits first",
                             of))
      ->type_name("FILE");
}

}  // namespace fp4::tools
