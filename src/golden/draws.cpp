// Stochastic rounding by other random bits than the case's: fair or not, repeating or not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/backends/backends.h"
#include "src/golden/fits.h"

namespace fp4::golden {
namespace {

// Stochastic rounding with other random words: every code is one of the two neighbours of its payload, the ups have
// the right mean and variance, and tiles do not repeat each other.
struct StochasticTest {
  bool applies = false;
  bool within_neighbours = false;
  double z_mean = 0;   // (ups - expected) / SD
  double chi = 0;      // mean of (up - p)^2 / (p(1-p)): 1 when independent draws
  double repeats = 0;  // share of equal decisions at distance 64 minus its expectation, in SDs
};

StochasticTest stochastic_test(const Case& c, const CaseInputs& in, const Elements& codes, const std::string& backend) {
  StochasticTest t;
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (c.is_gemm || !is_stochastic(spec.rounding) || c.hadamard.size > 0) return t;
  Quantized low, high;
  const Dispatcher dispatcher(backend);
  QuantizeCall call = {.x = view_of(in.a.data(), c.rows, c.cols), .spec = spec, .place = c.place};
  call.spec.rounding = Rounding::toward_zero;
  dispatcher.quantize(call, low);
  call.spec.rounding = Rounding::away_from_zero;
  dispatcher.quantize(call, high);
  const Quantizer q = resolve(spec);
  const int64_t width = low.is_packed() ? 2 * low.code_row_bytes() : low.geometry.padded_cols;
  if (static_cast<int64_t>(codes.size()) != c.rows * width) return t;
  t.applies = t.within_neighbours = true;
  double ups = 0, expected = 0, variance = 0, chi = 0, agree = 0, agree_variance = 0;
  uint64_t n = 0;
  std::vector<double> residual(static_cast<size_t>(c.cols));
  for (int64_t r = 0; r < c.rows; ++r) {
    std::fill(residual.begin(), residual.end(), 0.0);
    for (int64_t k = 0; k < c.cols; ++k) {
      const uint32_t lo = low.code(r, k), hi = high.code(r, k);
      const uint32_t got = codes[static_cast<size_t>(r * width + k)];
      if (got != lo && got != hi) t.within_neighbours = false;
      if (lo == hi || !spec.has_scale()) continue;
      const float s = is_real(spec.scale) ? low.real_scales[static_cast<size_t>(low.scale_index(r, k))]
                                          : scale_value(q, low.scales[static_cast<size_t>(low.scale_index(r, k))]);
      const double u = std::abs(static_cast<double>(in.a[static_cast<size_t>(r * c.cols + k)])) *
                       static_cast<double>(spec.prescale) /
                       (static_cast<double>(s) * static_cast<double>(low.tensor_multiplier_at(r, k)));
      const double a = std::abs(static_cast<double>(decode(q.element, lo)));
      const double b = std::abs(static_cast<double>(decode(q.element, hi)));
      const double p = (u - a) / (b - a);
      if (!(p > 0.02 && p < 0.98)) continue;
      const double up = got == hi ? 1 : 0;
      ups += up;
      expected += p;
      variance += p * (1 - p);
      chi += (up - p) * (up - p) / (p * (1 - p));
      residual[static_cast<size_t>(k)] = (up - p) / std::sqrt(p * (1 - p));
      ++n;
    }
    for (size_t k = 64; k < residual.size(); ++k) {
      if (residual[k] == 0.0 || residual[k - 64] == 0.0) continue;
      agree += residual[k] * residual[k - 64];
      agree_variance += 1;
    }
  }
  if (n < 50) {
    t.applies = false;
    return t;
  }
  t.z_mean = (ups - expected) / std::sqrt(variance);
  t.chi = chi / static_cast<double>(n);
  t.repeats = agree_variance > 0 ? agree / std::sqrt(agree_variance) : 0;
  return t;
}

}  // namespace

// Codes that other random words explain, when nothing in front of the rounding differs: scales and tensor scales equal.
void add_draw_causes(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence,
                     const std::string& backend, uint64_t before, std::vector<Cause>& causes) {
  for (const Evidence& e : evidence) {
    const std::string stage = parse_array_name(e.array).stage;
    if ((stage == "scales" || stage == "tensor_scale") && e.got != e.expected) return;
  }
  for (const Evidence& e : evidence) {
    if (e.array != "codes") continue;
    const StochasticTest t = stochastic_test(c, in, e.got, backend);
    if (!t.applies || !t.within_neighbours) continue;
    const bool fair = std::abs(t.z_mean) < 4 && std::abs(t.chi - 1) < 0.2;
    const std::string stats =
        fmt::format("unbiased within {:.1f} SD, variance ratio {:.3f}, repeat at distance 64 {:.1f} SD", t.z_mean,
                    t.chi, t.repeats);
    if (fair && std::abs(t.repeats) < 5)
      causes.push_back({"random_words=other", "stochastic rounding with other draws: " + stats, before, 0});
    else if (fair)
      causes.push_back({"random_words=repeating", "the draws repeat every 64 columns: " + stats, before, 0});
    else
      causes.push_back({"rounding=biased_stochastic", "codes are neighbours, but " + stats, before, 0});
  }
}

}  // namespace fp4::golden
