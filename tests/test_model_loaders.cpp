// Folders of whole models are held to the rules of the engines that load them (loaders.py, model_roles.py).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "tests/support/support.h"

namespace {

void run_python(const std::string& script) {
  const char* given = std::getenv("FP4SIM_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  const auto result = fp4::test::run_shell(python + " tests/" + script + " '" + fp4::test::fp4sim_path() + "'");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace

TEST_CASE("folders are what their schemes' engines load", "[cli]") { run_python("loaders.py"); }

TEST_CASE("what lies beside weights and caches is read, carried or named", "[cli]") { run_python("model_roles.py"); }
