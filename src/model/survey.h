// A tensor of any size through one or more specs, band by band: what each loses, and its codes for whoever keeps them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/arith/quantize_statistics.h"
#include "src/model/weight_reader.h"

namespace fp4 {

// Bytes of codes, scales and tensor scales of [rows, cols], without headers, factors in the format that they have.
uint64_t stored_bytes(const QuantSpec& spec, int64_t rows, int64_t cols);

struct SurveyOptions {
  RandomPlace place = {};
  std::string backend = "auto";
  int threads = 1;
  int64_t band_bytes = int64_t{2} << 20;  // of float32 handled at a time
  std::optional<float> amax = {};         // that the tensor scale is made of, instead of the tensor's own
  // Called with each band, in ascending order, by one thread at a time; for one spec.
  std::function<void(const Quantized& band)> take = {};
  std::function<void(uint64_t elements)> progress = {};  // after each band, likewise
  // What decodes; unset: the backend.
  std::function<void(const Quantized& q, float* out, int threads)> decode = {};
  // What each row lost, band by band, in ascending order; for one spec.
  std::function<void(int64_t first, const std::vector<RowStatistics>& rows)> rows = {};
};

// The largest finite magnitude of a tensor, read once; NaN where `looks_for_nan` and an element is NaN.
float largest_magnitude(WeightReader& reader, int threads, bool looks_for_nan);

// One report a spec. Threads read, quantise and measure bands of their own. Reads the tensor once, and once
// more where a spec has a tensor scale and the tensor is longer than a piece of a band; only block=tensor holds it
// whole.
std::vector<QuantizeReport> survey(WeightReader& reader, const std::vector<QuantSpec>& specs,
                                   const SurveyOptions& options);

}  // namespace fp4
