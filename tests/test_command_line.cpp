// Exit codes and messages of the frame that all subcommands share, with the real binary.
#include <catch2/catch.hpp>

#include "tests/support/support.h"

using fp4::test::run_cli;

TEST_CASE("help and version succeed on stdout", "[cli]") {
  for (const char* words : {"--help", "--version", "version", "version --json", "version --help"}) {
    const auto result = run_cli(words);
    INFO(words);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(result.out.empty());
    CHECK(result.err.empty());
  }
}

TEST_CASE("wrong usage exits with 2, names the word and the nearest one", "[cli]") {
  const auto command = run_cli("versoin");
  CHECK(command.exit_code == 2);
  CHECK_THAT(command.err, Catch::Contains("'versoin'") && Catch::Contains("did you mean 'version'"));
  const auto option = run_cli("version --jsn");
  CHECK(option.exit_code == 2);
  CHECK_THAT(option.err, Catch::Contains("'--jsn'") && Catch::Contains("did you mean '--json'"));
  CHECK(run_cli("").exit_code == 2);
  CHECK(run_cli("version surplus").exit_code == 2);
  CHECK(run_cli("version --json=maybe").exit_code == 2);
}

TEST_CASE("a result that cannot be printed is a failure", "[cli]") {
  CHECK(run_cli("version > /dev/full").exit_code == 1);
}
