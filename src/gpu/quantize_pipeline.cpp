#include <algorithm>
#include <span>

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

// Blocks that a tile cannot see whole: a row, the tensor, and squares that do not fit one beside their transform.
bool has_wide_blocks(const QuantSpec& s, int transform) {
  if (!s.has_scale() || s.block.kind == BlockKind::vector) return false;
  return s.block.kind != BlockKind::square || std::max(s.block.size, transform) > square_tile.cols();
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

// An operand on its way: what it was given, and what stays between its launches.
struct Work {
  OperandElements x;
  const QuantizeHow& how;
  Resident& out;
  HadamardSpec transform = how.hadamard;
  Buffer<float> transformed;
  Buffer<uint32_t> maxima;
  Buffer<uint32_t> block_scales;
  Buffer<HadamardSignMask> signs;

  TensorScale tensor_scale() const { return out.operand.quantizer.tensor_scale; }
  bool is_held() const { return how.held_amax >= 0.0f && tensor_scale() == TensorScale::hold; }
  bool is_measured() const { return tensor_scale() != TensorScale::none && !is_held(); }
  bool is_wide() const { return has_wide_blocks(out.spec, transform.size); }
  bool is_one_block() const { return out.spec.has_scale() && out.spec.block.kind == BlockKind::tensor; }
};

// The launches that write codes, of all kinds.
struct CodeLaunches {
  Joint<QuickRows<ScaleMode::power>> power_rows;
  Joint<QuickRows<ScaleMode::mantissa>> mantissa_rows;
  Joint<QuickTile<ScaleMode::power>> power_tiles;
  Joint<QuickTile<ScaleMode::mantissa>> mantissa_tiles;
  Joint<QuantizeTile> tiles;
  void launch(Device& device) const {
    power_rows.launch(device), mantissa_rows.launch(device), power_tiles.launch(device);
    mantissa_tiles.launch(device), tiles.launch(device);
  }
};

template <ScaleMode mode>
void add_tiles(Joint<QuickTile<mode>>& to, Floats<const float> data, int64_t height, int64_t width,
               const QuickJob& along, const QuickJob& across) {
  const QuickTile<mode> kernel = {data, height, width, along, across};
  to.add(kernel, kernel.tiles_wide() * tiles_over(height, kernel.rows));
}

// False where x is not laid out for whole runs.
bool quantize_quickly(CodeLaunches& to, const OperandElements& x, const QuickRule& rule, const QuantizeJob& job) {
  const Operand& o = job.out;
  const QuickJob quick = {job, rule};
  if (!rule.fits || o.cols % run_elements != 0 || !x.data.is_aligned() || x.cols != o.cols) return false;
  if (x.col_stride == 1 && x.row_stride == x.cols) {
    const int64_t runs = x.rows * (x.cols / run_elements);
    if (rule.mode == ScaleMode::power) {
      to.power_rows.add({x.data, runs, quick}, groups_for(runs));
    } else {
      to.mantissa_rows.add({x.data, runs, quick}, groups_for(runs));
    }
    return true;
  }
  if (x.row_stride != 1 || x.col_stride != x.rows || x.rows % 4 != 0) return false;
  if (rule.mode == ScaleMode::power) {
    add_tiles(to.power_tiles, x.data, x.cols, x.rows, {}, quick);
  } else {
    add_tiles(to.mantissa_tiles, x.data, x.cols, x.rows, {}, quick);
  }
  return true;
}

// place: of the signs; room: for those that only the device knows.
Signs signs_of(Pool& pool, const HadamardSpec& h, RandomPlace place, Buffer<HadamardSignMask>& room) {
  const Clock* const clock = pool.device().clock();
  if (clock == nullptr || h.size == 0 || h.signs == HadamardSigns::none || h.signs == HadamardSigns::fixed)
    return {hadamard_signs(h, place)};
  room = Buffer<HadamardSignMask>(pool, 1);
  launch(pool.device(), SignsOfClock{h, place, clock, room.data()}, 1);
  return {{}, room.data()};
}

int64_t measuring_groups(int64_t count) { return std::clamp<int64_t>(count, 1, Measured::most); }

Measure rotation_of(const OperandElements& x, const HadamardSpec& h, const Signs& signs, bool inverse, float* y) {
  const int64_t cols = hadamard_padded(h, x.cols);
  const Tiling tiling = tiling_over(shape_for(cols, 0, h.size), cols);
  const int64_t tiles = tiles_of(tiling, x.rows);
  return {{{}, measuring_groups(tiles), nullptr}, {x, tiling, h, signs, inverse, x.rows, cols, y}, tiles};
}

// Maxima of an operand, to be joined by the kernels that read them, and what they are maxima of: a maximum over more
// than a tile is known only when the whole operand is transformed, and then the transform is a pass of its own. So is
// the widening of bf16 for blocks beyond a tile.
void measure(Pool& pool, Work& w, Joint<Measure>& to) {
  const Operand& o = w.out.operand;
  const bool has_maxima = (w.is_measured() && !o.factor_per_128) || w.is_one_block();
  const bool rotates = w.transform.size != 0 ? w.is_measured() || w.is_wide() : w.x.data.is_bf16 && w.is_wide();
  Measure kernel;
  if (rotates) {
    w.transformed = Buffer<float>(pool, o.rows * o.cols);
    const Signs signs = signs_of(pool, w.transform, w.how.place.hadamard_signs(), w.signs);
    kernel = rotation_of(w.x, w.transform, signs, false, w.transformed.data());
    w.x = {w.transformed.data(), o.rows, o.cols, o.cols, 1};
    w.transform = {};
  }
  if (!rotates && !has_maxima) return;
  if (!rotates) kernel.maximum = {w.x, measuring_groups(groups_for(w.x.rows * w.x.cols / 4)), nullptr};
  const int64_t groups = kernel.maximum.groups;
  if (has_maxima) w.maxima = Buffer<uint32_t>(pool, groups);
  kernel.maximum.partial = w.maxima.data();
  to.add(kernel, groups);
}

// The tensor factors of the operand (after its Hadamard), or what its kernels find them by on their way.
Measured add_factors(Pool& pool, Work& w) {
  Resident& out = w.out;
  const Quantizer& q = out.operand.quantizer;
  Measured measured;
  out.known_amax = 0.0f;
  if (out.operand.factor_per_128) {
    out.factors = Buffer<TensorFactor>(pool, out.operand.rows * outer_scale_cols(out.operand.cols));
    const OuterFactors kernel = {q, w.x, out.factors.data()};
    launch(pool.device(), kernel, groups_for(w.x.rows * kernel.per_row()));
  } else if (w.is_measured()) {
    out.factors = Buffer<TensorFactor>(pool, 1);
    out.amax = Buffer<float>(pool, 1);
    measured = {w.maxima.data(), w.maxima.count(), out.factors.data(), out.amax.data()};
  } else if (w.is_held()) {
    out.known_amax = w.how.held_amax;
    out.operand.known = factor_of(q, out.known_amax);
  }
  out.operand.factors = out.factors.data();
  return measured;
}

void quantize_all(Pool& pool, std::span<Work> works) {
  Device& device = pool.device();
  Joint<Measure> measures;
  Joint<BlockScales> scales;
  CodeLaunches codes;
  for (Work& w : works) {
    w.out.operand.quantizer.soft_alpha = w.how.soft_alpha;
    measure(pool, w, measures);
  }
  measures.launch(device);
  for (Work& w : works) {
    const Operand& o = w.out.operand;
    const Measured measured = add_factors(pool, w);
    QuantizeJob job = {o,       w.how.place,    w.how.row_offset, device.has_native_conversion(),
                       nullptr, device.clock(), measured};
    if (w.transform.size == 0 && quantize_quickly(codes, w.x, quick_rule(w.out.spec, w.how), job)) continue;
    if (w.is_wide()) {
      const int64_t blocks = w.out.geometry.scale_rows * w.out.geometry.scale_cols;
      w.block_scales = Buffer<uint32_t>(pool, blocks);
      const bool is_one = w.is_one_block();
      scales.add({w.x, job, w.block_scales.data(), is_one ? w.maxima.data() : nullptr, is_one ? w.maxima.count() : 0},
                 blocks);
      job.block_scales = w.block_scales.data();
    }
    const bool is_square = w.out.spec.has_scale() && w.out.spec.block.kind == BlockKind::square && !w.is_wide();
    const Tiling tiling = tiling_over(
        is_square ? square_tile : shape_for(o.padded_cols, w.is_wide() ? 0 : o.block_cols, w.transform.size),
        o.padded_cols);
    const Signs signs = signs_of(pool, w.transform, w.how.place.hadamard_signs(), w.signs);
    codes.tiles.add({w.x, tiling, w.transform, signs, job}, tiles_of(tiling, o.rows));
  }
  scales.launch(device);
  codes.launch(device);
}

}  // namespace

