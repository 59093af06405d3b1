#include "tools/cli/provenance.h"

#include <unistd.h>

#include <ctime>

#include "commit.h"
#include "src/text/version.h"

namespace fp4::tools {

const char* commit_of_build() { return FP4_COMMIT; }

const char* compiler_word() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

nlohmann::ordered_json provenance(const Invocation& invocation) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  char date[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {{"version", version()},
          {"commit", FP4_COMMIT},
          {"compiler", compiler_word()},
          {"command", invocation.command_line},
          {"host", host},
          {"date", date}};
}

}  // namespace fp4::tools
