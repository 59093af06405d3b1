// How a kernel body sees its threads: as a group that works through phases. A phase is `for_each(n, f)`, a barrier ends
// it, and nothing else connects threads. On a device the 256 threads of a block share the n items; on the host one
// thread does them in order, so the same body runs under the tests without a device. A body is a struct of arguments
// with `shared_words`, `groups_at_once` (wanted on one processor: bounds the registers) and `operator()(Group, int64_t
// group, uint32_t* shared)`.
#pragma once

#include "fp4/bits.h"

// Loops over registers are unrolled: an index that stays variable would put the array into memory. Loops whose bodies
// already fill the registers stay loops. What is called seldom stays apart, and its registers with it.
#if FP4_DEVICE_CODE
#define FP4_GPU_APART __attribute__((noinline))
#define FP4_UNROLL    _Pragma("unroll")
#define FP4_NO_UNROLL _Pragma("unroll 1")
#define FP4_UNROLL_16 _Pragma("unroll 16")
#else
#define FP4_GPU_APART
#define FP4_UNROLL
#define FP4_NO_UNROLL
#define FP4_UNROLL_16
#endif

namespace fp4::gpu {

inline constexpr int group_threads = 256;

// This thread's number in its group and this group's number in its launch. AMD's builtins spare us its headers, so that
// device code also compiles where no HIP package is installed.
FP4_HD inline int thread_number() {
#if defined(__CUDA_ARCH__)
  return static_cast<int>(threadIdx.x);
#elif FP4_DEVICE_CODE
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
#else
  return 0;
#endif
}
FP4_HD inline int64_t group_number() {
#if defined(__CUDA_ARCH__)
  return static_cast<int64_t>(blockIdx.x);
#elif FP4_DEVICE_CODE
  return static_cast<int64_t>(__builtin_amdgcn_workgroup_id_x());
#else
  return 0;
#endif
}

struct Group {
  template <class F>
  FP4_HD void for_each(int64_t count, const F& f) const {
#if FP4_DEVICE_CODE
    for (int64_t i = thread_number(); i < count; i += group_threads) f(i);
#else
    for (int64_t i = 0; i < count; ++i) f(i);
#endif
  }
  // Once for each thread of the group.
  template <class F>
  FP4_HD void for_threads(const F& f) const {
#if FP4_DEVICE_CODE
    f(thread_number());
#else
    for (int i = 0; i < group_threads; ++i) f(i);
#endif
  }
  // The same for a count that is known: no branches, so that the reads of `at_once` items overlap.
  template <int count, int at_once, class F>
  FP4_HD void for_all(const F& f) const {
    static_assert(count % (group_threads * at_once) == 0);
#if FP4_DEVICE_CODE
    FP4_NO_UNROLL
    for (int first = thread_number(); first < count; first += group_threads * at_once) {
      FP4_UNROLL
      for (int i = 0; i < at_once; ++i) f(first + i * group_threads);
    }
#else
    for (int i = 0; i < count; ++i) f(i);
#endif
  }
  FP4_HD void barrier() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#elif FP4_DEVICE_CODE
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#endif
  }
  // Whether f(thread) holds for some thread, between two barriers. `shared`: group_threads words.
  template <class F>
  FP4_HD bool any([[maybe_unused]] uint32_t* shared, const F& f) const {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(f(thread_number()) ? 1 : 0) != 0;
#else
    for_threads([&](int thread) { shared[thread] = f(thread) ? 1u : 0u; });
    barrier();
    uint32_t found = 0;
    for (int i = 0; i < group_threads; ++i) found |= shared[i];
    barrier();
    return found != 0;
#endif
  }
  // Calls f(warp) for the warps of `lanes` threads: once on a device, for the caller's own.
  template <class F>
  FP4_HD void for_each_warp(int lanes, const F& f) const {
#if FP4_DEVICE_CODE
    f(thread_number() / lanes);
#else
    for (int warp = 0; warp < group_threads / lanes; ++warp) f(warp);
#endif
  }
};

// Up to four launches of a kernel in one: groups from first[i] on are of[i]'s.
template <class Kernel>
struct Several {
  static constexpr int most = 4;
  static constexpr int shared_words = Kernel::shared_words;
  static constexpr int groups_at_once = Kernel::groups_at_once;
  Kernel of[most];
  int64_t first[most] = {};
  int count = 0;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    int i = 0;
    while (i + 1 < count && number >= first[i + 1]) ++i;
    of[i](group, number - first[i], shared);
  }
};

// Registers of `threads` threads: on a device this thread's own, on the host those of all of them.
template <class State, int threads>
class PerThread {
 public:
  FP4_HD State& of([[maybe_unused]] int thread) {
#if FP4_DEVICE_CODE
    return state_[0];
#else
    return state_[thread];
#endif
  }
  // f(lane, registers of the lane) for the lanes of a warp whose first thread is `first`.
  template <class F>
  FP4_HD void for_each_lane([[maybe_unused]] int first, const F& f) {
#if FP4_DEVICE_CODE
    f(thread_number() % lanes_of_warp(), state_[0]);
#else
    for (int lane = 0; lane < lanes_of_warp(); ++lane) f(lane, state_[first + lane]);
#endif
  }
  // The same on the host for one that reads what every lane holds, as the emulated matrix instructions do.
  template <class F>
  void for_all_lanes(int first, const F& f) {
    for_each_lane(first, f);
  }
  FP4_HD static constexpr int lanes_of_warp() { return State::lanes; }

 private:
#if FP4_DEVICE_CODE
  State state_[1] = {};
#else
  State state_[threads] = {};
#endif
};

FP4_HD constexpr int64_t tiles_over(int64_t length, int extent) { return (length + extent - 1) / extent; }

// Four floats moved by one instruction.
struct alignas(16) Four {
  float v[4];
};
struct alignas(16) FourWords {
  uint32_t v[4];
};

// Copies of 16 bytes to shared memory that pass no register and wait for nobody, where the chip has them (sm_80 and
// later); elsewhere plain copies, done at once. `bytes` 0 writes zeros. A thread's copies since its last finish_batch()
// are a batch; wait_for_batches<n>() returns when all but the last n of its own batches are done.
FP4_HD inline void copy_async(void* to, const void* from, bool is_there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
#else
  *static_cast<FourWords*>(to) = is_there ? *static_cast<const FourWords*>(from) : FourWords{};
#endif
}
FP4_HD inline void finish_batch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int pending>
FP4_HD inline void wait_for_batches() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

}  // namespace fp4::gpu
