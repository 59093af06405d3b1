#include "src/listed/listed_rows.h"

#include <algorithm>
#include <cmath>

#include "fp4/codec.h"

namespace fp4 {
namespace {

constexpr double least_apart = 0x1p-13;  // of two errors, relative; each errs by less than 2^-15

bool is_finite_maximum(int32_t bits) { return bits < static_cast<int32_t>(float_infinity_bits); }

// The draws of positions from `first` on, a block of Philox at a time.
void fill_draws(RandomPlace place, uint64_t first, int bits, std::vector<uint32_t>& out) {
  PhiloxBlock block = {};
  for (uint64_t k = 0; k < out.size(); ++k) {
    const uint64_t bit = (first + k) * static_cast<uint64_t>(bits);
    if (k == 0 || bit % 128 == 0) block = random_block(place, bit / 128);
    const uint32_t word = block.word[bit % 128 / 32] >> (bit % 32);
    out[k] = bits == 32 ? word : word & ((1u << bits) - 1u);
  }
}

}  // namespace

ListedRows::ListedRows(const QuantizeCall& call, const ListedSpec& spec, TensorFactor t)
    : call_(call),
      q_(spec.q),
      spec_(spec),
      t_(t),
      first_{spec.first, ListedLookUp(spec.first, spec.q), ListedScales(spec.q, spec.q.element, t)},
      of_second_(spec.q),
      units_(listed_units(spec.q, t)),
      flag_(spec.second ? choice_flag : 0u),
      looks_up_(first_.look_up.is_on) {
  fill_multipliers(first_);
  if (!spec.second) return;
  second_.emplace(Grid{*spec.second, ListedLookUp(*spec.second, q_), ListedScales(q_, *q_.other, t)});
  fill_multipliers(*second_);
  looks_up_ = looks_up_ && second_->look_up.is_on;
  of_second_.element = *q_.other;
}

// Blocks whose numbers read the same under both grids.
bool ListedRows::are_equal(int64_t n, const uint32_t* a, const uint32_t* b) const {
  for (int64_t k = 0; k < n; ++k)
    if (first_.element.decoded[a[k]] != second_->element.decoded[b[k]]) return false;
  return true;
}

void ListedRows::quantize(const float* x, int64_t r, Scratch& scratch, Quantized& out) const {
  const int64_t cols = out.cols, step = out.geometry.block_cols, blocks = (cols + step - 1) / step;
  const bool random_scale = q_.has_scale() && is_stochastic(q_.scale_rounding), random = is_stochastic(q_.rounding);
  scratch.maxima.resize(static_cast<size_t>(blocks));
  scratch.codes.resize(static_cast<size_t>(cols));
  listed_maxima(x, cols, step, scratch.maxima.data());
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * step, n = std::min(step, cols - first);
    const BlockView block = {x + first, cols, 1, 1, n, step};
    const int32_t maximum = scratch.maxima[static_cast<size_t>(b)];
    uint32_t* codes = scratch.codes.data() + first;
    uint32_t scale = 0;
    bool has_codes = false;
    if (q_.has_scale()) {
      const int64_t index = r * out.geometry.scale_cols + b;
      const auto place = static_cast<uint64_t>(call_.row_offset * out.geometry.scale_cols + index);
      const uint32_t draw = random_scale ? random_draw(call_.place.scale_rounding(), place, q_.random_bits) : 0u;
      scale = scale_code(block, maximum, draw, codes, has_codes);
      const auto at = static_cast<size_t>(index);
      if (is_real(call_.spec.scale)) {
        out.real_scales[at] = static_cast<float>(first_.scales.value(scale));
      } else {
        out.scales[at] = static_cast<uint8_t>(scale);
      }
      if (q_.scale.is_nan_code(scale)) {
        std::fill(codes, codes + n, q_.element.zero_code());
        continue;
      }
    }
    if (has_codes) continue;
    if (random) {
      const auto start = static_cast<uint64_t>((call_.row_offset + r) * cols + first);
      scratch.draws.resize(static_cast<size_t>(n));
      fill_draws(call_.place, start, q_.random_bits, scratch.draws);
    }
    element_codes(block, scale, is_finite_maximum(maximum), random ? scratch.draws.data() : nullptr, codes);
  }
  store_codes(r, scratch.codes.data(), out);
}

void ListedRows::store_codes(int64_t r, const uint32_t* codes, Quantized& out) const {
  const int64_t cols = out.cols, pairs = out.is_packed() ? cols / 2 : 0;
  uint8_t* row = out.codes.data() + r * out.code_row_bytes();
  pack_codes(codes, pairs, row);
  if (out.is_packed() || out.code_bytes() > 2) {
    for (int64_t k = 2 * pairs; k < cols; ++k) out.set_code(r, k, codes[k]);
  } else if (out.code_bytes() == 1) {
    for (int64_t k = 0; k < cols; ++k) row[k] = static_cast<uint8_t>(codes[k]);
  } else {
    for (int64_t k = 0; k < cols; ++k)
      row[2 * k] = static_cast<uint8_t>(codes[k]), row[2 * k + 1] = static_cast<uint8_t>(codes[k] >> 8);
  }
}

