// A library for LD_PRELOAD that makes the world around fp4sim go wrong, from the first line of main() on:
//   FP4_FAULT=write:7      the 7th call of that kind fails (write:7+ from the 7th on, write:0 none)
//   FP4_FAULT=change:7!    the process is killed (SIGKILL) in front of the 7th call of that kind
//   FP4_FAULT_COUNT=FILE   the number of calls goes to FILE when the process exits
//   FP4_HOST_FLOATS=3F     MXCSR (x86) or FPCR (Arm) gets these bits set (hexadecimal), as a fast-math library would
// Kinds: malloc (with its relatives), write, fsync, rename (and link), open, pthread_create; and change, which is every
// call that changes a file or folder: those of write, fsync and rename, open where it makes a file or cuts one,
// truncate, unlink, mkdir, rmdir and remove. It fails in no way of its own, so it is for `!` and for counting.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

enum Kind { none, kind_malloc, kind_write, kind_fsync, kind_rename, kind_open, kind_pthread_create, kind_change };
constexpr const char* kind_names[] = {"none", "malloc", "write", "fsync", "rename", "open", "pthread_create", "change"};

std::atomic<int> watched = none;  // set when main() begins
std::atomic<long> calls = 0;
long failing = 0;
bool ever_after = false, kills = false;
char count_file[4096] = "";

bool fails(Kind kind) {
  if (watched.load(std::memory_order_relaxed) != kind) return false;
  const long call = ++calls;
  const bool now = failing > 0 && (ever_after ? call >= failing : call == failing);
  if (now && kills) ::raise(SIGKILL);
  return now;
}

// A call that changes a file, whatever its own kind is.
void changes() { (void)fails(kind_change); }

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int (*program_main)(int, char**, char**) = nullptr;

void write_count() {
  watched = none;
  if (std::FILE* file = std::fopen(count_file, "w")) {
    std::fprintf(file, "%ld\n", calls.load());
    std::fclose(file);
  }
}

void set_host_floats(const char* bits) {
  [[maybe_unused]] const unsigned long value = std::strtoul(bits, nullptr, 16);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | static_cast<unsigned>(value));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(value));
#endif
}

int begin_main(int argc, char** argv, char** environment) {
  if (const char* bits = std::getenv("FP4_HOST_FLOATS")) set_host_floats(bits);
  if (const char* path = std::getenv("FP4_FAULT_COUNT")) {
    std::snprintf(count_file, sizeof count_file, "%s", path);
    std::atexit(write_count);
  }
  if (const char* fault = std::getenv("FP4_FAULT")) {
    const char* colon = std::strchr(fault, ':');
    char* end = nullptr;
    failing = colon != nullptr ? std::strtol(colon + 1, &end, 10) : 0;
    ever_after = end != nullptr && *end == '+';
    kills = end != nullptr && *end == '!';
    for (int kind = 1; colon != nullptr && kind <= kind_change; ++kind)
      if (std::strlen(kind_names[kind]) == static_cast<size_t>(colon - fault) &&
          std::strncmp(fault, kind_names[kind], static_cast<size_t>(colon - fault)) == 0)
        watched = kind;
  }
  return program_main(argc, argv, environment);
}

void* refuse_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*finish)(),
                      void (*loader_finish)(), void* stack_end) {
  program_main = main;
  return real<decltype(&__libc_start_main)>("__libc_start_main")(begin_main, argc, argv, init, finish, loader_finish,
                                                                 stack_end);
}

void* malloc(size_t bytes) { return fails(kind_malloc) ? refuse_memory() : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return fails(kind_malloc) ? refuse_memory() : __libc_calloc(count, bytes); }
void* realloc(void* p, size_t bytes) { return fails(kind_malloc) ? refuse_memory() : __libc_realloc(p, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(kind_malloc) ? refuse_memory() : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** p, size_t alignment, size_t bytes) {
  if (fails(kind_malloc)) return ENOMEM;
  *p = __libc_memalign(alignment, bytes);
  return *p != nullptr ? 0 : ENOMEM;
}

ssize_t write(int file, const void* data, size_t bytes) {
  if (file > 2) changes();
  if (fails(kind_write)) return errno = ENOSPC, -1;
  return real<decltype(&write)>("write")(file, data, bytes);
}
ssize_t writev(int file, const iovec* parts, int count) {
  if (file > 2) changes();
  if (fails(kind_write)) return errno = ENOSPC, -1;
  return real<decltype(&writev)>("writev")(file, parts, count);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  changes();
  if (fails(kind_write)) return errno = ENOSPC, -1;
  return real<decltype(&pwrite)>("pwrite")(file, data, bytes, at);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  changes();
  if (fails(kind_write)) return errno = ENOSPC, -1;
  return real<decltype(&pwrite64)>("pwrite64")(file, data, bytes, at);
}

// What has no fault of its own, counted and killed only.
#define FP4_CHANGE(name, parameters, ...)               \
  int name parameters {                                 \
    changes();                                          \
    return real<int(*) parameters>(#name)(__VA_ARGS__); \
  }
FP4_CHANGE(ftruncate, (int file, off_t size), file, size)
FP4_CHANGE(ftruncate64, (int file, off64_t size), file, size)
FP4_CHANGE(renameat2, (int from, const char* a, int to, const char* b, unsigned flags), from, a, to, b, flags)
FP4_CHANGE(unlink, (const char* path), path)
FP4_CHANGE(unlinkat, (int folder, const char* path, int flags), folder, path, flags)
FP4_CHANGE(remove, (const char* path), path)
FP4_CHANGE(rmdir, (const char* path), path)
FP4_CHANGE(mkdir, (const char* path, mode_t mode), path, mode)

int fsync(int file) {
  changes();
  return fails(kind_fsync) ? (errno = EIO, -1) : real<decltype(&fsync)>("fsync")(file);
}
int fdatasync(int file) {
  changes();
  return fails(kind_fsync) ? (errno = EIO, -1) : real<decltype(&fdatasync)>("fdatasync")(file);
}

int rename(const char* from, const char* to) {
  changes();
  return fails(kind_rename) ? (errno = EIO, -1) : real<decltype(&rename)>("rename")(from, to);
}
int link(const char* from, const char* to) {
  changes();
  return fails(kind_rename) ? (errno = EIO, -1) : real<decltype(&link)>("link")(from, to);
}

// The mode follows only where a file may be made; reading it otherwise does no harm on the machines of the project.
#define FP4_OPEN(name)                                 \
  int name(const char* path, int flags, ...) {         \
    va_list more;                                      \
    va_start(more, flags);                             \
    const mode_t mode = va_arg(more, mode_t);          \
    va_end(more);                                      \
    if ((flags & (O_CREAT | O_TRUNC)) != 0) changes(); \
    if (fails(kind_open)) return errno = EMFILE, -1;   \
    using Open = int (*)(const char*, int, ...);       \
    return real<Open>(#name)(path, flags, mode);       \
  }
FP4_OPEN(open)
FP4_OPEN(open64)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (fails(kind_pthread_create)) return EAGAIN;
  return real<decltype(&pthread_create)>("pthread_create")(thread, attributes, start, argument);
}

}  // extern "C"
