#include "src/golden/faulty_kernel.h"

#include <algorithm>
#include <cstring>

#include "src/files/large_pages.h"
#include "src/golden/compare_arrays.h"

namespace fp4::golden {
namespace {

Elements codes_of(const Quantized& q) {
  Elements out;
  const int64_t width = q.is_packed() ? 2 * q.code_row_bytes() : q.geometry.padded_cols;
  if (q.code_bytes() == 1 && !q.is_packed()) return {q.codes.begin(), q.codes.end()};
  if (q.is_packed()) {
    out.resize(2 * q.codes.size());
    for (size_t i = 0; i < q.codes.size(); ++i) out[2 * i] = q.codes[i] & 15u, out[2 * i + 1] = q.codes[i] >> 4u;
    return out;
  }
  out.reserve(static_cast<size_t>(q.rows * width));
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t k = 0; k < width; ++k) out.push_back(q.code(r, k));
  }
  return out;
}

// The codes of blocks whose scale is NaN mean nothing.
void forget_nan_blocks(const Quantized& q, Elements& codes) {
  if (!q.spec.has_scale()) return;
  const FloatFormat& scale = format_of(q.spec.scale);
  const auto is_code = [&](uint8_t code) { return scale.is_nan_code(code); };
  const auto is_value = [](float value) { return is_nan(value); };
  if (std::none_of(q.scales.begin(), q.scales.end(), is_code) &&
      std::none_of(q.real_scales.begin(), q.real_scales.end(), is_value))
    return;
  const int64_t width = static_cast<int64_t>(codes.size()) / q.rows;
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t k = 0; k < q.cols; ++k) {
      const auto block = static_cast<size_t>(q.scale_index(r, k));
      if (q.scales.empty() ? is_value(q.real_scales[block]) : is_code(q.scales[block]))
        codes[static_cast<size_t>(r * width + k)] = any_element;
    }
}

Elements bits_of_all(const std::vector<float>& v) {
  auto words = large_vector<uint32_t>(v.size());
  if (!v.empty()) std::memcpy(words.data(), v.data(), sizeof(float) * v.size());
  return words;
}

// The draw that an element takes.
uint64_t draw_index(const Kernel& k, const Quantized& q, int64_t r, int64_t c) {
  const auto i = static_cast<uint64_t>(r * q.cols + c);
  if (k.draws == Kernel::DrawOrder::column_major) return static_cast<uint64_t>(c * q.rows + r);
  const uint64_t of_a_word = 32 / static_cast<uint64_t>(k.a.random_bits);
  return k.draws == Kernel::DrawOrder::high_first ? i / of_a_word * of_a_word + of_a_word - 1 - i % of_a_word : i;
}

float finite_amax(const MatrixView& x) {
  float amax = 0;
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c)
      if (is_finite(x.at(r, c))) amax = larger(amax, magnitude(x.at(r, c)));
  return amax;
}

BlockView block_at(const QuantizeCall& call, const Quantized& q, int64_t r, int64_t c) {
  const BlockGeometry& g = q.geometry;
  const int64_t r0 = r / g.block_rows * g.block_rows;
  const int64_t c0 = c / g.block_cols * g.block_cols;
  return {call.x.data + r0 * call.x.row_stride + c0 * call.x.col_stride,
          call.x.row_stride,
          call.x.col_stride,
          smaller(g.block_rows, q.rows - r0),
          smaller(g.block_cols, q.cols - c0),
          g.block_rows * g.block_cols};
}

float decoded_factor(Kernel::DecodeG how, float g) {
  const float factors[] = {g, 1.0f, g * g, 1.0f / g};  // in the order of the words
  return factors[static_cast<size_t>(how)];
}

}  // namespace

bool takes_amaxes(const Kernel& k, AccumulatorKind kind) {
  const auto one = [](const QuantSpec& s) {
    return s.has_tensor_scale() && s.tensor_scale == TensorScale::current && s.prescale == 1.0f;
  };
  return kind != AccumulatorKind::fma && k.decode_g == Kernel::DecodeG::once && one(k.a) && one(k.b);
}

