// Stochastic rounding by other random bits than the case's: fair or not, repeating or not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/backends/backends.h"
#include "src/golden/accidents.h"

namespace fp4::golden {
namespace {

// Stochastic rounding with other random words: the ups have the right mean and variance.
struct StochasticTest {
  double z_mean;  // (ups - expected) / SD
  double chi;     // mean of (up - p)^2 / (p(1-p)): 1 when independent draws
  double others;  // elements that other draws change, on average
};

// Nothing where a code is none of the two neighbours of its payload, or too few say anything.
std::optional<StochasticTest> stochastic_test(const Case& c, const CaseInputs& in, const Elements& codes,
                                              const std::string& backend) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (c.is_gemm || !is_stochastic(spec.rounding) || c.hadamard.size > 0) return {};
  Quantized low, high;
  const Dispatcher dispatcher(backend);
  QuantizeCall call = {.x = view_of(in.a.data(), c.rows, c.cols), .spec = spec, .place = c.place};
  call.spec.rounding = Rounding::toward_zero;
  dispatcher.quantize(call, low);
  call.spec.rounding = Rounding::away_from_zero;
  dispatcher.quantize(call, high);
  const Quantizer q = resolve(spec);
  const int64_t width = low.is_packed() ? 2 * low.code_row_bytes() : low.geometry.padded_cols;
  if (static_cast<int64_t>(codes.size()) != c.rows * width) return {};
  double ups = 0, expected = 0, variance = 0, chi = 0;
  uint64_t n = 0;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t k = 0; k < c.cols; ++k) {
      const uint32_t lo = low.code(r, k), hi = high.code(r, k);
      const uint32_t got = codes[static_cast<size_t>(r * width + k)];
      if (got != lo && got != hi) return {};
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
      ++n;
    }
  }
  if (n < 50) return {};
  return StochasticTest{(ups - expected) / std::sqrt(variance), chi / static_cast<double>(n), 2 * variance};
}

// What a code says of its element's draw r: it was rounded up, r >= up, or not.
struct DrawBound {
  bool says = false;  // not where the payload is a code
  bool is_up = false;
  uint64_t up = 0;
};

// Of every element, row by row, of a large case in its first rows; empty where one is no neighbour of its payload, or
// the factor of a block is not at hand.
std::vector<DrawBound> draw_bounds(const Case& c, const CaseInputs& in, const Elements& codes,
                                   const std::string& backend) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  const Quantizer q = resolve(spec);
  if (c.is_gemm || !is_stochastic(spec.rounding) || c.hadamard.size > 0 || q.element.has_micro() || q.has_choice() ||
      is_real(spec.scale) || spec.tensor_scale_cols(c.cols) > 0)
    return {};
  Quantized any;
  Dispatcher(backend).quantize({.x = view_of(in.a.data(), c.rows, c.cols), .spec = spec, .place = c.place}, any);
  const TensorFactor t = spec.has_tensor_scale() ? tensor_factor(q, any.amax) : TensorFactor{};
  const int64_t width = any.is_packed() ? 2 * any.code_row_bytes() : any.geometry.padded_cols;
  if (static_cast<int64_t>(codes.size()) != c.rows * width) return {};
  const int64_t rows = smaller(c.rows, larger<int64_t>(1, (int64_t{1} << 20) / c.cols));
  std::vector<DrawBound> out(static_cast<size_t>(rows * c.cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < c.cols; ++k) {
      const uint32_t scale = spec.has_scale() ? any.scales[static_cast<size_t>(any.scale_index(r, k))] : 0;
      if (spec.has_scale() && q.scale.is_nan_code(scale)) continue;
      const auto i = static_cast<size_t>(r * c.cols + k);
      const uint32_t got = codes[static_cast<size_t>(r * width + k)];
      const auto code = [&](uint64_t draw) { return element_code(q, in.a[i], scale, t, static_cast<uint32_t>(draw)); };
      const uint64_t all = uint64_t{1} << spec.random_bits;
      const uint32_t down = code(0), top = code(all - 1);
      if (got != down && got != top) return {};
      if (down == top) continue;
      uint64_t low = 0, high = all - 1;  // the last draw that rounds down is in [low, high)
      while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        (code(middle) == down ? low : high) = middle;
      }
      out[i] = {true, got == top, high};
    }
  }
  return out;
}

// Whether elements of one group, `group(i)` < groups, can all have had one draw; and how many neighbours in a group are
// expected to say no where each has a draw of its own.
struct Sharing {
  bool is_possible = true;
  double expected_refusals = 0;
};

