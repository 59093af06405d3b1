// A real two-node Slurm on localhost under mistreatment; what happens is told in tests/slurm_local.sh.
#include <catch2/catch.hpp>

#include "tests/support/support.h"

TEST_CASE("a sweep on Slurm survives kill -9, requeue, a lost node and a task presumed dead", "[cli]") {
  fp4::test::TemporaryFolder folder;
  const auto result =
      fp4::test::run_shell("bash tests/slurm_local.sh " + folder / "cluster" + " " + fp4::test::fp4sim_path());
  if (result.exit_code == 77) {
    WARN("SKIPPED: " + result.out);
    return;
  }
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}