// An operand; room(buffer, its length) makes its arrays.
template <class Room>
static Resident shaped(const QuantSpec& spec, int64_t rows, int64_t cols, const Room& room) {
  Resident r = {.spec = spec, .geometry = geometry_of(spec, rows, cols)};
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
  room(r.codes, rows * o.code_row_bytes);
  const int64_t scales = r.geometry.scale_rows * r.geometry.scale_cols;
  if (is_real(spec.scale)) {
    room(r.real_scales, scales);
  } else if (spec.has_scale()) {
    room(r.scales, scales);
  }
  o.codes = r.codes.data();
  o.scales = r.scales.data();
  o.real_scales = r.real_scales.data();
  return r;
}

Resident make_resident(Pool& pool, const QuantSpec& spec, int64_t rows, int64_t cols) {
  return shaped(spec, rows, cols, [&]<class T>(Buffer<T>& buffer, int64_t count) { buffer = Buffer<T>(pool, count); });
}

Resident resident_at(const QuantSpec& spec, int64_t rows, int64_t cols, uint8_t* codes, void* scales,
                     TensorFactor* factors) {
  void* next = codes;
  Resident r = shaped(spec, rows, cols, [&]<class T>(Buffer<T>& buffer, int64_t count) {
    buffer = Buffer<T>(static_cast<T*>(next), count);
    next = scales;
  });
  if (spec.has_tensor_scale()) {
    r.factors = Buffer<TensorFactor>(factors, r.operand.factor_per_128 ? rows * outer_scale_cols(cols) : 1);
    r.operand.factors = factors;
  }
  return r;
}