template <class Group>
Sharing sharing_of(const std::vector<DrawBound>& bounds, uint64_t groups, double all, const Group& group) {
  struct Open {
    uint64_t low = 0, high = ~uint64_t{0};
    double last = -1;
  };
  std::vector<Open> open(groups);
  Sharing out;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const DrawBound& b = bounds[i];
    if (!b.says) continue;
    Open& o = open[group(i)];
    if (b.is_up)
      o.low = std::max(o.low, b.up);
    else
      o.high = std::min(o.high, b.up);
    out.is_possible = out.is_possible && o.low < o.high;
    const double up = static_cast<double>(b.up) / all;
    if (o.last >= 0) out.expected_refusals += std::min(up, o.last) * (1 - std::max(up, o.last));
    o.last = up;
  }
  return out;
}

// Whether a counter gives such codes, whatever word it starts at: its bits are found from the lowest draw of a word on.
bool may_be_counter(const std::vector<DrawBound>& bounds, int bits) {
  if (bits > 16) return false;
  const uint64_t slots = 32 / static_cast<uint64_t>(bits), all = uint64_t{1} << bits;
  uint32_t start = 0;
  for (uint64_t slot = 0; slot < slots; ++slot) {
    const int shift = bits * static_cast<int>(slot);
    bool is_found = false;
    for (uint64_t v = 0; v < all && !is_found; ++v) {
      const uint32_t first = start | static_cast<uint32_t>(v << shift);
      is_found = true;
      for (size_t i = slot; i < bounds.size() && is_found; i += slots) {
        const uint64_t draw = (first + static_cast<uint32_t>(i / slots)) >> shift & (all - 1);
        is_found = !bounds[i].says || (draw >= bounds[i].up) == bounds[i].is_up;
      }
      if (is_found) start = first;
    }
    if (!is_found) return false;
  }
  return true;
}

// The faulty stream that such codes show, whatever its first word: it alone lets elements share their draws. nullptr
// where elements draw apart, or too few of them say anything.
const AxisRow<RandomStream>* faulty_stream(const Case& c, const std::vector<DrawBound>& bounds) {
  constexpr double enough = 20;  // by chance in exp(-20) of all dumps
  if (bounds.empty()) return nullptr;
  const int bits = quant_spec_from_words(c.words).random_bits;
  const double all = std::ldexp(1.0, bits);
  const auto cols = static_cast<uint64_t>(c.cols), slots = 32 / static_cast<uint64_t>(bits);
  const auto is_shared = [&](uint64_t groups, const auto& group) {
    const Sharing s = sharing_of(bounds, groups, all, group);
    return s.is_possible && s.expected_refusals > enough;
  };
  const auto row = [&](RandomStream id) { return &row_of(random_stream_table, id); };
  if (is_shared(slots, [&](uint64_t i) { return i % slots; })) return row(RandomStream::constant);
  const auto said = std::count_if(bounds.begin(), bounds.end(), [](const DrawBound& b) { return b.says; });
  if (said > 256 && may_be_counter(bounds, bits)) return row(RandomStream::counter);
  if (is_shared(bounds.size(), [&](uint64_t i) { return i - i % cols % 2; })) return row(RandomStream::pairs);
  for (const AxisRow<RandomStream>& info : random_stream_table)
    if (const uint64_t n = repeat_of(info.id); n > 0 && n < cols)
      if (is_shared(bounds.size(), [&](uint64_t i) { return i - i % cols + i % cols % n; })) return &info;
  return nullptr;
}

}  // namespace

void add_draw_causes(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence,
                     const std::string& backend, uint64_t before, std::vector<Cause>& causes) {
  for (const ArrayPair& e : evidence)
    if ((e.stage == "scales" || e.stage == "tensor_scale") && (e.differences > 0 || !e.is_matrix())) return;
  for (const ArrayPair& e : evidence) {
    if (e.array != "codes") continue;
    const Elements got = e.got.all();
    if (const AxisRow<RandomStream>* fault = faulty_stream(c, draw_bounds(c, in, got, backend))) {
      causes.push_back(
          {{{"random_stream", fault->name}},
           fmt::format("other draws than the case's, and {}: no other rule lets elements share them", fault->doc),
           before,
           0});
      continue;
    }
    const auto t = stochastic_test(c, in, got, backend);
    if (!t) continue;
    const bool fair = std::abs(t->z_mean) < 4 && std::abs(t->chi - 1) < 0.2;
    const std::string stats = fmt::format("unbiased within {:.1f} SD, variance ratio {:.3f}", t->z_mean, t->chi);
    if (!fair)
      causes.push_back({{{"rounding", "biased_stochastic"}}, "codes are neighbours, but " + stats, before, 0});
    else if (static_cast<double>(e.differences) >= t->others - 5 * std::sqrt(t->others))  // fewer: its own draws
      causes.push_back({{{"random_words", "other"}}, "stochastic rounding with other draws: " + stats, before, 0});
  }
}

}  // namespace fp4::golden
