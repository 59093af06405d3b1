// The avx512 backend: AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later). Declines what it has no vector path for;
// what it accepts equals the reference bit for bit (tests/test_backends*.cpp).
#include "src/backend_avx512.h"

#if defined(__x86_64__)

#include "src/fast/multiply_avx512.h"

namespace fp4 {
namespace {

class Avx512Backend final : public Backend {
 public:
  const char* name() const override { return "avx512"; }
  bool available() const override {
    static const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                             __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
    return here;
  }
  bool supports_quantize(const QuantizeCall&) const override { return false; }
  void quantize(const QuantizeCall&, Quantized&) const override {}
  bool supports_dequantize(const Quantized&) const override { return false; }
  void dequantize(const Quantized&, float*, int) const override {}
  bool supports_gemm(const QuantSpec&, const QuantSpec&, const GemmOptions&) const override { return false; }
  void gemm(const Quantized&, const Quantized&, const GemmOptions&, float*, int64_t) const override {}
  bool multiply(const MultiplyCall& call) const override { return avx512::multiply(call); }
  bool supports_hadamard(const HadamardSpec&) const override { return false; }
  void hadamard(const MatrixView&, const HadamardSpec&, RandomPlace, bool, float*, int) const override {}
};

}  // namespace

const Backend& avx512_backend() {
  static const Avx512Backend backend;
  return backend;
}

}  // namespace fp4

#endif