uint32_t ListedRows::scale_code(const BlockView& x, int32_t maximum, uint32_t draw, uint32_t* codes,
                                bool& has_codes) const {
  if (is_finite_maximum(maximum) && maximum != 0) {
    const float amax = float_of(static_cast<uint32_t>(maximum));
    const int64_t code = second_ ? chosen_code(x, amax, draw, codes, has_codes) : first_.scales.code(amax);
    if (code >= 0) return static_cast<uint32_t>(code);
  }
  return block_scale_code(q_, x, block_maximum(x), t_, draw);
}

int64_t ListedRows::chosen_code(const BlockView& x, float amax, uint32_t draw, uint32_t* codes, bool& has_codes) const {
  const bool is_known = looks_up_ && q_.arithmetic == Arithmetic::exact && q_.prescale == 1.0f &&
                        q_.decode == Decode::scale_then_tensor && q_.error_order == ErrorOrder::fp64 &&
                        x.cols <= most_micro_width && amax > 0x1p-100f && amax < 0x1p100f;
  const auto of_core = [&] { return listed_choice(spec_, x.data, x.cols, amax, t_, draw); };
  if (!is_known) return of_core();
  const uint32_t a = grid_scale_code(first_, x, amax, draw), b = grid_scale_code(*second_, x, amax, draw);
  uint32_t codes_of_b[most_micro_width];
  float of_a = 0.0f, of_b = 0.0f;
  if (!error_under(first_, x, amax, a, codes, of_a) || !error_under(*second_, x, amax, b, codes_of_b, of_b))
    return of_core();
  has_codes = is_listed_nearest(q_.rounding);
  if (a == b && are_equal(x.cols, codes, codes_of_b)) return a;
  const double difference = static_cast<double>(of_b) - static_cast<double>(of_a);
  const double sum = static_cast<double>(of_b) + static_cast<double>(of_a);
  if (!(std::fabs(difference) > least_apart * sum) || !(sum > 0x1p-60)) {
    has_codes = false;
    return of_core();
  }
  if (difference < 0.0) std::copy_n(codes_of_b, x.cols, codes);
  return difference < 0.0 ? b | choice_flag : a;
}

void ListedRows::fill_multipliers(Grid& grid) const {
  if (!grid.look_up.is_on || !q_.has_scale() || is_real(call_.spec.scale)) return;
  for (uint32_t code = 0; code <= q_.scale.largest_code; ++code)
    grid.multipliers[code] = listed_multiplier(grid.look_up.per_unit, grid.scales.value(code) * units_);
}

float ListedRows::multiplier_under(const Grid& grid, uint32_t code) const {
  if (q_.has_scale() && !is_real(call_.spec.scale)) return grid.multipliers[code];
  return listed_multiplier(grid.look_up.per_unit, q_.has_scale() ? grid.scales.value(code) * units_ : 1.0);
}

uint32_t ListedRows::grid_scale_code(const Grid& grid, const BlockView& x, float amax, uint32_t draw) const {
  const int64_t code = grid.scales.code(amax);
  if (code >= 0) return static_cast<uint32_t>(code);
  return apply_scale_policies(q_, rule_code(&grid == &first_ ? q_ : of_second_, x, amax, t_, draw));
}

bool ListedRows::error_under(const Grid& grid, const BlockView& x, float amax, uint32_t code, uint32_t* codes,
                             float& error) const {
  const auto s = static_cast<float>(grid.scales.value(code));
  const float multiplier = multiplier_under(grid, code);
  const float unit = float_of(0x7f000000u - (bits_of(amax) & 0x7f800000u));  // 2^-floor(log2 amax)
  return multiplier != 0.0f &&
         look_up_errors(grid.look_up, x.data, x.cols, {multiplier}, s, t_.g, unit, q_.error, codes, error) == 0;
}

void ListedRows::element_codes(const BlockView& x, uint32_t scale, bool is_finite, const uint32_t* draws,
                               uint32_t* out) const {
  const Grid& grid = second_ && (scale & choice_flag) != 0 ? *second_ : first_;
  const float multiplier =
      looks_up_ && draws == nullptr && is_listed_nearest(q_.rounding) ? multiplier_under(grid, scale & ~flag_) : 0.0f;
  int micro[most_micro_width];
  const bool has_micro = q_.element.has_micro();
  const float inverse = has_micro ? listed_multiplier(1.0f, listed_divisor(q_, scale, t_)) : 0.0f;
  const bool looks_up = has_micro && inverse != 0.0f && is_finite && has_listed_look_up();
  if (has_micro && !(looks_up && look_up_exponents(q_, x.data, x.cols, inverse, micro)))
    listed_exponents(q_, x, scale, t_, micro);
  const int* exponents = has_micro ? micro : nullptr;
  if (multiplier == 0.0f) return listed_codes(q_, grid.element, scale, t_, x.data, x.cols, exponents, draws, out);
  const int base_bits = has_micro ? q_.element.grid->base_bits : 0;
  int left = look_up_codes(grid.look_up, x.data, x.cols, {multiplier, exponents, base_bits}, out);
  for (int64_t k = 0; left > 0 && k < x.cols; ++k) {
    if (out[k] != undecided) continue;
    listed_codes(q_, grid.element, scale, t_, x.data + k, 1, has_micro ? exponents + k : nullptr, nullptr, out + k);
    --left;
  }
}

}  // namespace fp4
