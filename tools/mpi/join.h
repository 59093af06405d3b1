// Decides: how processes become ranks of one training (sim/train/ranks.h): through MPI, where the build found it.
// Nothing else of the program knows MPI.
#pragma once

#include <memory>
#include <string>

#include "sim/train/ranks.h"

namespace fp4::mpi {

/// The library and its version ("Open MPI 4.1.4"), or why there is none.
std::string status();

/// Joins the processes that mpirun has started; a process that was started by itself is the only rank. Once in a
/// process. A rank that does not answer another for `limit_s` seconds (0: no limit) ends that one's next exchange with
/// an Error that names it. Throws Error where the build has no MPI.
std::unique_ptr<sim::Ranks> join(double limit_s);

}  // namespace fp4::mpi
