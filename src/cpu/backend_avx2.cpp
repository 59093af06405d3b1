// The avx2 backend: AVX2 with FMA and F16C (Haswell, Zen and later). Declines what it has no vector path for; what it
// accepts equals the reference bit for bit (tests/test_backends*.cpp).
#define FP4_CPU 256
#include "src/cpu/backend_avx2.h"

#if defined(__x86_64__)

#include "src/backend_reference.h"
#include "src/cpu/gemm/product_body.h"
#include "src/cpu/quantize/dequantize_body.h"
#include "src/cpu/quantize/hadamard_rows_body.h"

namespace fp4 {
namespace {

class Avx2Backend final : public Backend {
 public:
  const char* name() const override { return "avx2"; }
  bool available() const override {
    static const bool here =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // every CPU with AVX2 has F16C
    return here;
  }
  bool supports_quantize(const QuantizeCall& call) const override { return avx2::supports_operand(call); }
  void quantize(const QuantizeCall& call, Quantized& out) const override { avx2::quantize_to(call, out); }
  bool supports_dequantize(const Quantized& q) const override { return is_known(q.spec); }
  void dequantize(const Quantized& q, float* out, int) const override { avx2::dequantize_rows(q, out); }
  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const override {
    return avx2::supports_product(a, b, options.accumulator);
  }
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    if (!avx2::multiply_stored(a, b, options, c, c_stride)) reference_backend().gemm(a, b, options, c, c_stride);
  }
  bool multiply(const MultiplyCall& call) const override { return avx2::multiply(call); }
  bool supports_hadamard(const HadamardSpec& h) const override { return h.size > 0 && is_known(h); }
  void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                int) const override {
    if (!avx2::hadamard_rows(x, h, place, inverse, y)) avx2::hadamard_to(x, h, place, inverse, y);
  }
};

}  // namespace

const Backend& avx2_backend() {
  static const Avx2Backend backend;
  return backend;
}

}  // namespace fp4

#endif
