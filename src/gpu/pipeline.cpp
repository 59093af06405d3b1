#include "src/gpu/pipeline.h"

#include <algorithm>

#include "src/error.h"

namespace fp4::gpu {

std::pair<void*, std::size_t> Pool::take(std::size_t bytes) {
  std::size_t rounded = 256;
  while (rounded < bytes) rounded *= 2;
  std::vector<void*>& list = free_[rounded];
  if (!list.empty()) {
    void* memory = list.back();
    list.pop_back();
    return {memory, rounded};
  }
  ++allocations_;
  void* memory = device_.allocate(rounded);
  if (memory == nullptr) {  // give back what is kept and try again, once
    trim();
    memory = device_.allocate(rounded);
  }
  if (memory == nullptr) {
    throw Error("gpu: " + device_.description() + " has no " + std::to_string((rounded >> 20) + 1) +
                    " MiB left for an array; use a smaller tensor or --backend auto",
                1);
  }
  return {memory, rounded};
}

void Pool::trim() {
  for (auto& [bytes, list] : free_) {
    for (void* memory : list) device_.release(memory);
    list.clear();
  }
}

namespace {

int64_t groups_for(int64_t threads) { return (threads + group_threads - 1) / group_threads; }

Tiling tiling_over(TileShape shape, int64_t cols) {
  return {shape, std::max<int64_t>(1, tiles_over(cols, shape.cols()))};
}
int64_t tiles_of(const Tiling& t, int64_t rows) { return t.tiles_across * tiles_over(rows, t.shape.rows()); }

TileShape shape_for(int64_t cols, int64_t block, int transform) {
  return cols <= square_tile.cols() && block <= square_tile.cols() && transform <= square_tile.cols() ? square_tile
                                                                                                      : long_tile;
}

bool is_square(const QuantSpec& s) { return s.has_scale() && s.block.kind == BlockKind::square; }

void set_pointers(Resident& r) {
  r.operand.codes = r.codes.data();
  r.operand.scales = r.scales.data();
  r.operand.real_scales = r.real_scales.data();
  r.operand.factors = r.factors.data();
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
  const int64_t groups = is_measured ? std::clamp<int64_t>(groups_for(x.rows * x.cols), 1, 1024) : 1;
  Buffer<uint32_t> partial(pool, groups);
  if (is_measured) launch(device, TensorMaximum{x, groups, partial.data()}, groups);
  const float held = is_measured ? -1.0f : std::max(how.held_amax, 0.0f);
  launch(device, TensorFactorOf{q, held, partial.data(), is_measured ? groups : 0, out.factors.data(), out.amax.data()},
         1);
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
  o.block_cols = std::max<int64_t>(r.geometry.block_cols, chunk_size);
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

bool can_quantize(const QuantSpec& spec) {
  return !spec.has_scale() || spec.block.kind == BlockKind::vector || spec.block.kind == BlockKind::square;
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
  if (transform.size != 0 && (is_measured || is_square(out.spec))) {
    transformed = Buffer<float>(pool, o.rows * o.cols);
    hadamard(pool, x, transform, signs, false, transformed.data());
    source = {transformed.data(), o.rows, o.cols, o.cols, 1};
    transform = {};
  }
  find_factors(pool, source, how, out);

  QuantizeJob job = {o, how.place, how.row_offset, device.has_native_conversion(), nullptr};
  Buffer<uint32_t> square_scales;
  if (is_square(out.spec)) {
    const int64_t blocks = out.geometry.scale_rows * out.geometry.scale_cols;
    square_scales = Buffer<uint32_t>(pool, blocks);
    launch(device, SquareScales{source, job, square_scales.data()}, blocks);
    job.square_scales = square_scales.data();
  }
  const TileShape shape = shape_for(o.padded_cols, is_square(out.spec) ? 0 : o.block_cols, transform.size);
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
  const Tiling tiling = tiling_over(square_tile, x.cols);
  const bool use_native = pool.device().has_native_conversion();
  launch(pool.device(),
         QuantizeBothWays{x,
                          tiling,
                          {along.operand, place_along, 0, use_native, nullptr},
                          {across.operand, place_across, 0, use_native, nullptr}},
         tiles_of(tiling, x.rows));
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

MatrixPlan matrix_plan(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator) {
  MatrixPlan plan;
  if (!(accumulator == fp32_block) || a.has_outer_scale() || b.has_outer_scale()) return plan;
  int64_t largest_value[2] = {};
  int scale_bits = 0;
  bool is_power = true;
  bool has_mantissa = true;
  plan.run = 1024;
  for (int i = 0; i < 2; ++i) {
    const QuantSpec& s = i == 0 ? a : b;
    if (!s.has_scale() || is_real(s.scale) || s.scale_rule == ScaleRule::encode) return plan;
    if (s.block.kind != BlockKind::vector && s.block.kind != BlockKind::square) return plan;
    const FloatFormat& element = format_of(s.element);
    largest_value[i] = decode_fixed(element, element.largest_code);
    if (largest_value[i] > 127) return plan;  // a signed byte
    scale_bits += format_of(s.scale).mantissa_bits + 1;
    is_power = is_power && s.scale == Scale::e8m0;
    has_mantissa = has_mantissa && s.scale != Scale::e8m0;
    plan.run = std::min(plan.run, s.block.size);
  }
  if (plan.run != 16 && plan.run != 32) return plan;
  const int64_t largest_dot = plan.run * largest_value[0] * largest_value[1];
  plan.mode = is_power ? ScaleMode::power : ScaleMode::mantissa;
  if (is_power) plan.fits = largest_dot < (int64_t{1} << 22);
  if (has_mantissa) plan.fits = floor_log2(static_cast<uint64_t>(largest_dot)) + 1 + scale_bits <= 24;
  return plan;
}

namespace {

struct ExpandedBuffers {
  Expanded e;
  Buffer<int8_t> values;
  Buffer<uint32_t> words;
  Buffer<int32_t> lowest;
  Buffer<int32_t> highest;
};

ExpandedBuffers expand(Pool& pool, const Operand& o, const MatrixPlan& plan) {
  ExpandedBuffers r;
  const int64_t padded = (o.cols + matrix_k - 1) / matrix_k * matrix_k;
  const int64_t runs = padded / plan.run;
  r.values = Buffer<int8_t>(pool, o.rows * padded);
  r.words = Buffer<uint32_t>(pool, o.rows * runs);
  r.lowest = Buffer<int32_t>(pool, o.rows);
  r.highest = Buffer<int32_t>(pool, o.rows);
  r.e = {r.values.data(), r.words.data(), r.lowest.data(), r.highest.data(), o.rows, padded};
  launch(pool.device(), ExpandOperand{o, r.e, plan.run, plan.mode}, groups_for(o.rows * runs));
  if (plan.mode == ScaleMode::power) launch(pool.device(), ExponentRange{r.e, runs}, groups_for(o.rows));
  return r;
}

// Groups of a gemm kernel, `side` x `side` outputs each.
int64_t gemm_groups(const PlainGemm& plain, int side) {
  return tiles_over(plain.a.rows, side) * tiles_over(plain.b.rows, side);
}

template <class Unit>
void matrix_gemm(Pool& pool, PlainGemm plain, const MatrixPlan& plan) {
  const ExpandedBuffers a = expand(pool, plain.a, plan);
  const ExpandedBuffers b = expand(pool, plain.b, plan);
  const int64_t tiles = gemm_groups(plain, matrix_tile);
  if (plan.mode == ScaleMode::mantissa) {
    return launch(pool.device(), MatrixGemm<Unit, ScaleMode::mantissa>{plain, {a.e, b.e, 0}, plan.run}, tiles);
  }
  // 254 - 127 - 23 less the quanta of the elements (-2 for e2m1 both): see gemm_kernels.h.
  const int start_bias = 104 - plain.a.quantizer.element.quantum_log2() - plain.b.quantizer.element.quantum_log2();
  plain.only_irregular = true;
  plain.regular = {a.e, b.e, start_bias};
  launch(pool.device(), MatrixGemm<Unit, ScaleMode::power>{plain, plain.regular, plan.run}, tiles);
  launch(pool.device(), plain, gemm_groups(plain, PlainGemm::side));
}

}  // namespace

void gemm(Pool& pool, const Resident& a, const Resident& b, const GemmOptions& options, float* c) {
  PlainGemm plain = {a.operand, b.operand, options.accumulator, {}, c};
  plain.finish.prescale_product = a.spec.prescale * b.spec.prescale;
  plain.finish.hadamard_divisor = options.hadamard_divisor;
  plain.finish.restarts_every_128 = a.spec.has_outer_scale() || b.spec.has_outer_scale();
  const MatrixPlan plan = matrix_plan(a.spec, b.spec, options.accumulator);
  const MatrixKind unit = pool.device().matrix_unit();
  if (plan.fits && unit == MatrixKind::nvidia) return matrix_gemm<NvidiaUnit>(pool, plain, plan);
  if (plan.fits && unit == MatrixKind::amd) return matrix_gemm<AmdUnit>(pool, plain, plan);
  launch(pool.device(), plain, gemm_groups(plain, PlainGemm::side));
}

bool probe_native(Pool& pool) {
  Buffer<uint32_t> result(pool, ProbeNative::groups);
  launch(pool.device(), ProbeNative{result.data()}, ProbeNative::groups);
  std::vector<uint32_t> host(ProbeNative::groups);
  result.download(host.data());
  return std::all_of(host.begin(), host.end(), [](uint32_t count) { return count == 0; });
}

Difference compare_bits(Pool& pool, const void* a, const void* b, int64_t words) {
  const int64_t groups = std::clamp<int64_t>(groups_for(words), 1, 1024);
  Buffer<Difference> found(pool, groups);
  launch(pool.device(),
         CompareBits{static_cast<const uint32_t*>(a), static_cast<const uint32_t*>(b), words, groups, found.data()},
         groups);
  std::vector<Difference> results(static_cast<size_t>(groups));
  found.download(results.data());
  Difference all;
  for (const Difference& d : results) {
    all.count += d.count;
    if (all.first < 0) all.first = d.first;
  }
  return all;
}

}  // namespace fp4::gpu
