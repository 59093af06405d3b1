#include "src/backends/signature.h"

#include <string_view>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/files/sha256.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

// Frozen: extend only together with a stated change of the signature.
constexpr std::string_view quantize_cases =
    "mxfp4 nvfp4 ue5m3fp4 mxfp8 mxfp6_e2m3 mxfp6_e3m2 bf16 fp16 fp32 torchao_ceil torchao_rceil torchao_even alto_uos "
    "te_nvfp4 nvfp4,arithmetic=reciprocal,zero_block=limit,scale_floor=2^-6 fouroversix "
    "mxfp4,rounding=nearest_toward_zero,negative_zero=drop "
    "mxfp4,scale_rule=ceil,rounding=nearest_away,zero_block=limit "
    "mxfp4,scale_rule=quest_floor,rounding=nearest_toward_zero qpytorch_e2m1 graphcore_2509_encode mxfp4,element=e1m2 "
    "mxfp4,element=e3m0 mxfp8,element=e5m2,scale_rule=nearest_log2 mxfp4,scale_rule=quest_nearest,prescale=0.75 "
    "nvfp4,scale_rule=mse mxfp4,scale_rule=encode "
    "nvfp4,scale_rule=encode,arithmetic=divide,scale_rounding=toward_positive nvfp4,arithmetic=divide "
    "nvfp4,arithmetic=reciprocal,prescale=0.75 nvfp4,tensor_scale=outer128 "
    "ue5m3fp4,scale=ue5m3_61440,block=16x16,zero_scale=one ue5m3fp4,scale=ue5m3_122880,scale_rounding=stochastic "
    "nvfp4,scale=ue5m2 nvfp4,scale=ue3m4,target=20 nvfp4,scale=ue2m5 nvfp4,scale=ue1m6 "
    "nvfp4,scale=bf16,tensor_scale=none nvfp4,scale=fp32,block=row,tensor_scale=none "
    "nvfp4,scale=fp32,block=tensor,tensor_scale=none mxfp4,block=8 mxfp4,block=64 mxfp4,block=128 "
    "mxfp4,block=32x32,zero_block=limit,nonfinite=saturate mxfp4,rounding=toward_zero mxfp4,rounding=away_from_zero "
    "mxfp4,rounding=toward_positive mxfp4,rounding=toward_negative mxfp4,rounding=stochastic,random_bits=4 "
    "mxfp4,rounding=stochastic mxfp4,rounding=stochastic,random_bits=16 mxfp4,rounding=stochastic,random_bits=32 "
    "nvfp4,rounding=stochastic_midpoint mxfp4,rounding=stochastic_truncated,prescale=0.75 "
    "nvfp4,tensor_scale=hold,scale_floor=2^-6";
constexpr std::string_view gemm_accumulators =
    "exact fp32_block fp32_sequential k64_rz k64_rz_snap fused35_rz fused25_rz double fma_sequential";
constexpr const char* gemm_cases[] = {"mxfp4", "nvfp4", "mxfp8", "nvfp4,tensor_scale=outer128",
                                      "graphcore_2509_encode"};
constexpr int hadamard_cases[] = {16, 32, 64, 128, 256};
constexpr const char* sign_cases[] = {"none", "fixed", "per_layer", "per_step"};
constexpr std::string_view estimator_cases =
    "ste clipped_ste dge dge_raw sigmoid spline dge_raw_as_published sigmoid_as_published spline_as_published";
constexpr std::string_view scale_gradient_cases =
    "none absmax absmax_diagonal hardsoftmax softsoftmax absmax_as_published hardsoftmax_as_published "
    "softsoftmax_as_published";

constexpr int64_t case_rows = 19;
constexpr int64_t case_cols = 200;

// Random bit patterns with exponents near 1, every 97th element anything at all (subnormal, infinity, NaN, zero).
std::vector<float> case_matrix(uint32_t stream) {
  std::vector<float> x;
  for (uint64_t i = 0; i < case_rows * case_cols; ++i) {
    const uint32_t w = random_draw({20260101, stream, 0}, i, 32);
    const uint32_t tame = (w & 0x807FFFFFu) | ((120u + (w >> 23) % 16u) << 23);
    x.push_back(float_of(i % 97 == 96 ? w : (i % 41 == 40 ? w & float_sign_bit : tame)));
  }
  return x;
}

class Digest {
 public:
  void add(uint32_t word) {
    const unsigned char bytes[4] = {static_cast<unsigned char>(word), static_cast<unsigned char>(word >> 8),
                                    static_cast<unsigned char>(word >> 16), static_cast<unsigned char>(word >> 24)};
    text_.append(reinterpret_cast<const char*>(bytes), 4);
  }
  void add(const std::vector<float>& values) {
    for (const float v : values) add(bits_of(v));
  }
  std::string hex16() const { return sha256_hex(text_).substr(0, 16); }

