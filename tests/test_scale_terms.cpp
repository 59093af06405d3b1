// Do sixteen blocks at a time have the bits of block_gradient (fp4/estimator.h), for every kind of scale gradient, with
// ties for the maximum, zeros of both signs, blocks of zeros and scales that were chosen from less than the maximum?
#include <catch2/catch.hpp>
#include <vector>

#include "sim/engine/scale_terms.h"
#include "sim/train/example_pool.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/text/error.h"

using namespace fp4;
using namespace fp4::sim;

namespace {

// 16 blocks; later ones have repeated maxima, grid values, zeros.
std::vector<float> blocks_of(int length) {
  std::vector<float> x = DataSource{4, 1}.normals(16 * length);
  for (int l = 0; l < 16; ++l) {
    float* block = x.data() + l * length;
    for (int i = 0; i < length; ++i) {
      if (l % 4 == 1) block[i] = static_cast<float>((i * 7 + l) % 25 - 12) * 0.5f;
      if (l % 4 == 2 && i % 3 != 0) block[i] = i % 2 == 0 ? -0.0f : 0.0f;
      if (l == 15 || l == 7) block[i] = 0.0f;
      if (l == 3) block[i] *= 1e-30f;
      if (l == 11) block[i] *= 1e30f;
    }
  }
  return x;
}

void compare(const Kernels& k, const char* words, const EstimatorSpec& e, TensorFactor t) {
  QuantSpec spec = quant_spec_from_words(words);
  spec.tensor_scale = TensorScale::none;
  Quantizer q = resolve(spec);
  if (is_soft_maximum(e.scale_gradient)) q.soft_alpha = e.alpha;
  const int length = spec.block.size;
  const std::vector<float> x = blocks_of(length), upstream = DataSource{4, 2}.normals(16 * length);
  std::vector<float> decoded(x.size()), slope(x.size()), got(x.size(), -7.0f), expected(x.size(), -7.0f);
  uint32_t codes[16];
  for (int l = 0; l < 16; ++l) {
    const size_t at = static_cast<size_t>(l * length);
    const BlockView block = {x.data() + at, length, 1, 1, length, length};
    codes[l] = block_scale_code(q, block, t, 0);
    const float s = scale_value(q, codes[l]);
    for (size_t i = at; i < at + static_cast<size_t>(length); ++i) {
      decoded[i] = element_value(q, element_code(q, x[i], codes[l], t, 0), s, t.g);
      slope[i] = estimator_multiplier(e.estimator, e, q.element, saved_payload(q, x[i], codes[l], t));
    }
    block_gradient(q, e, block, codes[l], t, {upstream.data() + at, decoded.data() + at, expected.data() + at});
  }
  TermBlocks b;
  b.x = x.data(), b.upstream = upstream.data(), b.decoded = decoded.data(), b.slope = slope.data();
  b.length = length;
  scale_terms(k, e, q, t, codes, b, got.data());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += bits_of(got[i]) != bits_of(expected[i]);
  INFO(k.name << " " << words << " " << row_of(scale_gradient_table, e.scale_gradient).name);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("scale gradients of sixteen blocks are those of the definition", "[train]") {
  std::vector<const Kernels*> sets;
  for (const char* name : {"generic", "avx2", "avx512"}) {
    try {
      sets.push_back(&kernels(name));
    } catch (const Error&) {  // this CPU lacks it
    }
  }
  for (const char* words : {"mxfp4", "nvfp4", "ue5m3fp4,scale_rule=encode", "fouroversix", "nvfp4,zero_scale=keep",
                            "nvfp4,scale=fp32", "mxfp8,block=64"}) {
    for (const ScaleGradientInfo& info : scale_gradient_table) {
      if (info.id == ScaleGradient::none) continue;
      for (Estimator estimator : {Estimator::ste, Estimator::clipped_ste, Estimator::sigmoid}) {
        EstimatorSpec e;
        e.estimator = estimator;
        e.scale_gradient = info.id;
        e.scale_estimator = estimator == Estimator::sigmoid ? Estimator::sigmoid : Estimator::ste;
        e.alpha = 3.0f;
        for (const Kernels* k : sets) {
          compare(*k, words, e, {});
          compare(*k, words, e, {0.37f, 1.0f / 0.37f});
        }
      }
    }
  }
}
