#include "src/model/decode.h"

#include <array>

#include "src/known_words.h"
#include "src/spec_text.h"

namespace fp4 {
namespace {

// One number multiplies all elements of a block, so a block of 16 has 16 products to choose from.
void decode_rows(const Quantized& q, float stored, float* out) {
  const Quantizer r = resolve(q.spec);
  const float top = r.top();
  std::array<float, 16> values{};
  for (uint32_t code = 0; code < 16; ++code) values[code] = decode(r.element, code);
  std::array<float, 256> scales{};
  for (uint32_t code = 0; code < 256; ++code) scales[code] = scale_value(r, code);
  const auto half = static_cast<size_t>(q.spec.block.size) / 2;
  const uint8_t* codes = q.codes.data();
  for (const uint8_t scale : q.scales) {
    const float s = scales[scale];
    std::array<float, 16> products{};
    const float factor = q.spec.has_tensor_scale() ? decode_factor(q.spec.decode, s, stored, top) : s;
    for (size_t i = 0; i < 16; ++i) products[i] = values[i] * factor;
    if (is_nan(s) || is_nan(factor) || is_infinite(factor))
      for (size_t i = 0; i < 16; ++i) products[i] = is_nan(products[i]) ? float_of(canonical_nan_bits) : products[i];
    for (size_t i = 0; i < half; ++i) {
      out[2 * i] = products[codes[i] & 15];
      out[2 * i + 1] = products[codes[i] >> 4];
    }
    codes += half;
    out += 2 * half;
  }
}

}  // namespace

QuantSpec reading_spec(const CheckpointScheme& scheme) {
  QuantSpec s = decoding_spec(quant_spec_from_words(scheme.spec, scheme.name));
  s.tensor_scale = scheme.meaning == Factor::one ? TensorScale::none : TensorScale::current;
  s.decode = scheme.decode;
  s.arithmetic = Arithmetic::exact;
  return s;
}

void decode_weight(const Dispatcher& backend, const Quantized& q, float* out, int threads) {
  if (q.spec.decode == Decode::scale_then_tensor || backend.name() == "reference")
    return backend.dequantize(q, out, threads);
  decode_rows(q, q.tensor_scale[0], out);
}

}  // namespace fp4
