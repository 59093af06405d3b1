#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/judge/statistics.h"
#include "tools/bench/benches.h"

namespace fp4::tools {

namespace {

// cblas.h and dnnl.h, as far as they are used here.
using CblasSgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                            int lda, const float* b, int ldb, float beta, float* c, int ldc);
using SetThreads = void (*)(int);
using CoreName = const char* (*)();
using DnnlSgemm = int (*)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
using DnnlInt8 = int (*)(char trans_a, char trans_b, char offset_c, int64_t m, int64_t n, int64_t k, float alpha,
                         const uint8_t* a, int64_t lda, uint8_t ao, const int8_t* b, int64_t ldb, int8_t bo, float beta,
                         int32_t* c, int64_t ldc, const int32_t* co);

constexpr int cblas_row_major = 101;
constexpr int cblas_no_trans = 111;
constexpr int cblas_trans = 112;

double seconds_of(const std::function<void()>& run, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const auto now = [clock] {
    timespec t = {};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  run();
  return now() - start;
}

}  // namespace

void race(const Race& race, const std::vector<Contestant>& contestants, const BenchReport& report) {
  std::vector<std::vector<double>> times(contestants.size());
  const auto laps = static_cast<size_t>(race.rounds) + 1;  // the first warms caches, pages and arenas
  for (size_t lap = 0; lap < laps; ++lap)
    for (size_t i = 0; i < contestants.size(); ++i) {
      report.progress(lap * contestants.size() + i, laps * contestants.size(), contestants[i].name);
      const double seconds = seconds_of(contestants[i].run, race.threads);
      if (lap > 0) times[i].push_back(seconds);
    }
  std::vector<double> seconds;
  double best = 0;
  for (size_t i = 0; i < contestants.size(); ++i) {
    seconds.push_back(sweeps::quantile(times[i], 0.5));
    if (contestants[i].is_baseline) best = std::max(best, contestants[i].work / seconds[i]);
  }
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < contestants.size(); ++i) {
    const Contestant& c = contestants[i];
    const double rate = c.work / seconds[i];
    rows.push_back({c.name, c.backend, race.threads, race.size, seconds[i], race.unit, rate / 1e9, race.baseline,
                    best > 0 ? rate / best : 0});
  }
  report.show(rows);
}

std::vector<float> gaussian(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

void require_equal(const std::string& name, const void* got, const void* expected, size_t bytes) {
  if (std::memcmp(got, expected, bytes) != 0)
    throw Error("bench: " + name + " differs from the reference; not timed", Error::failed);
}

Yardstick::Yardstick() {
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  if (void* blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL); blas != nullptr) {
    sgemm_openblas_ = dlsym(blas, "cblas_sgemm");
    threads_openblas_ = dlsym(blas, "openblas_set_num_threads");
    core_openblas_ = dlsym(blas, "openblas_get_corename");
  }
  if (void* dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL); dnnl != nullptr) {
    sgemm_onednn_ = dlsym(dnnl, "dnnl_sgemm");
    int8_onednn_ = dlsym(dnnl, "dnnl_gemm_u8s8s32");
  }
}

std::string Yardstick::openblas_core() const {
  return core_openblas_ != nullptr ? reinterpret_cast<CoreName>(core_openblas_)() : "";
}

std::string Yardstick::description() const {
  std::string text;
  if (has_openblas()) text += "OpenBLAS (core " + openblas_core() + ")";
  if (has_onednn()) add_word(text, "oneDNN");
  return text.empty() ? "none" : text;
}

void Yardstick::set_threads(int threads) const {
  if (threads_openblas_ != nullptr) reinterpret_cast<SetThreads>(threads_openblas_)(threads);
  omp_set_num_threads(threads);
}

void Yardstick::sgemm_openblas(int64_t n, const float* a, const float* b, float* c) const {
  const int s = static_cast<int>(n);
  reinterpret_cast<CblasSgemm>(sgemm_openblas_)(cblas_row_major, cblas_no_trans, cblas_trans, s, s, s, 1.0f, a, s, b, s,
                                                0.0f, c, s);
}

void Yardstick::sgemm_onednn(int64_t n, const float* a, const float* b, float* c) const {
  reinterpret_cast<DnnlSgemm>(sgemm_onednn_)('N', 'T', n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}

void Yardstick::int8_onednn(int64_t n, const uint8_t* a, const int8_t* b, int32_t* c) const {
  const int32_t zero = 0;
  reinterpret_cast<DnnlInt8>(int8_onednn_)('N', 'T', 'F', n, n, n, 1.0f, a, n, 0, b, n, 0, 0.0f, c, n, &zero);
}

float read_all(const float* x, int64_t n) {
  float sum[64] = {};
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    for (int j = 0; j < 64; j += 16) __builtin_prefetch(x + i + j + 4096, 0, 2);
    for (int j = 0; j < 64; ++j) sum[j] = sum[j] + x[i + j];
  }
  float total = 0.0f;
  for (const float s : sum) total += s;
  return total;
}

}  // namespace fp4::tools
