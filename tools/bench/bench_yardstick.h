// What the benchmarks measure against: sgemm of OpenBLAS and oneDNN, int8 gemm of oneDNN, memcpy and a read of memory.
// The libraries are loaded at run time, so that the program does not depend on them; absent ones are left out.
#pragma once

#include <cstdint>
#include <string>

namespace fp4::tools {

class Yardstick {
 public:
  // Unsets OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first: some machines export another CPU's name, OpenBLAS then runs at
  // half speed and every ratio flatters by two.
  Yardstick();

  bool has_openblas() const { return sgemm_openblas_ != nullptr; }
  bool has_onednn() const { return sgemm_onednn_ != nullptr; }
  // The CPU that OpenBLAS detected, "" without OpenBLAS.
  std::string openblas_core() const;
  // Names of the loaded libraries, for provenance.
  std::string description() const;
  void set_threads(int threads) const;

  // C [n, n] = A B^T, row-major.
  void sgemm_openblas(int64_t n, const float* a, const float* b, float* c) const;
  void sgemm_onednn(int64_t n, const float* a, const float* b, float* c) const;
  void int8_onednn(int64_t n, const uint8_t* a, const int8_t* b, int32_t* c) const;

 private:
  void* sgemm_openblas_ = nullptr;
  void* threads_openblas_ = nullptr;
  void* core_openblas_ = nullptr;
  void* sgemm_onednn_ = nullptr;
  void* int8_onednn_ = nullptr;
};

// Sums n floats by whole vectors, fetched early: what reading memory alone costs. The value keeps the loop alive.
float read_all(const float* x, int64_t n);

}  // namespace fp4::tools