 private:
  std::string text_;
};

void add_quantized(Digest& digest, const std::vector<float>& x, const std::string& words) {
  QuantizeCall call;
  call.spec = quant_spec_from_words(words, "signature");
  call.x = view_of(x.data(), case_rows, case_cols);
  call.place = {7, 32, 3};
  Quantized q;
  reference_backend().quantize(call, q);
  for (const uint8_t c : q.codes) digest.add(c);
  for (const uint8_t s : q.scales) digest.add(s);
  digest.add(q.real_scales);
  digest.add(q.tensor_scale);
  std::vector<float> decoded(static_cast<size_t>(q.rows * q.cols));
  reference_backend().dequantize(q, decoded.data(), 1);
  digest.add(decoded);
}

// Operands [8, K] and [9, K] of products.
struct Operands {
  Quantized a, b;
  Operands(const std::vector<float>& x, const char* words, const HadamardSpec& h) {
    QuantizeCall call;
    call.spec = quant_spec_from_words(words, "signature");
    call.hadamard = h;
    call.x = view_of(x.data(), 8, case_cols);
    call.place = {7, 64, 5};
    reference_backend().quantize(call, a);
    call.x = view_of(x.data() + 8 * case_cols, 9, case_cols);
    call.place = call.place.second_operand();
    reference_backend().quantize(call, b);
  }
};

void add_product(Digest& digest, const Operands& o, const Accumulator& accumulator, const HadamardSpec& h) {
  std::vector<float> c(72);
  reference_backend().gemm(o.a, o.b, {accumulator, h.product_divisor(), 1}, c.data(), 9);
  digest.add(c);
}

void add_gradient(Digest& digest, const std::vector<float>& x, const std::vector<float>& upstream,
                  const EstimatorSpec& e) {
  Quantizer q = resolve(nvfp4_spec);
  if (is_soft_maximum(e.scale_gradient)) q.soft_alpha = e.alpha;
  for (int64_t row = 0; row < case_rows; ++row) {
    const BlockView block = {x.data() + row * case_cols, case_cols, 1, 1, 16, 16};
    if (block_maximum(block).has_nonfinite) continue;
    const uint32_t code = block_scale_code(q, block, {}, 0);
    std::vector<float> decoded(16);
    std::vector<float> gradient(16);
    for (int64_t k = 0; k < 16; ++k) {
      decoded[static_cast<size_t>(k)] =
          element_value(q, element_code(q, block.at(0, k), code, {}, 0), scale_value(q, code), 1.0f);
    }
    block_gradient(q, e, block, code, {}, {upstream.data() + row * case_cols, decoded.data(), gradient.data()});
    for (const float g : gradient) digest.add(bits_of(canonical(g)));
  }
}

}  // namespace

// In a source that the build writes; absent from programs that have none.
extern "C" const char* fp4sim_built_signature() __attribute__((weak));

std::string computed_signature() {
  Digest digest;
  const std::vector<float> wild = case_matrix(1);
  std::vector<float> tame = case_matrix(2);
  for (float& v : tame) v = is_finite(v) && magnitude(v) < 1e3f ? v : 0.5f;
  for (const std::string& words : split(quantize_cases, ' ')) {
    add_quantized(digest, wild, words);
    add_quantized(digest, tame, words);
  }
  for (const char* words : gemm_cases) {
    const Operands operands(tame, words, {});
    for (const std::string& name : split(gemm_accumulators, ' '))
      add_product(digest, operands, accumulator_from(name, "signature"), {});
  }
  for (const int size : hadamard_cases) {
    for (const char* signs : sign_cases)
      for (const char* normalise : {"sqrt", "fold"}) {
        HadamardSpec h;
        set_hadamard(h, {{"size", size}, {"signs", signs}, {"normalise", normalise}}, "signature");
        add_product(digest, Operands(tame, "mxfp4", h), fp32_block, h);
      }
  }
  for (const std::string& estimator : split(estimator_cases, ' ')) {
    for (const std::string& scale_gradient : split(scale_gradient_cases, ' ')) {
      OperandSpec o;
      set_operand(o, {{"estimator", estimator}, {"scale_gradient", scale_gradient}, {"scale_estimator", "sigmoid"}},
                  "signature");
      add_gradient(digest, tame, wild, o.estimator);
    }
  }
  return digest.hex16();
}

const std::string& arithmetic_signature() {
  static const std::string signature =
      fp4sim_built_signature != nullptr ? fp4sim_built_signature() : computed_signature();
  return signature;
}

}  // namespace fp4
