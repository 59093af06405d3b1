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
  bool supports_quantize(const QuantizeCall& call) const override {
    if (supports_operand(call)) return true;
    QuantizeCall multiplied = call;
    return is_known_once_multiplied(call.spec, multiplied.spec) && supports_operand(multiplied);
  }
  void quantize(const QuantizeCall& call, Quantized& out) const override {
    const bool multiplies = call.spec.arithmetic == Arithmetic::multiply;
    if (!call.spec.corrects_scales() && !multiplies) return quantize_to(call, out);
    QuantizeCall rotated = call;
    std::vector<float> storage;
    if (call.hadamard.size > 0) {
      const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
      storage.resize(static_cast<size_t>(call.x.rows * k));
      hadamard_rows(call.x, call.hadamard, call.place.hadamard_signs(), false, storage.data());
      rotated.x = view_of(storage.data(), call.x.rows, k);
      rotated.hadamard = {};
    }
    multiplies ? multiply_and_quantize(rotated, out) : quantize_and_correct(rotated, out);
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
  static void quantize_and_correct(const QuantizeCall& call, Quantized& out) {
    quantize_to(call, out);
    std::vector<float> decoded(static_cast<size_t>(out.rows * out.cols));
    dequantize_rows(out, decoded.data());
    correct_scales(call, call.x, decoded.data(), out);
  }
  // x*S rounded to fp32, then as any x; where one overflows, the reference.
  static void multiply_and_quantize(const QuantizeCall& call, Quantized& out) {
    QuantizeCall plain = call;
    Quantized outer;
    const MatrixView& x = call.x;
    const std::vector<TensorFactor> factors = tensor_factors(call, resolve(call.spec), x, outer);
    std::vector<float> y(static_cast<size_t>(x.rows * x.cols));
    bool fits = true;
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t k = 0; k < x.cols; ++k) {
        const TensorFactor& t = factors[static_cast<size_t>(r * outer_scale_cols(x.cols) + k / outer_scale_width)];
        float& to = y[static_cast<size_t>(r * x.cols + k)] = x.at(r, k) * t.te_multiplier;
        fits = fits && (is_finite(to) || !is_finite(x.at(r, k)));
      }
    if (!fits) return reference_backend().quantize(call, out);
    is_known_once_multiplied(call.spec, plain.spec);
    plain.x = view_of(y.data(), x.rows, x.cols);
    quantize_to(plain, out);
    out.spec = decoding_spec(call.spec);
    out.tensor_scale = outer.tensor_scale;
  }

  const char* name_;
  bool available_;
};

}  // namespace fp4::FP4_ISA
