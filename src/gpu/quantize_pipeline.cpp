#include <algorithm>

#include "src/gpu/pipeline.h"

namespace fp4::gpu {
namespace {

Tiling tiling_over(TileShape shape, int64_t cols) {
  return {shape, std::max<int64_t>(1, tiles_over(cols, shape.cols()))};
}
int64_t tiles_of(const Tiling& t, int64_t rows) { return t.tiles_across * tiles_over(rows, t.shape.rows()); }

TileShape shape_for(int64_t cols, int64_t block, int transform) {
  return cols <= square_tile.cols() && block <= square_tile.cols() && transform <= square_tile.cols() ? square_tile
                                                                                                      : long_tile;
}

// Blocks that a tile cannot see whole: 2-D, a row, the tensor.
bool has_wide_blocks(const QuantSpec& s) { return s.has_scale() && s.block.kind != BlockKind::vector; }

void set_pointers(Resident& r) {
  r.operand.codes = r.codes.data();
  r.operand.scales = r.scales.data();
  r.operand.real_scales = r.real_scales.data();
  r.operand.factors = r.factors.data();
}

// The tensor's maxima, to be joined by the kernel that reads them.
Buffer<uint32_t> find_maxima(Pool& pool, const Source& x) {
  const int64_t groups = std::clamp<int64_t>(groups_for(x.rows * x.cols / 4), 1, 1024);
  Buffer<uint32_t> partial(pool, groups);
  launch(pool.device(), TensorMaximum{x, groups, partial.data()}, groups);
  return partial;
}

// The tensor factors of x (after its Hadamard) into out.factors.
void find_factors(Pool& pool, const Source& x, const QuantizeHow& how, Resident& out) {
  Device& device = pool.device();
  const Quantizer& q = out.operand.quantizer;
  if (out.operand.factor_per_128) {
    const OuterFactors kernel = {q, x, out.factors.data()};
    launch(device, kernel, groups_for(x.rows * kernel.per_row()));
    TensorFactorOf none = {q, 0.0f, nullptr, 0, nullptr, out.amax.data()};
    none.quantizer.tensor_scale = TensorScale::none;
    Buffer<TensorFactor> unused(pool, 1);
    none.factor = unused.data();
    launch(device, none, 1);
    return;
  }
  const bool is_measured =
      q.tensor_scale != TensorScale::none && !(q.tensor_scale == TensorScale::hold && how.held_amax >= 0.0f);
  const Buffer<uint32_t> partial = is_measured ? find_maxima(pool, x) : Buffer<uint32_t>();
  const float held = is_measured ? -1.0f : std::max(how.held_amax, 0.0f);
  launch(device, TensorFactorOf{q, held, partial.data(), partial.count(), out.factors.data(), out.amax.data()}, 1);
}

// Which bits carry a block's maximum into the next exponent, so that e = exponent(bits + carry) - 2: the rules' own
// thresholds 1.75, 1.5 and 1.8125 over 2^e (scale_rule.h) for e2m1.
struct PowerCarry {
  ScaleRule rule;
  uint32_t carry;
};
constexpr PowerCarry power_carries[] = {{ScaleRule::floor, 0},        {ScaleRule::ceil, 0x7FFFFF},
                                        {ScaleRule::rceil, 0x3FFFFF}, {ScaleRule::even, 0x200000},
                                        {ScaleRule::uos, 0x17FFFF},   {ScaleRule::even_above, 0x1FFFFF}};

// Whether quick_run.h quantises by this spec, and how.
QuickRule quick_rule(const QuantSpec& s, const QuantizeHow& how) {
  QuickRule rule;
  const bool is_plain = s.element == Element::e2m1 && s.block.kind == BlockKind::vector && s.prescale == 1.0f &&
                        s.arithmetic != Arithmetic::multiply && s.compute == Compute::fp32 &&
                        s.exponent == Exponent::bits && s.headroom == Headroom::none && s.scale_floor == 0.0f &&
                        s.scale_ceiling == 0.0f && s.nonfinite == Nonfinite::block_nan &&
                        s.negative_zero == NegativeZero::keep && how.soft_alpha == 0.0f;
  const bool draws = is_stochastic(s.rounding);
  if (!is_plain || (draws && s.random_bits != 8)) return rule;
  rule.is_stochastic = draws;
  if (s.scale == Scale::e8m0 && s.block.size == 32 && s.tensor_scale == TensorScale::none) {
    const PowerCarry* row = std::find_if(std::begin(power_carries), std::end(power_carries),
                                         [&](const PowerCarry& c) { return c.rule == s.scale_rule; });
    rule.fits = row != std::end(power_carries) && (!draws || s.rounding == Rounding::stochastic) &&
                (draws || s.rounding == Rounding::nearest_even);
    if (!rule.fits) return rule;
    const Quantizer q = resolve(s);
    rule.carry = row->carry;
    rule.zero_code = apply_scale_policies(q, zero_block_code(q));
    return rule;
  }
  // Ties of the others go to the core, whatever it makes of them.
  const bool is_near = s.rounding == Rounding::nearest_even || s.rounding == Rounding::nearest_away ||
                       s.rounding == Rounding::nearest_toward_zero;
  const bool is_whole = s.tensor_scale != TensorScale::outer128 && s.tensor_scale != TensorScale::row;
  rule.mode = ScaleMode::mantissa;
  rule.fits = (s.scale == Scale::ue4m3 || s.scale == Scale::ue5m3 || s.scale == Scale::ue5m3_61440) &&
              s.block.size == 16 && s.scale_rule == ScaleRule::amax && s.scale_rounding == Rounding::nearest_even &&
              is_whole &&
              (is_near || s.rounding == Rounding::stochastic || s.rounding == Rounding::stochastic_midpoint);
  return rule;
}

bool is_aligned(const float* data) { return reinterpret_cast<uintptr_t>(data) % sizeof(Four) == 0; }

template <ScaleMode mode>
void launch_tiles(Device& device, const float* data, int64_t height, int64_t width, const QuickJob& along,
                  const QuickJob& across) {
  const QuickTile<mode> kernel = {data, height, width, along, across};
  launch(device, kernel, kernel.tiles_wide() * tiles_over(height, kernel.rows));
}

// False where x is not laid out for whole runs.
bool quantize_quickly(Device& device, const Source& x, const QuickRule& rule, const QuantizeJob& job) {
  const Operand& o = job.out;
  const QuickJob quick = {job, rule};
  if (!rule.fits || o.cols % run_elements != 0 || !is_aligned(x.data) || x.cols != o.cols) return false;
  if (x.col_stride == 1 && x.row_stride == x.cols) {
    const int64_t runs = x.rows * (x.cols / run_elements);
    if (rule.mode == ScaleMode::power) {
      launch(device, QuickRows<ScaleMode::power>{x.data, runs, quick}, groups_for(runs));
    } else {
      launch(device, QuickRows<ScaleMode::mantissa>{x.data, runs, quick}, groups_for(runs));
    }
    return true;
  }
  if (x.row_stride != 1 || x.col_stride != x.rows || x.rows % 4 != 0) return false;
  if (rule.mode == ScaleMode::power) {
    launch_tiles<ScaleMode::power>(device, x.data, x.cols, x.rows, {}, quick);
  } else {
    launch_tiles<ScaleMode::mantissa>(device, x.data, x.cols, x.rows, {}, quick);
  }
  return true;
}

}  // namespace

Resident make_resident(Pool& pool, const QuantSpec& spec, int64_t rows, int64_t cols) {
  Resident r;
  r.spec = spec;
  r.geometry = geometry_of(spec, rows, cols);
  Quantized shape;  // for its layout rules
  shape.spec = spec;
  shape.geometry = r.geometry;
  Operand& o = r.operand;
  o.quantizer = resolve(spec);
  o.rows = rows;
  o.cols = cols;
  o.padded_cols = r.geometry.padded_cols;
  o.block_rows = r.geometry.block_rows;
  o.block_cols = r.geometry.block_cols;
  o.scale_cols = r.geometry.scale_cols;
  o.code_bits = shape.code_bits();
  o.code_row_bytes = shape.code_row_bytes();
  o.factor_per_128 = spec.has_outer_scale();
  r.codes = Buffer<uint8_t>(pool, rows * o.code_row_bytes);
  const int64_t scales = r.geometry.scale_rows * r.geometry.scale_cols;
  if (is_real(spec.scale)) {
    r.real_scales = Buffer<float>(pool, scales);
  } else if (spec.has_scale()) {
    r.scales = Buffer<uint8_t>(pool, scales);
  }
  const int64_t outer_cols = outer_scale_cols(cols);
  r.factors = Buffer<TensorFactor>(pool, o.factor_per_128 ? rows * outer_cols : 1);
  r.amax = Buffer<float>(pool, 1);
  set_pointers(r);
  return r;
}

Resident upload(Pool& pool, const Quantized& q) {
  Resident r = make_resident(pool, q.spec, q.rows, q.cols);
  r.codes.upload(q.codes.data());
  if (r.scales.data() != nullptr) r.scales.upload(q.scales.data());
  if (r.real_scales.data() != nullptr) r.real_scales.upload(q.real_scales.data());
  std::vector<TensorFactor> factors;
  for (const float g : q.tensor_scale) factors.push_back({g, 1.0f});
  r.factors.upload(factors.data());
  r.amax.upload(&q.amax);
  return r;
}

void download(const Resident& from, Quantized& to) {
  to.spec = from.spec;
  to.rows = from.operand.rows;
  to.cols = from.operand.cols;
  to.geometry = from.geometry;
  const auto fetch = [](auto& vector, const auto& buffer) {
    vector.resize(static_cast<size_t>(buffer.count()));
    if (buffer.count() != 0) buffer.download(vector.data());
  };
  fetch(to.codes, from.codes);
  fetch(to.scales, from.scales);
  fetch(to.real_scales, from.real_scales);
  std::vector<TensorFactor> factors;
  fetch(factors, from.factors);
  to.tensor_scale.clear();
  for (const TensorFactor& f : factors) to.tensor_scale.push_back(f.g);
  from.amax.download(&to.amax);
}

void quantize(Pool& pool, const Source& x, const QuantizeHow& how, Resident& out) {
  Device& device = pool.device();
  Operand& o = out.operand;
  o.quantizer.soft_alpha = how.soft_alpha;
  Source source = x;
  HadamardSpec transform = how.hadamard;
  const RandomPlace signs = how.place.hadamard_signs();
  // A maximum over more than a tile is known only when the whole operand is transformed: then the transform is a pass
  // of its own.
  const bool is_measured = o.quantizer.tensor_scale != TensorScale::none &&
                           !(o.quantizer.tensor_scale == TensorScale::hold && how.held_amax >= 0.0f);
  Buffer<float> transformed;
  if (transform.size != 0 && (is_measured || has_wide_blocks(out.spec))) {
    transformed = Buffer<float>(pool, o.rows * o.cols);
    hadamard(pool, x, transform, signs, false, transformed.data());
    source = {transformed.data(), o.rows, o.cols, o.cols, 1};
    transform = {};
  }
  find_factors(pool, source, how, out);

  QuantizeJob job = {o, how.place, how.row_offset, device.has_native_conversion(), nullptr};
  if (transform.size == 0 && quantize_quickly(device, source, quick_rule(out.spec, how), job)) return;
  Buffer<uint32_t> block_scales;
  if (has_wide_blocks(out.spec)) {
    const int64_t blocks = out.geometry.scale_rows * out.geometry.scale_cols;
    block_scales = Buffer<uint32_t>(pool, blocks);
    Buffer<uint32_t> partial;
    if (out.spec.block.kind == BlockKind::tensor) partial = find_maxima(pool, source);
    launch(device, BlockScales{source, job, block_scales.data(), partial.data(), partial.count()}, blocks);
    job.block_scales = block_scales.data();
  }
  const TileShape shape = shape_for(o.padded_cols, has_wide_blocks(out.spec) ? 0 : o.block_cols, transform.size);
  const Tiling tiling = tiling_over(shape, o.padded_cols);
  launch(device, QuantizeTile{source, tiling, transform, hadamard_signs(transform, signs), job},
         tiles_of(tiling, o.rows));
}

bool can_quantize_both_ways(const QuantSpec& along, const QuantSpec& across) {
  const auto fits = [](const QuantSpec& s) {
    return s.has_scale() && s.block.kind == BlockKind::vector && s.block.size <= square_tile.cols() &&
           s.tensor_scale == TensorScale::none;
  };
  return fits(along) && fits(across);
}

void quantize_both_ways(Pool& pool, const Source& x, RandomPlace place_along, RandomPlace place_across, Resident& along,
                        Resident& across) {
  find_factors(pool, x, {}, along);
  find_factors(pool, x, {}, across);
  Device& device = pool.device();
  const bool use_native = device.has_native_conversion();
  const QuantizeJob job_along = {along.operand, place_along, 0, use_native, nullptr};
  const QuantizeJob job_across = {across.operand, place_across, 0, use_native, nullptr};
  const QuickJob quick[] = {{job_along, quick_rule(along.spec, {})}, {job_across, quick_rule(across.spec, {})}};
  const bool has_runs = x.col_stride == 1 && x.row_stride == x.cols && x.rows % run_elements == 0 &&
                        x.cols % run_elements == 0 && is_aligned(x.data);
  if (has_runs && quick[0].rule.fits && quick[1].rule.fits && quick[0].rule.mode == quick[1].rule.mode) {
    if (quick[0].rule.mode == ScaleMode::power) {
      return launch_tiles<ScaleMode::power>(device, x.data, x.rows, x.cols, quick[0], quick[1]);
    }
    return launch_tiles<ScaleMode::mantissa>(device, x.data, x.rows, x.cols, quick[0], quick[1]);
  }
  const Tiling tiling = tiling_over(square_tile, x.cols);
  launch(device, QuantizeBothWays{x, tiling, job_along, job_across}, tiles_of(tiling, x.rows));
}

void hadamard(Pool& pool, const Source& x, const HadamardSpec& h, RandomPlace signs, bool inverse, float* y) {
  const int64_t cols = hadamard_padded(h, x.cols);
  const Tiling tiling = tiling_over(shape_for(cols, 0, h.size), cols);
  launch(pool.device(), HadamardTile{x, tiling, h, hadamard_signs(h, signs), inverse, x.rows, cols, y},
         tiles_of(tiling, x.rows));
}

void dequantize(Pool& pool, const Resident& q, float* out) {
  const Dequantize kernel = {q.operand, out};
  launch(pool.device(), kernel, groups_for(q.operand.rows * kernel.chunks_per_row()));
}

}  // namespace fp4::gpu