Kernel Simulator::base_of(const Case& c) {
  Kernel k;
  k.a = quant_spec_from_words(c.words);
  k.b = c.words_b.empty() ? k.a : quant_spec_from_words(c.words_b);
  return k;
}

Elements Simulator::elements(const Kernel& kernel, const std::string& array, int64_t* rows) const {
  if (c_.is_gemm) return array.starts_with("output_") ? output(kernel, array.substr(7)) : Elements{};
  ArrayName name = parse_array_name(array);
  if (name.stage.empty() || name.stage == input_stage) return {};
  if (kernel.other_operand) name.is_transposed = !name.is_transposed;
  const Piece& piece = last_quantized(kernel, name.is_transposed);
  if (corner_ || kernel.misread[0] != nullptr)
    return part(kernel, name.stage,
                read_rows(piece.q, kernel.misread[0], corner_ ? corner_->rows : std::vector<int64_t>{}), piece.amax);
  const bool is_scale = name.stage == "scales", repeats = is_scale && kernel.repeats_scales;
  if (rows != nullptr)
    *rows = !is_scale  ? piece.q.rows
            : !repeats ? piece.q.geometry.scale_rows
                       : geometry_of(base_.a, piece.q.rows, piece.q.cols).scale_rows;
  Elements all = part(kernel, name.stage, piece.q, piece.amax);
  if (repeats) return on_case_grid(all, piece.q);
  return all;
}

// The arrays of a dump are asked for one after the other, and in many orders: their tensor is quantised once.
const Simulator::Piece& Simulator::last_quantized(const Kernel& k, bool transposed) const {
  Last& last = last_[transposed ? 1 : 0];
  Kernel whole = k;
  whole.misread = {};
  if (last.of != whole) last = {whole, quantized(whole, transposed)};
  return last.piece;
}

Simulator::Piece Simulator::quantized(const Kernel& k, bool transposed) const {
  QuantizeCall call = {.x = view_of(in_.a.data(), c_.rows, c_.cols),
                       .spec = k.a,
                       .place = k.place.value_or(c_.place),
                       .threads = threads_};
  if (transposed != k.swap_operand_axis) call.x = call.x.transposed();
  std::vector<float> storage;
  rotate(k, /*is_b=*/false, call, storage);
  Piece piece;
  piece.amax = band_ ? band_->amax : finite_amax(call.x);
  if (band_) call.row_offset = band_->first_row;
  if (is_stochastic(k.a.rounding) && k.a.random_stream == RandomStream::philox &&
      c_.random_words.size() >= random_words_needed(call))  // else those of a case that draws fewer bits
    call.random_words = c_.random_words;
  const bool is_measured = band_ && k.a.has_tensor_scale() &&
                           (k.a.tensor_scale == TensorScale::current || k.a.tensor_scale == TensorScale::hold);
  if (is_measured || k.measured_g != Kernel::MeasuredG::tensor) {
    call.spec.tensor_scale = TensorScale::hold;  // the same arithmetic on an amax that is handed over
    call.held_amax = k.measured_g == Kernel::MeasuredG::bf16 ? rounded_to(RealType::bf16, piece.amax)
                                                             : resolve(k.a).input(piece.amax);
  }
  if (!k.recodes()) {
    dispatcher_.quantize(call, piece.q);
  } else {
    reference_backend().quantize(call, piece.q);
    recode(k, call, piece.q);
  }
  return piece;
}

