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

uint64_t differences(const Elements& a, const Elements& b) {
  if (a.size() != b.size()) return std::max({a.size(), b.size(), size_t{1}});
  uint64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

uint64_t golden_differences(const std::vector<Evidence>& evidence) {
  uint64_t count = 0;
  for (const Evidence& e : evidence) count += differences(e.expected, e.got);
  return count;
}

// Elements that a kernel of this variant would have dumped otherwise. Arrays that it says nothing about stay golden.
uint64_t differences(const Variant& v, const std::vector<Evidence>& evidence) {
  uint64_t count = 0;
  for (const Evidence& e : evidence) {
    const Elements simulated = v.compute(e.array);
    count += differences(simulated.empty() ? e.expected : simulated, e.got);
  }
  return count;
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

// Codes that other random words explain, when nothing in front of the rounding differs: scales and tensor scales equal.
void try_draws(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence, const std::string& backend,
               uint64_t before, std::vector<Cause>& causes) {
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

// Floats of both sides; empty when the sizes differ.
struct Products {
  std::vector<float> expected, got;
};
Products products_of(const Evidence& e) {
  Products p;
  if (e.expected.size() != e.got.size()) return p;
  for (const uint32_t w : e.expected) p.expected.push_back(float_of(w));
  for (const uint32_t w : e.got) p.got.push_back(float_of(w));
  return p;
}

// The float near `guess` for which `fits` holds; NaN when none within 4 ulp does.
template <class Fits>
float nearby(double guess, const Fits& fits) {
  const float middle = static_cast<float>(guess);
  for (const int d : {0, 1, -1, 2, -2, 3, -3, 4, -4}) {
    float x = middle;
    for (int i = 0; i < std::abs(d); ++i) x = std::nextafter(x, d > 0 ? HUGE_VALF : -HUGE_VALF);
    if (is_finite(x) && fits(x)) return x;
  }
  return float_of(canonical_nan_bits);
}

// alpha with which fl32(alpha * expected) is what came, in every element; estimated where rounding hurts least.
float common_factor(const Products& p) {
  size_t best = p.expected.size();
  for (size_t i = 0; i < p.expected.size(); ++i)
    if (is_finite(p.got[i]) && p.got[i] != 0.0f && p.expected[i] != 0.0f && is_finite(p.expected[i])) best = i;
  if (best == p.expected.size()) return float_of(canonical_nan_bits);
  return nearby(static_cast<double>(p.got[best]) / static_cast<double>(p.expected[best]), [&](float alpha) {
    for (size_t i = 0; i < p.expected.size(); ++i)
      if (bits_of(alpha * p.expected[i]) != bits_of(p.got[i])) return false;
    return true;
  });
}

// Whether column j of every row has one number added to it, rounded once.
bool has_bias(const Products& p, size_t rows, size_t cols) {
  if (rows < 2 || p.expected.size() != rows * cols) return false;
  for (size_t j = 0; j < cols; ++j) {
    size_t least = 0;
    for (size_t i = 1; i < rows; ++i)
      if (std::abs(p.got[i * cols + j]) < std::abs(p.got[least * cols + j])) least = i;
    const size_t at = least * cols + j;
    const float bias = nearby(static_cast<double>(p.got[at]) - static_cast<double>(p.expected[at]), [&](float b) {
      for (size_t i = 0; i < rows; ++i)
        if (p.expected[i * cols + j] + b != p.got[i * cols + j]) return false;
      return true;
    });
    if (is_nan(bias)) return false;
  }
  return true;
}

// Factors and biases that are no part of the case: their values come from the dump itself.
void try_epilogues(const Case& c, const std::vector<Evidence>& evidence, uint64_t before, std::vector<Cause>& causes) {
  if (!c.is_gemm) return;
  float alpha = 0;
  bool one_factor = true, bias = true;
  for (const Evidence& e : evidence) {
    if (e.got == e.expected) continue;
    const Products p = products_of(e);
    const float of_this = common_factor(p);
    one_factor = one_factor && !is_nan(of_this) && (alpha == 0 || alpha == of_this);
    alpha = of_this;
    bias = bias && has_bias(p, static_cast<size_t>(c.rows), static_cast<size_t>(c.rows_b));
  }
  if (one_factor) causes.push_back({"epilogue=alpha", fmt::format("every output times {}", alpha), before, 0});
  if (bias && !one_factor) causes.push_back({"epilogue=bias", "one number added to each column", before, 0});
}

std::string divergence(const std::vector<Comparison>& comparisons, std::string& stage) {
  for (const Comparison& c : comparisons)
    if (c.stage == input_stage && c.mismatches > 0) {
      stage = input_stage;
      return fmt::format("the dump's {} is not the bundle's: the kernel was given something else", c.golden);
    }
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
  if (out.first_diverging == input_stage) {
    out.summary = place;
    return out;
  }
  const CaseInputs in = load_inputs(bundle, c);
  std::vector<Evidence> evidence;
  for (const CandidateArray& a : arrays) {
    const Array golden = load_array(bundle, c, a.golden);
    const Elements expected = elements_of(golden, is_packed_codes(c, a.golden));
    // Codes may be dumped as the numbers that they stand for; no cause makes codes of numbers.
    const bool same_kind = a.array.dtype == "f32" || golden.dtype != "f32";
    evidence.push_back({a.golden, expected, same_kind ? candidate_elements(c, a, expected.size()) : Elements{}});
  }
  const uint64_t before = golden_differences(evidence);
  std::vector<Cause> near;
  const auto try_all = [&](const std::vector<Variant>& variants) {
    for (const Variant& v : variants) {
      const uint64_t after = differences(v, evidence);
      if (after == 0)
        out.causes.push_back({v.cause, v.detail, before, 0});
      else if (4 * after <= 3 * before)  // the golden itself leaves all of `before`
        near.push_back({v.cause, v.detail, before, after});
    }
  };
  try_all(single_variants(c, in, backend, threads));
  if (out.causes.empty()) try_draws(c, in, evidence, backend, before, out.causes);
  if (out.causes.empty()) try_epilogues(c, evidence, before, out.causes);
  if (out.causes.empty()) try_all(pair_variants(c, in, backend, threads));
  out.explains_all = !out.causes.empty();
  if (out.explains_all) {
    out.summary = "equals " + out.causes[0].cause + " (" + out.causes[0].detail + ")";
    return out;
  }
  std::stable_sort(near.begin(), near.end(), [](const Cause& a, const Cause& b) { return a.after < b.after; });
  if (near.size() > 5) near.resize(5);
  out.causes = near;
  out.summary = "no named policy explains this; " + place;
  return out;
}

}  // namespace fp4::golden
