#include "src/listed/listed_rows.h"

#include <algorithm>
#include <cmath>

#include "fp4/codec.h"

namespace fp4 {
namespace {

constexpr double least_apart = 0x1p-13;  // of two errors, relative; each errs by less than 2^-15

bool is_finite_maximum(int32_t bits) { return bits < static_cast<int32_t>(float_infinity_bits); }

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
  tries_ = looks_up_ && q_.arithmetic == Arithmetic::exact && q_.prescale == 1.0f &&
           q_.decode == Decode::scale_then_tensor && q_.error_order == ErrorOrder::fp64 &&
           call.spec.block.kind == BlockKind::vector && call.spec.block.size <= most_micro_width;
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
  const bool random = is_stochastic(q_.rounding);
  const int64_t first_index = (call_.row_offset + r) * out.geometry.scale_cols;  // in the whole operand's scales
  scratch.maxima.resize(static_cast<size_t>(blocks));
  scratch.codes.resize(static_cast<size_t>(cols));
  listed_maxima(x, cols, step, scratch.maxima.data());
  if (tries_) try_grids(x, first_index, step, scratch);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * step, n = std::min(step, cols - first);
    const BlockView block = {x + first, cols, 1, 1, n, step};
    const int32_t maximum = scratch.maxima[static_cast<size_t>(b)];
    uint32_t* codes = scratch.codes.data() + first;
    uint32_t scale = 0;
    bool has_codes = false;
    if (q_.has_scale()) {
      scale = scale_code(block, b, first_index + b, scratch, has_codes);
      const auto at = static_cast<size_t>(r * out.geometry.scale_cols + b);
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
      random_draws(call_.place, start, q_.random_bits, scratch.draws.data(), scratch.draws.size());
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

uint32_t ListedRows::scale_draw(int64_t index) const {
  if (!is_stochastic(q_.scale_rounding)) return 0;
  return random_draw(call_.place.scale_rounding(), static_cast<uint64_t>(index), q_.random_bits);
}

uint32_t ListedRows::scale_code(const BlockView& x, int64_t b, int64_t index, Scratch& scratch, bool& has_codes) const {
  const int32_t maximum = scratch.maxima[static_cast<size_t>(b)];
  if (is_finite_maximum(maximum) && maximum != 0) {
    const int64_t code = second_ ? chosen_code(x, b, index, scratch, has_codes)
                                 : first_.scales.code(float_of(static_cast<uint32_t>(maximum)));
    if (code >= 0) return static_cast<uint32_t>(code);
  }
  return block_scale_code(q_, x, block_maximum(x), t_, scale_draw(index));
}

void ListedRows::try_grids(const float* x, int64_t first_index, int64_t step, Scratch& scratch) const {
  const auto cols = static_cast<int64_t>(scratch.codes.size());
  const Grid* const grids[] = {&first_, &*second_};
  for (auto& [codes, trials] : scratch.under)
    codes.resize(scratch.codes.size()), trials.assign(scratch.maxima.size(), {});
  for (size_t b = 0; b < scratch.maxima.size(); ++b) {
    const auto maximum = static_cast<uint32_t>(scratch.maxima[b]);
    const int64_t first = static_cast<int64_t>(b) * step;
    const float amax = float_of(maximum);
    if (!(amax > 0x1p-100f && amax < 0x1p100f)) continue;
    const BlockView block = {x + first, cols, 1, 1, std::min(step, cols - first), step};
    const uint32_t draw = scale_draw(first_index + static_cast<int64_t>(b));
    for (const int i : {0, 1}) {
      const uint32_t code = grid_scale_code(*grids[i], block, amax, draw);
      scratch.under[i].trials[b] = {code, multiplier_under(*grids[i], code),
                                    static_cast<float>(grids[i]->scales.value(code)),
                                    float_of(0x7f000000u - (maximum & 0x7f800000u))};  // 2^-floor(log2 amax)
    }
  }
  for (const int i : {0, 1})
    look_up_errors(grids[i]->look_up, x, cols, step, t_.g, q_.error, scratch.under[i].codes.data(),
                   scratch.under[i].trials.data());
}

int64_t ListedRows::chosen_code(const BlockView& x, int64_t b, int64_t index, Scratch& scratch, bool& has_codes) const {
  const auto at = static_cast<size_t>(b), start = static_cast<size_t>(b * x.count);
  const auto of_core = [&] {
    const float amax = float_of(static_cast<uint32_t>(scratch.maxima[at]));
    return listed_choice(spec_, x.data, x.cols, amax, t_, scale_draw(index));
  };
  if (!tries_) return of_core();
  const ListedTrial &first = scratch.under[0].trials[at], &second = scratch.under[1].trials[at];
  if (first.multiplier == 0.0f || second.multiplier == 0.0f || (first.left | second.left) != 0) return of_core();
  const uint32_t *const codes = &scratch.under[0].codes[start], *const others = &scratch.under[1].codes[start];
  const double of_first = static_cast<double>(first.error), of_second = static_cast<double>(second.error);
  const bool is_same = first.code == second.code && are_equal(x.cols, codes, others);
  const bool is_clear = std::fabs(of_second - of_first) > least_apart * (of_first + of_second);
  if (!is_same && !(is_clear && of_first + of_second > 0x1p-60)) return of_core();
  const bool is_second = !is_same && of_second < of_first;
  has_codes = is_listed_nearest(q_.rounding);
  std::copy_n(is_second ? others : codes, x.cols, &scratch.codes[start]);
  return is_second ? second.code | choice_flag : first.code;
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
