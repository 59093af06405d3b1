#include "src/golden/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/backends.h"
#include "src/golden/variants.h"

namespace fp4::golden {
namespace {

struct Evidence {
  std::string array;
  Elements expected, got;
};

// Share of mismatches that a variant reproduces, and whether it equals every array everywhere.
struct Score {
  double share = 0;
  bool all = false;
};

Score score(const Variant& v, const std::vector<Evidence>& evidence) {
  uint64_t mismatches = 0, reproduced = 0;
  bool all = true;
  for (const Evidence& e : evidence) {
    Elements simulated = v.compute(e.array);
    if (simulated.size() != e.got.size()) {
      all = false;
      for (size_t i = 0; i < e.got.size() && i < e.expected.size(); ++i)
        mismatches += e.got[i] != e.expected[i] ? 1 : 0;
      if (e.got.size() != e.expected.size()) mismatches += e.got.size();
      continue;
    }
    all = all && simulated == e.got;
    for (size_t i = 0; i < e.got.size(); ++i) {
      const bool wrong = e.got.size() != e.expected.size() || e.got[i] != e.expected[i];
      mismatches += wrong ? 1 : 0;
      reproduced += wrong && simulated[i] == e.got[i] ? 1 : 0;
    }
  }
  return {mismatches > 0 ? static_cast<double>(reproduced) / static_cast<double>(mismatches) : 0.0, all};
}

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
                       (static_cast<double>(s) * static_cast<double>(low.tensor_factor_at(r, k)));
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

std::string divergence(const std::vector<Comparison>& comparisons, std::string& stage) {
  for (const char* s : stage_names) {
    for (const Comparison& c : comparisons) {
      if (c.stage != s || c.mismatches == 0) continue;
      if (stage.empty()) stage = s;
    }
  }
  for (const Comparison& c : comparisons) {
    if (c.stage != stage || c.mismatches == 0) continue;
    if (stage == "scales" && c.shape_note.empty()) {
      for (const auto& [d, count] : c.distance) {
        if ((d == -1 || d == 1) && count == c.mismatches) {
          return fmt::format("scale one step {} in {:.0f} % of blocks", d < 0 ? "low" : "high",
                             100.0 * static_cast<double>(count) / static_cast<double>(c.compared));
        }
      }
    }
    return fmt::format("first diverging stage: {} ({} of {} elements; {})", stage, c.mismatches, c.compared,
                       c.shape_note.empty() ? c.where : c.shape_note);
  }
  return "";
}

}  // namespace

Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::string& backend, int threads) {
  Diagnosis out;
  const std::string place = divergence(comparisons, out.first_diverging);
  if (out.first_diverging.empty()) return out;
  const CaseInputs in = load_inputs(bundle, c);
  std::vector<Evidence> evidence;
  for (const CandidateArray& a : arrays) {
    const bool packed = is_packed_codes(c, a.golden);
    const Array golden = load_array(bundle, c, a.golden);
    const Elements expected = elements_of(golden, packed);
    const bool unpacked = packed && a.array.bytes.size() == expected.size();
    evidence.push_back({a.golden, expected, elements_of(a.array, packed && !unpacked)});
  }
  std::vector<Cause> near;
  const auto try_all = [&](const std::vector<Variant>& variants) {
    for (const Variant& v : variants) {
      const Score s = score(v, evidence);
      if (s.all)
        out.causes.push_back({v.cause, 1.0, v.detail});
      else if (s.share > 0.2)
        near.push_back({v.cause, std::min(s.share, 0.999), v.detail});
    }
  };
  try_all(single_variants(c, in, backend, threads));
  if (out.causes.empty()) {
    for (const Evidence& e : evidence) {
      if (e.array == "codes") {
        const StochasticTest t = stochastic_test(c, in, e.got, backend);
        if (!t.applies || !t.within_neighbours) continue;
        const bool fair = std::abs(t.z_mean) < 4 && std::abs(t.chi - 1) < 0.2;
        const std::string stats =
            fmt::format("unbiased within {:.1f} SD, variance ratio {:.3f}, repeat at distance 64 {:.1f} SD", t.z_mean,
                        t.chi, t.repeats);
        if (fair && std::abs(t.repeats) < 5)
          out.causes.push_back({"random_words=other", 1.0, "stochastic rounding with other draws: " + stats});
        else if (fair)
          out.causes.push_back({"random_words=repeating", 1.0, "the draws repeat every 64 columns: " + stats});
        else
          out.causes.push_back({"rounding=biased_stochastic", 1.0, "codes are neighbours, but " + stats});
      }
    }
  }
  if (out.causes.empty()) try_all(pair_variants(c, in, backend, threads));
  out.explains_all = !out.causes.empty();
  if (out.explains_all) {
    out.summary = "equals " + out.causes[0].cause + " (" + out.causes[0].detail + ")";
    return out;
  }
  std::stable_sort(near.begin(), near.end(), [](const Cause& a, const Cause& b) { return a.explains > b.explains; });
  if (near.size() > 5) near.resize(5);
  out.causes = near;
  out.summary = "no named policy explains this; " + place;
  return out;
}

}  // namespace fp4::golden
