// Which backend does the work. `auto` asks the fast ones first and ends at the reference, which supports everything;
// a forced backend that is absent or declines is an error, never a silent fallback. The results are the same bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/arith/backend_reference.h"

namespace fp4 {

// All compiled-in backends, fastest first; available() says which run on this machine.
const std::vector<const Backend*>& all_backends();
// What `--backend` accepts, whether this build has it or not: auto, reference, generic, ...
const std::vector<std::string>& backend_names();

// How many words of 32 bits a call reads that brings its own (QuantizeCall::random_words).
uint64_t random_words_needed(const QuantizeCall& call);

class Dispatcher {
 public:
  // name: one of backend_names(). Throws Error for unknown words and for a backend that this machine or build lacks.
  // The environment variable FP4SIM_BACKEND replaces `auto`.
  explicit Dispatcher(std::string_view name = "auto");

  const std::string& name() const { return name_; }

  // As in backend.h; the first chosen backend that supports the call does it. Throws Error for impossible specs
  // (invalid_reason), for ragged K under `refuse`, and where a forced backend declines.
  void quantize(const QuantizeCall& call, Quantized& out) const;
  void dequantize(const Quantized& q, float* out, int threads = 1) const;
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c, int64_t c_stride) const;
  void multiply(const MultiplyCall& call) const;
  void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                int threads = 1) const;

  // The backend that would do it. Throws Error where a forced one declines.
  const Backend& for_quantize(const QuantizeCall& call) const;
  const Backend& for_dequantize(const Quantized& q) const;
  const Backend& for_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const;
  const Backend& for_gemm(const Quantized& a, const Quantized& b, const GemmOptions& options) const;
  const Backend& for_hadamard(const HadamardSpec& h) const;

 private:
  const Backend& by_definition(const char* what) const;
  template <class Factor>
  void multiply_apart(const Quantized& a, const Quantized& b, const GemmOptions& options, const Factor& factor,
                      float* c, int64_t c_stride) const;
  void multiply_by_amaxes(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                          int64_t c_stride) const;
  bool multiply_unscaled(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                         int64_t c_stride) const;
  std::string name_;
  std::vector<const Backend*> chosen_;
};

}  // namespace fp4
