// Real ranks for tests: mpirun where the build and the machine have it.
#pragma once

#include <unistd.h>

#include <string>

#include "tests/support/support.h"
#include "tools/mpi/join.h"

namespace fp4::test {

/// Why no ranks can be started; empty when they can.
inline std::string no_mpi() {
  if (mpi::status().starts_with("none")) return "the build has no MPI";
  return run_shell("command -v mpirun").exit_code == 0 ? "" : "mpirun is not installed";
}

/// `mpirun -n count` for a shell, as root and on few cores, too. Messages pass through shared memory, and a rank that
/// waits gives way.
inline std::string mpirun(int count) {
  const std::string root = ::geteuid() == 0 ? " --allow-run-as-root" : "";
  return "mpirun --oversubscribe --mca btl self,vader --mca mpi_yield_when_idle 1" + root + " -n " +
         std::to_string(count) + " ";
}

}  // namespace fp4::test
