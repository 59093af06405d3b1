// Is there any input at all on which encoding is wrong? All 2^32 floats per format against thresholds that come from
// the decoded values alone: midpoints of neighbours as exact doubles, found by search. The quick label runs every
// 4093rd float and every float within 4 ulp of a midpoint; the exhaustive label runs them all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "fp4/codec.h"
#include "tests/support/cuda_types.h"

using namespace fp4;

namespace {

struct Target {
  const char* name;
  FloatFormat format;
};
const Target targets[] = {{"e2m1", format_of(Element::e2m1)},
                          {"e4m3", format_of(Element::e4m3)},
                          {"e5m2", format_of(Element::e5m2)},
                          {"e8m0", format_of(Scale::e8m0)}};

// Nearest-even by search: midpoints[c] separates code c from c + 1; at the midpoint the even code wins.
class NearestEvenSearch {
 public:
  explicit NearestEvenSearch(const FloatFormat& f) {
    for (uint32_t c = 0; c < f.largest_code; ++c) {
      midpoints_.push_back((static_cast<double>(decode(f, c)) + static_cast<double>(decode(f, c + 1))) / 2);
    }
  }
  uint32_t code(float magnitude) const {
    const auto it = std::lower_bound(midpoints_.begin(), midpoints_.end(), static_cast<double>(magnitude));
    const auto c = static_cast<uint32_t>(it - midpoints_.begin());
    const bool tie = it != midpoints_.end() && *it == static_cast<double>(magnitude);
    return tie && c % 2 == 1 ? c + 1 : c;
  }
  const std::vector<double>& midpoints() const { return midpoints_; }

 private:
  std::vector<double> midpoints_;
};

uint64_t count_wrong(const Target& t, const NearestEvenSearch& search, uint32_t first, uint32_t last, uint32_t step) {
  uint64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
  for (int64_t chunk = 0; chunk < 256; ++chunk) {
    const uint64_t begin = first + (static_cast<uint64_t>(last - first) * static_cast<uint64_t>(chunk)) / 256;
    const uint64_t end = first + (static_cast<uint64_t>(last - first) * static_cast<uint64_t>(chunk + 1)) / 256;
    for (uint64_t bits = begin; bits < end; bits += step) {
      const float x = float_of(static_cast<uint32_t>(bits));
      wrong += encode(t.format, exact_magnitude(x), false, {}) != search.code(x) ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("nearest-even of a stated subset of all floats", "[quick]") {
  for (const Target& t : targets) {
    INFO(t.name);
    const NearestEvenSearch search(t.format);
    CHECK(count_wrong(t, search, 0, float_infinity_bits, 4093) == 0);
    uint64_t wrong = 0;
    for (const double m : search.midpoints()) {
      const uint32_t at = bits_of(static_cast<float>(m));
      const uint32_t low = at > 4 ? at - 4 : 0;
      wrong += count_wrong(t, search, low, std::min(at + 5, float_infinity_bits), 1);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("nearest-even of all floats", "[exhaustive]") {
  for (const Target& t : targets) {  // signs are symmetric by construction: element_code adds them to the magnitude
    INFO(t.name);
    CHECK(count_wrong(t, NearestEvenSearch(t.format), 0, float_infinity_bits, 1) == 0);
  }
}

TEST_CASE("every rounding mode of every element format against long division", "[quick]") {
  // |x| on a fine grid that hits values, midpoints and quarter points of every bucket, all exact in double
  for (const auto& row : element_table) {
    if (row.format.code_bits() > 8 || row.format.is_grid()) continue;
    const FloatFormat& f = row.format;
    for (uint32_t c = 0; c < f.largest_code; ++c) {
      const double lo = decode(f, c);
      const double hi = decode(f, c + 1);
      for (int q = 0; q < 16; ++q) {
        const double x = lo + (hi - lo) * q / 16;
        const double d = q / 16.0;
        const auto code = [&](Rounding mode, bool negative) {
          return encode(f, exact_magnitude(static_cast<float>(x)), negative, {mode, 4, static_cast<uint32_t>(c % 16)});
        };
        const bool even_up = d > 0.5 || (d == 0.5 && c % 2 == 1);
        bool fine = code(Rounding::nearest_even, false) == c + even_up &&
                    code(Rounding::nearest_away, false) == c + (d >= 0.5) &&
                    code(Rounding::nearest_toward_zero, true) == c + (d > 0.5) &&
                    code(Rounding::toward_zero, true) == c && code(Rounding::away_from_zero, false) == c + (d > 0) &&
                    code(Rounding::toward_positive, false) == c + (d > 0) &&
                    code(Rounding::toward_positive, true) == c &&
                    code(Rounding::toward_negative, true) == c + (d > 0) && code(Rounding::toward_negative, false) == c;
        for (const Rounding mode :
             {Rounding::stochastic, Rounding::stochastic_midpoint, Rounding::stochastic_truncated}) {
          fine = fine && code(mode, false) == c + (static_cast<uint32_t>(q) + c % 16 >= 16);  // t = q exactly
        }
        if (!fine) FAIL_CHECK(row.name << " code " << c << " plus " << q << "/16");
      }
    }
  }
}

TEST_CASE("NVIDIA's conversion functions agree", "[quick]") {
#if FP4_HAVE_CUDA_TYPES
  uint64_t wrong = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 509) {
    const float x = float_of(static_cast<uint32_t>(bits));
    if (is_nan(x)) continue;  // NaN becomes +6 there; the policies decide here
    const uint32_t sign = is_negative(x) ? 1 : 0;
    const Magnitude m = is_finite(x) ? exact_magnitude(x) : Magnitude{1, 1000, false};
    const auto e2m1 = static_cast<uint32_t>(__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest));
    const auto e4m3 = static_cast<uint32_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
    const auto e5m2 = static_cast<uint32_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2));
    wrong += e2m1 != (encode(format_of(Element::e2m1), m, sign != 0, {}) | sign << 3);
    wrong += e4m3 != (encode(format_of(Element::e4m3), m, sign != 0, {}) | sign << 7);
    wrong += e5m2 != (encode(format_of(Element::e5m2), m, sign != 0, {}) | sign << 7);
  }
  CHECK(wrong == 0);
#else
  WARN("skipped: cuda_fp4.h and cuda_fp8.h are not on this machine");
#endif
}