Resident upload(Pool& pool, const Quantized& q) {
  Resident r = make_resident(pool, q.spec, q.rows, q.cols);
  r.codes.upload(q.codes.data());
  if (r.scales.data() != nullptr) r.scales.upload(q.scales.data());
  if (r.real_scales.data() != nullptr) r.real_scales.upload(q.real_scales.data());
  r.known_amax = q.amax;
  std::vector<TensorFactor> factors;
  for (const float g : q.tensor_scale) factors.push_back({g, 1.0f});
  if (r.operand.factor_per_128) {
    r.factors = Buffer<TensorFactor>(pool, static_cast<int64_t>(factors.size()));
    r.factors.upload(factors.data());
    r.operand.factors = r.factors.data();
  } else {
    r.operand.known = factors.at(0);
  }
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
  std::vector<TensorFactor> factors = {from.operand.known};
  if (from.factors.count() != 0) fetch(factors, from.factors);
  to.tensor_scale.clear();
  for (const TensorFactor& f : factors) to.tensor_scale.push_back(f.g);
  to.amax = amax_of(from);
}

float amax_of(const Resident& r) {
  float amax = r.known_amax;
  if (r.amax.count() != 0) r.amax.download(&amax);
  return amax;
}

void quantize(Pool& pool, const OperandElements& x, const QuantizeHow& how, Resident& out) {
  quantize_together(pool, {{x, how, &out}});
}

void quantize_together(Pool& pool, const std::vector<Quantisation>& all) {
  for (size_t first = 0; first < all.size(); first += Several<QuantizeTile>::most) {
    std::vector<Work> works;
    works.reserve(Several<QuantizeTile>::most);
    for (size_t i = first; i < std::min(all.size(), first + Several<QuantizeTile>::most); ++i)
      works.push_back({all[i].x, all[i].how, *all[i].out});
    quantize_all(pool, works);
  }
}

bool can_quantize_both_ways(const QuantSpec& along, const QuantSpec& across) {
  const auto fits = [](const QuantSpec& s) {
    return s.has_scale() && s.block.kind == BlockKind::vector && s.block.size <= square_tile.cols() &&
           s.tensor_scale == TensorScale::none;
  };
  return fits(along) && fits(across);
}

void quantize_both_ways(Pool& pool, const OperandElements& x, RandomPlace place_along, RandomPlace place_across,
                        Resident& along, Resident& across) {
  Device& device = pool.device();
  const bool use_native = device.has_native_conversion();
  const QuantizeJob job_along = {along.operand, place_along, 0, use_native, nullptr, device.clock(), {}};
  const QuantizeJob job_across = {across.operand, place_across, 0, use_native, nullptr, device.clock(), {}};
  const QuickJob quick[] = {{job_along, quick_rule(along.spec, {})}, {job_across, quick_rule(across.spec, {})}};
  const bool has_runs = x.col_stride == 1 && x.row_stride == x.cols && x.rows % run_elements == 0 &&
                        x.cols % run_elements == 0 && x.data.is_aligned();
  if (has_runs && quick[0].rule.fits && quick[1].rule.fits && quick[0].rule.mode == quick[1].rule.mode) {
    CodeLaunches launches;
    if (quick[0].rule.mode == ScaleMode::power) {
      add_tiles(launches.power_tiles, x.data, x.rows, x.cols, quick[0], quick[1]);
    } else {
      add_tiles(launches.mantissa_tiles, x.data, x.rows, x.cols, quick[0], quick[1]);
    }
    return launches.launch(device);
  }
  const Tiling tiling = tiling_over(square_tile, x.cols);
  launch(device, QuantizeBothWays{x, tiling, job_along, job_across}, tiles_of(tiling, x.rows));
}

void hadamard(Pool& pool, const OperandElements& x, const HadamardSpec& h, RandomPlace signs, bool inverse, float* y) {
  Joint<Measure> one;
  Buffer<HadamardSignMask> room;
  const Measure rotation = rotation_of(x, h, signs_of(pool, h, signs, room), inverse, y);
  one.add(rotation, rotation.maximum.groups);
  one.launch(pool.device());
}

void dequantize(Pool& pool, const Resident& q, float* out) {
  const Dequantize kernel = {q.operand, out};
  launch(pool.device(), kernel, groups_for(q.operand.rows * kernel.chunks_per_row()));
}

}  // namespace fp4::gpu