// Sets the rotation of a call, or rotates its operand into `storage` where the kernel does it in a way of its own.
void Simulator::rotate(const Kernel& k, bool is_b, QuantizeCall& call, std::vector<float>& storage) const {
  using Rotation = Kernel::Rotation;
  call.hadamard = k.hadamard.value_or(c_.hadamard);
  if (k.rotation == Rotation::whole || call.hadamard.size == 0) return;
  const HadamardSpec h = call.hadamard;
  if (k.rotation == Rotation::none || k.rotation == (is_b ? Rotation::only_a : Rotation::only_b)) call.hadamard = {};
  if (k.rotation == Rotation::none || k.rotation == Rotation::only_a || k.rotation == Rotation::only_b) return;
  HadamardSignMask signs = hadamard_signs(h, call.place.hadamard_signs());
  if (k.rotation == Rotation::reversed) {
    const HadamardSignMask given = signs;
    signs = {};
    for (int j = 0; j < h.size; ++j)
      if (given.is_minus(h.size - 1 - j)) signs.word[j / 32] |= uint32_t{1} << (j % 32);
  }
  const bool after = k.rotation == Rotation::after;
  const int64_t width = hadamard_padded(h, call.x.cols);
  storage.assign(static_cast<size_t>(call.x.rows * width), 0.0f);
  for (int64_t r = 0; r < call.x.rows; ++r) {
    float* row = storage.data() + r * width;
    for (int64_t c = 0; c < call.x.cols; ++c) row[c] = call.x.at(r, c);
    for (int64_t c = 0; c < width; c += h.size) {
      hadamard_tile(row + c, h, after ? HadamardSignMask{} : signs);
      if (after) apply_signs(row + c, h.size, signs);
    }
    for (int64_t c = 0; c < width && k.rotation == Rotation::negated; ++c) row[c] = -row[c];
  }
  call.x = view_of(storage.data(), call.x.rows, width);
  call.hadamard = {};
}

// A kernel with larger blocks than the case's may store each scale once for each of the case's blocks. Nothing where
// it has no scales.
Elements Simulator::on_case_grid(const Elements& scales, const Quantized& q) const {
  if (scales.empty()) return {};
  const BlockGeometry g = geometry_of(base_.a, q.rows, q.cols);
  Elements out;
  for (int64_t r = 0; r < g.scale_rows; ++r)
    for (int64_t c = 0; c < g.scale_cols; ++c)
      out.push_back(scales[static_cast<size_t>(q.scale_index(r * g.block_rows, c * g.block_cols))]);
  return out;
}

Elements Simulator::part(const Kernel& k, const std::string& stage, const Quantized& q, float amax) const {
  if (stage == "codes") {
    Elements e = codes_of(q);
    if (k.codes_as_values)
      for (uint32_t& code : e) code = bits_of(decode(format_of(k.a.element), code));
    forget_nan_blocks(q, e);
    return e;
  }
  if (stage == "scales") {
    if (!q.real_scales.empty()) return bits_of_all(q.real_scales);
    Elements e(q.scales.begin(), q.scales.end());
    if (k.scales_as_values)
      for (uint32_t& code : e) code = bits_of(scale_value(resolve(k.a), code));
    return e;
  }
  if (stage != "tensor_scale") return decoded(k, q);
  std::vector<float> g = q.tensor_scale;
  const float target = k.a.target > 0 ? k.a.target : default_target(k.a);
  const float top = target * decode(format_of(k.a.element), format_of(k.a.element).largest_code);
  for (float& factor : g) {
    if (k.stored_g == Kernel::StoredG::reciprocal) factor = 1.0f / factor;
    if (k.stored_g == Kernel::StoredG::encode) factor = at_most_largest(top / amax);
    if (k.stored_g == Kernel::StoredG::amax) factor = amax;
  }
  return bits_of_all(g);
}

