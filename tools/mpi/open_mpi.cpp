// Ranks through Open MPI's messages between pairs, all of them under way at once. They move bytes and never add, so no
// order of arrival can change a result; and where one does not come, the rank that did not send it is known by name,
// which a collective could not say. The library is loaded when it is asked for: the program starts without it and runs
// where it is not installed.
#define OMPI_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <vector>

#include "src/text/error.h"
#include "src/text/words.h"
#include "tools/mpi/join.h"

namespace fp4::mpi {

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(std::string("MPI: ") + FP4_MPI_LIBRARY + " has no " + name, Error::failed);
}

struct Library {
  decltype(&MPI_Init) init = nullptr;
  decltype(&MPI_Finalize) finalize = nullptr;
  decltype(&MPI_Comm_set_errhandler) set_errhandler = nullptr;
  decltype(&MPI_Comm_rank) rank = nullptr;
  decltype(&MPI_Comm_size) size = nullptr;
  decltype(&MPI_Error_string) error_string = nullptr;
  decltype(&MPI_Isend) isend = nullptr;
  decltype(&MPI_Irecv) irecv = nullptr;
  decltype(&MPI_Testsome) testsome = nullptr;
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
    find(library, "MPI_Isend", isend);
    find(library, "MPI_Irecv", irecv);
    find(library, "MPI_Testsome", testsome);
    find(library, "ompi_mpi_comm_world", world);
    find(library, "ompi_mpi_byte", byte);
    find(library, "ompi_mpi_errors_return", return_errors);
  }
};

class MpiRanks : public sim::Ranks {
 public:
  explicit MpiRanks(double limit_s) : limit_s_(limit_s) {
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
    const auto* from = static_cast<const char*>(send);
    pass(
        bytes, [&](int other) { return from + other * bytes; }, receive);
  }
  void gather(const void* mine, void* all, int64_t bytes) override {
    pass(
        bytes, [&](int) { return static_cast<const char*>(mine); }, all);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // To each rank what `block` says, from each rank its block of `receive`.
  template <class Block>
  void pass(int64_t bytes, const Block& block, void* receive) {
    const int n = count_of(bytes);
    auto* to = static_cast<char*>(receive);
    std::vector<MPI_Request> requests;
    std::vector<int> partners;  // of each request
    const auto add = [&](int other) -> MPI_Request* {
      partners.push_back(other);
      return &requests.emplace_back();
    };
    for (int step = 1; step < count_; ++step) {  // not all of them to rank 0 first
      const int from = (rank_ + count_ - step) % count_, next = (rank_ + step) % count_;
      check(mpi_.irecv(to + from * bytes, n, mpi_.byte, from, tag, mpi_.world, add(from)), "receive");
      check(mpi_.isend(block(next), n, mpi_.byte, next, tag, mpi_.world, add(next)), "send");
    }
    std::memcpy(to + rank_ * bytes, block(rank_), static_cast<size_t>(bytes));
    wait(requests, partners);
  }

  void wait(std::vector<MPI_Request>& requests, const std::vector<int>& partners) {
    const auto all = static_cast<int>(requests.size());
    std::vector<int> done(requests.size());
    std::vector<bool> is_done(requests.size());
    Clock::time_point begin = Clock::now(), looked = begin;
    for (int left = all, tries = 0; left > 0; ++tries) {
      int count = 0;
      check(mpi_.testsome(all, requests.data(), &count, done.data(), MPI_STATUSES_IGNORE), "exchange");
      for (int i = 0; i < count; ++i) is_done[static_cast<size_t>(done[static_cast<size_t>(i)])] = true;
      left -= count;
      if (left == 0 || tries % 256 != 255) continue;
      const Clock::time_point now = Clock::now();
      // Between two looks lie microseconds. Where half the limit lies there, this rank was stopped: it blames no other.
      if (std::chrono::duration<double>(now - looked).count() > limit_s_ / 2) begin = now;
      looked = now;
      const double seconds = std::chrono::duration<double>(now - begin).count();
      if (seconds > 0.001) ::sched_yield();  // as Open MPI itself where ranks are more than cores
      if (limit_s_ > 0 && seconds > limit_s_) throw_silent(partners, is_done, seconds);
    }
  }

  [[noreturn]] void throw_silent(const std::vector<int>& partners, const std::vector<bool>& is_done, double seconds) {
    std::vector<bool> is_silent(static_cast<size_t>(count_));
    for (size_t i = 0; i < partners.size(); ++i)
      if (!is_done[i]) is_silent[static_cast<size_t>(partners[i])] = true;
    std::string names;
    for (int other = 0; other < count_; ++other)
      if (is_silent[static_cast<size_t>(other)]) add_word(names, std::to_string(other));
    // A rank that waits for a stopped one is silent as well, where this one is an exchange ahead of it.
    throw Error("MPI: no answer to rank " + std::to_string(rank_) + " from rank " + names + " for " +
                    std::to_string(static_cast<int64_t>(seconds)) +
                    " s: stopped, far slower than the others (--rank-limit), or waiting for such a rank; the last"
                    " checkpoint goes on",
                Error::failed);
  }

  void check(int code, const char* what) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    mpi_.error_string(code, text, &length);
    throw Error(std::string("MPI: ") + what + ": " + text, Error::failed);
  }
  static int count_of(int64_t bytes) {
    if (bytes > std::numeric_limits<int>::max())
      throw Error("MPI: " + std::to_string(bytes) + " bytes in one message; at most 2147483647", Error::failed);
    return static_cast<int>(bytes);
  }

  static constexpr int tag = 4;
  Library mpi_;
  double limit_s_;
  int rank_ = 0, count_ = 1;
};

}  // namespace

std::string status() {
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) + "." +
         std::to_string(OMPI_RELEASE_VERSION);
}

std::unique_ptr<sim::Ranks> join(double limit_s) { return std::make_unique<MpiRanks>(limit_s); }

}  // namespace fp4::mpi
