// A build without MPI.
#include "src/text/error.h"
#include "tools/mpi/join.h"

namespace fp4::mpi {

std::string status() { return "none: built without it (packages libopenmpi-dev and openmpi-bin, then cmake again)"; }

std::unique_ptr<sim::Ranks> join(double) { throw Error("--gradients: MPI: " + status()); }

}  // namespace fp4::mpi
