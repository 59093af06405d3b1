/* Preloaded: every pread of a file takes SLOW_READ_US microseconds longer, and SLOW_COLD_US more where the reader has
 * dropped the file's pages from the cache (posix_fadvise with POSIX_FADV_DONTNEED). Busy, as preparing an example is.
 * Every look at the steady clock, which the trainer takes once a step, takes SLOW_STEP_US longer: work whose time does
 * not depend on what else the machine does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int cold;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double microseconds(const char* name) {
  const char* text = getenv(name);
  return text ? atof(text) : 0;
}

int posix_fadvise(int file, off_t offset, off_t length, int advice) {
  static int (*next)(int, off_t, off_t, int);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "posix_fadvise");
  if (advice == POSIX_FADV_DONTNEED) cold = 1;
  return next(file, offset, length, advice);
}
int posix_fadvise64(int file, off_t offset, off_t length, int advice) {
  return posix_fadvise(file, offset, length, advice);
}

/* std::chrono::steady_clock::now(): nanoseconds. */
int64_t _ZNSt6chrono3_V212steady_clock3nowEv(void) {
  static double wait = -1;
  if (wait < 0) wait = microseconds("SLOW_STEP_US");
  const double until = now() + wait;
  while (now() < until) continue;
  return (int64_t)(now() * 1e3);
}

ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  static ssize_t (*next)(int, void*, size_t, off_t);
  static double wait = -1, wait_cold;
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "pread");
  if (wait < 0) wait = microseconds("SLOW_READ_US"), wait_cold = microseconds("SLOW_COLD_US");
  const ssize_t got = next(file, to, bytes, offset);
  const double until = now() + wait + (cold ? wait_cold : 0);
  while (now() < until) continue;
  return got;
}
ssize_t pread64(int file, void* to, size_t bytes, off_t offset) { return pread(file, to, bytes, offset); }
