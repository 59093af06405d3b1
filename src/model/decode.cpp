#include "src/model/decode.h"

#include <array>
#include <cstring>

#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"

namespace fp4 {
namespace {

// The two elements of each byte.
struct Pairs {
  float low[256], high[256];
};
Pairs pairs_of(const Quantizer& r) {
  Pairs pairs;
  float values[16];
  for (uint32_t code = 0; code < 16; ++code) values[code] = decode(r.element, code);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    pairs.low[byte] = values[byte & 15];
    pairs.high[byte] = values[byte >> 4];
  }
  return pairs;
}

// One number multiplies all elements of a block.
void decode_rows(const Quantized& q, float stored, float* out) {
  const Quantizer r = resolve(q.spec);
  const float top = r.top();
  const Pairs pairs = pairs_of(r);
  const auto factor_of = [&](uint32_t code) {
    const float s = scale_value(r, code);
    return q.spec.has_tensor_scale() ? decode_factor(q.spec.decode, s, stored, top) : s;
  };
  std::array<float, 256> factors{};
  const bool has_table =
      q.scales.size() >= factors.size();  // a small tensor's blocks are fewer than the rows of a table
  if (has_table)
    for (uint32_t code = 0; code < 256; ++code) factors[code] = factor_of(code);
  const auto half = static_cast<size_t>(q.spec.block.size) / 2;
  const uint8_t* codes = q.codes.data();
  for (const uint8_t scale : q.scales) {
    const float factor = has_table ? factors[scale] : factor_of(scale);
    for (size_t i = 0; i < half; ++i) {
      out[2 * i] = pairs.low[codes[i]] * factor;
      out[2 * i + 1] = pairs.high[codes[i]] * factor;
    }
    if (is_nan(factor) || is_infinite(factor))  // infinity makes NaN of zeros
      for (size_t i = 0; i < 2 * half; ++i)
        if (is_nan(out[i])) out[i] = float_of(canonical_nan_bits);
    codes += half;
    out += 2 * half;
  }
}

// Nibble i of a word as byte i, and back.
uint64_t spread(uint32_t nibbles) {
  uint64_t x = nibbles;
  x = (x | x << 16) & 0x0000ffff0000ffff;
  x = (x | x << 8) & 0x00ff00ff00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
}
uint32_t gathered(uint64_t x) {
  x = (x | x >> 4) & 0x00ff00ff00ff00ff;
  x = (x | x >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(x | x >> 16);
}

// The other way round than join_halves().
void split_halves(const uint8_t* low_first, int bytes, uint8_t* halves) {
  for (int j = 0; j < bytes / 2; j += 4) {
    uint32_t first, second;
    std::memcpy(&first, low_first + j, 4);
    std::memcpy(&second, low_first + bytes / 2 + j, 4);
    const uint64_t both = spread(first) | spread(second) << 4;
    std::memcpy(halves + 2 * j, &both, 8);
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
  if (q.spec.decode == Decode::scale_then_tensor || !q.is_packed() || backend.name() == "reference")
    return backend.dequantize(q, out, threads);
  decode_rows(q, q.tensor_scale[0], out);
}

void join_halves(const uint8_t* halves, int bytes, uint8_t* low_first) {
  for (int j = 0; j < bytes / 2; j += 4) {
    uint64_t both;
    std::memcpy(&both, halves + 2 * j, 8);
    const uint32_t first = gathered(both & 0x0f0f0f0f0f0f0f0f), second = gathered(both >> 4 & 0x0f0f0f0f0f0f0f0f);
    std::memcpy(low_first + j, &first, 4);
    std::memcpy(low_first + bytes / 2 + j, &second, 4);
  }
}

std::vector<uint8_t> blocks_of(GgufValues values, const Quantized& q) {
  const GgufBlock block = gguf_block(values);
  const int half = block.codes / 2;
  std::vector<uint8_t> out(q.codes.size() + q.scales.size());
  uint8_t* to = out.data();
  const uint8_t *codes = q.codes.data(), *scales = q.scales.data();
  for (const uint8_t* end = scales + q.scales.size(); scales < end; scales += block.scales) {
    std::memcpy(to, scales, static_cast<size_t>(block.scales));
    to += block.scales;
    for (int part = 0; part < block.scales; ++part, codes += half, to += half) split_halves(codes, half, to);
  }
  return out;
}

}  // namespace fp4