// Scales off by a step, codes without saturation or by other draws: block by block.
void Simulator::recode(const Kernel& k, const QuantizeCall& call, Quantized& q) const {
  if (q.scales.empty() && k.a.has_scale()) return;
  const Quantizer resolved = resolve(k.a);
  const FloatFormat& f = resolved.element;
  if (f.has_micro()) return;
  q.clear_codes();
  std::vector<char> done(q.scales.size(), 0);
  std::vector<float> raw_scales(k.rounds_by_raw_scale ? q.scales.size() : 0);
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t c = 0; c < q.cols; ++c) {
      const bool one_factor = k.a.tensor_scale_cols(q.cols) == 0;
      const TensorFactor t = one_factor && k.a.has_tensor_scale() ? tensor_factor(resolved, q.amax)
                                                                  : TensorFactor{q.tensor_factor_at(r, c), 1.0f};
      uint32_t scale_code = 0;
      if (k.a.has_scale()) {
        const auto index = static_cast<size_t>(q.scale_index(r, c));
        if (done[index] == 0) {
          q.scales[index] = static_cast<uint8_t>(changed_scale(k, call, q, r, c, t));
          done[index] = 1;
          if (k.rounds_by_raw_scale)
            raw_scales[index] =
                round_to_float(scale_quotient(k.a.arithmetic, block_maximum(block_at(call, q, r, c)).amax,
                                              resolved.divisor(), t, k.a.compute),
                               false, Rounding::nearest_even);
        }
        scale_code = q.scales[index];
        if (resolved.scale.is_nan_code(scale_code)) continue;
      }
      const float x = call.x.at(r, c);
      const uint32_t draw =
          is_stochastic(k.a.rounding) ? call.draw(draw_index(k, q, r, c), q.cols, k.a.random_bits) : 0;
      uint32_t code = element_code(resolved, x, scale_code, t, draw);
      const float scale = scale_value(resolved, scale_code);
      const float raw = !raw_scales.empty() ? raw_scales[static_cast<size_t>(q.scale_index(r, c))] : 0.0f;
      if (raw > 0.0f && is_finite(raw) && is_finite(x) && x != 0.0f)
        code = (code & f.sign_code()) |
               smaller<uint32_t>(
                   f.largest_code,
                   static_cast<uint32_t>(round_to_grid(
                       f, payload(k.a.arithmetic, x, raw, t, k.a.prescale, resolved.compute_of_payload(), k.a.payload),
                       is_negative(x), {k.a.rounding, k.a.random_bits, draw})));
      if (k.saturation != 0 && !f.is_grid() && is_finite(x) && x != 0.0f && scale != 0.0f) {
        const Magnitude u =
            payload(k.a.arithmetic, x, scale, t, k.a.prescale, resolved.compute_of_payload(), k.a.payload);
        const uint64_t grid = round_to_grid(f, u, is_negative(x), {k.a.rounding, k.a.random_bits, draw});
        if (grid > f.largest_code) {
          const uint32_t over =
              k.saturation == 1 ? static_cast<uint32_t>(grid) & f.magnitude_mask() : f.magnitude_mask();
          code = over | (code & f.sign_code());
        }
      }
      q.set_code(r, c, code);
    }
  }
}

uint32_t Simulator::changed_scale(const Kernel& k, const QuantizeCall& call, const Quantized& q, int64_t r, int64_t c,
                                  TensorFactor t) const {
  const Quantizer resolved = resolve(k.a);
  const BlockView block = block_at(call, q, r, c);
  const auto index = static_cast<uint64_t>(q.scale_index(r, c));
  const uint32_t draw = is_stochastic(resolved.scale_rounding)
                            ? random_draw(call.place.scale_rounding(), index, resolved.random_bits)
                            : 0;
  const uint32_t code = block_scale_code(resolved, block, t, draw);
  const BlockMaximum m = block_maximum(block);
  if (m.amax == 0.0f || resolved.scale.is_nan_code(code)) return code;
  const int64_t stepped = static_cast<int64_t>(code) + k.scale_step;
  return static_cast<uint32_t>(smaller<int64_t>(larger<int64_t>(stepped, 0), resolved.scale.largest_code));
}

