// Ranks through Open MPI's collectives. They move bytes and never add, so no order of arrival can change a result. The
// library is loaded when it is asked for: the program starts without it and runs where it is not installed.
#define OMPI_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>

#include <exception>
#include <limits>

#include "src/error.h"
#include "tools/mpi/join.h"

namespace fp4::mpi {

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(std::string("MPI: ") + FP4_MPI_LIBRARY + " has no " + name, 1);
}

struct Library {
  decltype(&MPI_Init) init = nullptr;
  decltype(&MPI_Finalize) finalize = nullptr;
  decltype(&MPI_Comm_set_errhandler) set_errhandler = nullptr;
  decltype(&MPI_Comm_rank) rank = nullptr;
  decltype(&MPI_Comm_size) size = nullptr;
  decltype(&MPI_Error_string) error_string = nullptr;
  decltype(&MPI_Alltoall) alltoall = nullptr;
  decltype(&MPI_Allgather) allgather = nullptr;
  MPI_Comm world = nullptr;
  MPI_Datatype byte = nullptr;
  MPI_Errhandler return_errors = nullptr;

  Library() {
    // Global: Open MPI loads components of its own that look for its symbols.
    void* library = ::dlopen(FP4_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      throw Error(std::string("--gradients: MPI: ") + ::dlerror() + " (packages libopenmpi-dev and openmpi-bin)");
    find(library, "MPI_Init", init);
    find(library, "MPI_Finalize", finalize);
    find(library, "MPI_Comm_set_errhandler", set_errhandler);
    find(library, "MPI_Comm_rank", rank);
    find(library, "MPI_Comm_size", size);
    find(library, "MPI_Error_string", error_string);
    find(library, "MPI_Alltoall", alltoall);
    find(library, "MPI_Allgather", allgather);
    find(library, "ompi_mpi_comm_world", world);
    find(library, "ompi_mpi_byte", byte);
    find(library, "ompi_mpi_errors_return", return_errors);
  }
};

class MpiRanks : public sim::Ranks {
 public:
  MpiRanks() {
    check(mpi_.init(nullptr, nullptr), "cannot join");
    mpi_.set_errhandler(mpi_.world, mpi_.return_errors);
    mpi_.rank(mpi_.world, &rank_);
    mpi_.size(mpi_.world, &count_);
  }
  // A rank that ends by an exception leaves without a word to the others: mpirun ends them.
  ~MpiRanks() override {
    if (std::uncaught_exceptions() == 0) mpi_.finalize();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void exchange(const void* send, void* receive, int64_t bytes) override {
    const int n = count_of(bytes);
    check(mpi_.alltoall(send, n, mpi_.byte, receive, n, mpi_.byte, mpi_.world), "exchange");
  }
  void gather(const void* mine, void* all, int64_t bytes) override {
    const int n = count_of(bytes);
    check(mpi_.allgather(mine, n, mpi_.byte, all, n, mpi_.byte, mpi_.world), "gather");
  }

 private:
  void check(int code, const char* what) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    mpi_.error_string(code, text, &length);
    throw Error(std::string("MPI: ") + what + ": " + text, 1);
  }
  static int count_of(int64_t bytes) {
    if (bytes > std::numeric_limits<int>::max())
      throw Error("MPI: " + std::to_string(bytes) + " bytes in one message; at most 2147483647", 1);
    return static_cast<int>(bytes);
  }

  Library mpi_;
  int rank_ = 0, count_ = 1;
};

}  // namespace

std::string status() {
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) + "." +
         std::to_string(OMPI_RELEASE_VERSION);
}

std::unique_ptr<sim::Ranks> join() { return std::make_unique<MpiRanks>(); }

}  // namespace fp4::mpi
