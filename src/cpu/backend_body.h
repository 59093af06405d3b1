// A vector backend of the instruction set FP4_CPU. Declines what it has no vector path for; what it accepts equals the
// reference bit for bit (tests/test_backends*.cpp).
#pragma once

#include "src/arith/backend_reference.h"
#include "src/cpu/gemm/product_body.h"
#include "src/cpu/quantize/dequantize_body.h"
#include "src/cpu/quantize/hadamard_rows_body.h"

namespace fp4::FP4_ISA {

class VectorBackend final : public Backend {
 public:
  VectorBackend(const char* name, bool available) : name_(name), available_(available) {}
  const char* name() const override { return name_; }
  bool available() const override { return available_; }
  bool supports_quantize(const QuantizeCall& call) const override { return supports_operand(call); }
  void quantize(const QuantizeCall& call, Quantized& out) const override {
    call.spec.corrects_scales() ? quantize_and_correct(call, out) : quantize_to(call, out);
  }
  bool supports_dequantize(const Quantized& q) const override { return is_known_to_decoders(q.spec); }
  void dequantize(const Quantized& q, float* out, int) const override { dequantize_rows(q, out); }
  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const override {
    return supports_product(a, b, options.accumulator);
  }
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    if (!multiply_stored(a, b, options, c, c_stride)) reference_backend().gemm(a, b, options, c, c_stride);
  }
  bool multiply(const MultiplyCall& call) const override { return FP4_ISA::multiply(call); }
  bool supports_hadamard(const HadamardSpec& h) const override { return h.size > 0 && is_known(h); }
  void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                int) const override {
    hadamard_rows(x, h, place, inverse, y);
  }

 private:
  static void quantize_and_correct(QuantizeCall call, Quantized& out) {
    std::vector<float> rotated;
    if (call.hadamard.size > 0) {
      const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
      rotated.resize(static_cast<size_t>(call.x.rows * k));
      hadamard_rows(call.x, call.hadamard, call.place.hadamard_signs(), false, rotated.data());
      call.x = view_of(rotated.data(), call.x.rows, k);
      call.hadamard = {};
    }
    quantize_to(call, out);
    std::vector<float> decoded(static_cast<size_t>(out.rows * out.cols));
    dequantize_rows(out, decoded.data());
    correct_scales(call, call.x, decoded.data(), out);
  }

  const char* name_;
  bool available_;
};

}  // namespace fp4::FP4_ISA