Elements Simulator::decoded(const Kernel& k, Quantized q) const {
  for (float& g : q.tensor_scale) g = decoded_factor(k.decode_g, g);
  auto y = large_vector<float>(static_cast<size_t>(q.rows * q.cols));
  dispatcher_.dequantize(q, y.data(), threads_);
  if (c_.epilogue.output != RealType::fp32 || k.output != RealType::fp32)
    for (float& v : y) v = rounded_to(c_.epilogue.output, rounded_to(k.output, v));
  if (!k.swap_operand_axis) return bits_of_all(y);
  Elements out(y.size());
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t c = 0; c < q.cols; ++c)
      out[static_cast<size_t>(c * q.rows + r)] = bits_of(y[static_cast<size_t>(r * q.cols + c)]);
  return out;
}

// Whether the rows of a corner can be quantised without the others.
bool Simulator::is_few(const Kernel& k, bool is_b) const {
  const QuantSpec& spec = is_b ? k.b : k.a;
  return cuts(k) && k.misread[is_b ? 1 : 0] == nullptr && !spec.draws_random_bits() &&
         geometry_of(spec, c_.rows, c_.cols).block_rows == 1 && k.hadamard.value_or(c_.hadamard).size == 0;
}

// An operand of a product as it lies in memory, or the rows of it that a corner takes.
const Quantized& Simulator::last_operand(const Kernel& k, bool is_b) const {
  if (!c_.is_gemm) return last_quantized(k, false).q;
  Kernel whole;
  whole.a = k.a, whole.b = k.b, whole.place = k.place, whole.hadamard = k.hadamard, whole.rotation = k.rotation;
  const bool few = is_few(k, is_b);
  whole.sparsity = k.sparsity, whole.output_transposed = few && k.output_transposed;
  Last& last = last_[(is_b ? 1 : 0) + (few ? 2 : 0)];
  if (last.of == whole) return last.piece.q;
  const RandomPlace place = k.place.value_or(c_.place);
  QuantizeCall call = {.x = view_of(is_b ? in_.b.data() : in_.a.data(), is_b ? c_.rows_b : c_.rows, c_.cols),
                       .spec = is_b ? k.b : k.a,
                       .place = is_b ? place.second_operand() : place,
                       .threads = threads_};
  std::vector<float> storage, kept;
  if (!is_b && k.sparsity.value_or(Sparsity::none) != Sparsity::none) {  // the input is zero where the case's mask is
    kept = in_.a;
    clear_others(largest_kept(c_.name, *k.sparsity, kept, c_.rows, c_.cols), kept);
    call.x = view_of(kept.data(), c_.rows, c_.cols);
  }
  if (few) {
    float& amax = amax_[is_b ? 1 : 0];
    if (amax < 0) amax = finite_amax(call.x);
    const Corner some = corner(k);
    for (const int64_t r : is_b ? some.cols : some.rows)
      kept.insert(kept.end(), call.x.data + r * c_.cols, call.x.data + (r + 1) * c_.cols);
    call.x = view_of(kept.data(), static_cast<int64_t>(kept.size()) / c_.cols, c_.cols);
    if (call.spec.tensor_scale == TensorScale::current) call.spec.tensor_scale = TensorScale::hold;
    call.held_amax = resolve(call.spec).input(amax);
  }
  rotate(k, is_b, call, storage);
  last.of.reset();
  dispatcher_.quantize(call, last.piece.q);
  last.of = whole;
  return last.piece.q;
}

// Whether a corner of a product is made of rows of its operands alone.
bool Simulator::cuts(const Kernel& k) const {
  const auto lies_by_rows = [&](const Misread* how, const QuantSpec& s, int64_t rows) {
    return how == nullptr || geometry_of(s, rows, c_.cols).block_rows == 1;
  };
  return corner_ && c_.is_gemm && lies_by_rows(k.misread[0], k.a, c_.rows) &&
         lies_by_rows(k.misread[1], k.b, c_.rows_b) && k.sparsity.value_or(c_.sparsity) == Sparsity::none;
}

// The rows and columns of the product behind the outputs that are asked for.
Corner Simulator::corner(const Kernel& k) const {
  return k.output_transposed ? Corner{corner_->cols, corner_->rows} : *corner_;
}

Quantized Simulator::operand(const Kernel& k, bool is_b) const {
  const Corner some = cuts(k) && !is_few(k, is_b) ? corner(k) : Corner{};
  Quantized q = read_rows(last_operand(k, is_b), k.misread[is_b ? 1 : 0], is_b ? some.cols : some.rows);
  if (k.decode_g_of == Kernel::Operands::both || (k.decode_g_of == Kernel::Operands::b) == is_b)
    for (float& g : q.tensor_scale) g = decoded_factor(k.decode_g, g);
  for (int64_t r = 0; r < q.rows && !is_b; ++r)
    for (int64_t i = k.left_out[0]; i < k.left_out[1]; ++i) q.set_code(r, i, format_of(q.spec.element).zero_code());
  if (k.sum != RealType::fp32)
    for (float& g : q.tensor_scale) g = 1.0f;
  return q;
}

std::vector<float> Simulator::product(const Kernel& k, const std::string& accumulator) const {
  const HadamardSpec h = k.rotation == Kernel::Rotation::none ? HadamardSpec{} : k.hadamard.value_or(c_.hadamard);
  const Quantized a = operand(k, /*is_b=*/false), b = operand(k, /*is_b=*/true);
  GemmOptions options = {k.accumulator ? *k.accumulator : accumulator_from(accumulator, c_.name), h.product_divisor(),
                         threads_};
  if (takes_amaxes(k, options.accumulator.kind)) options.factor = k.factor;
  const Sparsity sparsity = k.sparsity.value_or(c_.sparsity);
  auto c = large_vector<float>(static_cast<size_t>(a.rows * b.rows));
  if (sparsity != Sparsity::none) {
    sparse_gemm(dispatcher_, a, b, largest_kept(c_.name, sparsity, in_.a, c_.rows, c_.cols), options, c.data(), b.rows);
  } else {
    dispatcher_.gemm(a, b, options, c.data(), b.rows);
  }
  if (k.sum != RealType::fp32) {
    Kernel plain = k;
    plain.sum = RealType::fp32;
    const float factor = operand(plain, false).tensor_scale[0] * operand(plain, true).tensor_scale[0];
    const auto largest = static_cast<float>(row_of(real_type_table, k.sum).largest);
    for (float& v : c)
      v = rounded_to(k.sum, k.sum_saturates && is_finite(v) ? larger(-largest, smaller(largest, v)) : v) * factor;
  }
  if (!corner_ || cuts(k)) return c;
  std::vector<float> some;
  const Corner of = corner(k);
  for (const int64_t i : of.rows)
    for (const int64_t j : of.cols) some.push_back(c[static_cast<size_t>(i * c_.rows_b + j)]);
  return some;
}

Elements Simulator::output(const Kernel& k, const std::string& accumulator) const {
  const std::vector<float> c = product(k, accumulator);
  if (!c_.epilogue.is_said() && !k.output_transposed && k.output == RealType::fp32) return bits_of_all(c);
  const Corner of = corner_ ? corner(k) : Corner{};
  const auto m = corner_ ? static_cast<int64_t>(of.rows.size()) : c_.rows;
  const auto n = corner_ ? static_cast<int64_t>(of.cols.size()) : c_.rows_b;
  auto out = large_vector<uint32_t>(c.size());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t home =
          corner_ ? of.rows[static_cast<size_t>(i)] * c_.rows_b + of.cols[static_cast<size_t>(j)] : i * n + j;
      float v = c[static_cast<size_t>(i * n + j)];
      if (c_.epilogue.is_said()) v = c_.epilogue.value(v, static_cast<size_t>(home), static_cast<size_t>(c_.rows_b));
      out[static_cast<size_t>(k.output_transposed ? j * m + i : i * n + j)] = bits_of(rounded_to(k.output, v));
    }
  }
  return out;
}

}  // namespace fp4::golden
