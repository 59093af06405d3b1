#include "src/model/weight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/arith/amax.h"
#include "src/files/dtype.h"
#include "src/model/decode.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

std::vector<float> numbers_of(const TensorPlace& place) {
  TensorReader reader = reader_of(place);
  std::vector<float> numbers(static_cast<size_t>(reader.rows() * reader.cols()));
  reader.read_rows(0, reader.rows(), numbers.data());
  return numbers;
}

std::vector<uint8_t> bytes_of(const TensorPlace& place) {
  TensorReader reader = reader_of(place);
  std::vector<uint8_t> stored(static_cast<size_t>(reader.rows()) * reader.row_bytes());
  reader.read_raw(0, reader.rows(), stored.data());
  return stored;
}

// All scales of a layout in tiles, row-major and unpadded.
std::vector<uint8_t> linear_scales(const TensorPlace& place, golden::ScaleLayout layout, int64_t rows, int64_t cols) {
  return golden::from_layout(layout, bytes_of(place), rows, cols, place.file + ": " + place.info.name);
}

}  // namespace

bool has_values(const ModelTensor& tensor) {
  if (!tensor.fault.empty()) return false;
  if (tensor.is_quantised()) return tensor.unknown.empty();
  const TensorPlace& place = tensor.parts.front();
  if (place.gguf != nullptr && place.gguf->values != GgufValues::plain) return place.gguf->values == GgufValues::q8_0;
  return info(place.info.dtype).kind == DtypeKind::real && place.info.opaque.empty();
}

WeightReader::WeightReader(const ModelTensor& tensor, const OpenOptions& options)
    : name_(tensor.file() + ": " + tensor.name), scheme_(tensor.scheme), nibbles_(tensor.nibbles) {
  if (!tensor.fault.empty()) throw Error(fmt::format("{}: {}", name_, tensor.fault));
  if (tensor.is_quantised() && !tensor.unknown.empty()) throw Error(fmt::format("{}: {}", name_, tensor.unknown));
  const TensorPlace& first = tensor.parts.front();
  rows_ = static_cast<int64_t>(matrix_rows(tensor.shape));
  cols_ = static_cast<int64_t>(matrix_cols(tensor.shape));
  factor_ends_ = {rows_};
  if (tensor.columns) {
    columns_ = numbers_of(*tensor.columns);
    for (const float c : columns_)
      if (!std::isfinite(c) || c == 0)
        throw Error(fmt::format("{}: {} has {}, no finite number other than 0", name_, tensor.columns->info.name, c));
  }
  if (scheme_ != nullptr) {
    q_.spec = reading_spec(*scheme_);
    exact_power_ = tensor.exact_power;
    stored_block_ = exact_power_ ? 2 * scheme_->block : scheme_->block;
    if (exact_power_) factors_ = {std::ldexp(1.0f, *exact_power_)};
  }
  if (tensor.is_turned) {
    turned_ = std::make_shared<TransposedRows>(tensor);
    return;
  }
  if (tensor.fp8) {
    open_fp8(tensor);
    return;
  }
  if (first.gguf != nullptr && first.gguf->values != GgufValues::plain) {
    blocks_ = first.gguf->values;
    if (blocks_ == GgufValues::none)
      throw Error(
          fmt::format("{}: the values of GGUF type {} are not known; known are F32, F16, BF16, Q8_0, MXFP4, "
                      "NVFP4",
                      name_, first.gguf->name));
    gguf_ = first.array.bytes;
    gguf_offset_ = first.array.offset;
    gguf_row_bytes_ = static_cast<std::uint64_t>(cols_) / first.gguf->block * first.gguf->bytes;
    if (scheme_ != nullptr) open_factors(tensor, 1);
    return;
  }
  codes_.emplace(reader_of(first, options));
  if (scheme_ == nullptr) {  // options may give a raw file its shape
    rows_ = static_cast<int64_t>(codes_->rows());
    cols_ = static_cast<int64_t>(codes_->cols());
    return;
  }
  if (tensor.scale_layout != golden::ScaleLayout::linear)
    linear_scales_ = std::make_shared<const std::vector<uint8_t>>(
        linear_scales(tensor.parts[1], tensor.scale_layout, rows_, cols_ / stored_block_));
  else
    scales_.emplace(reader_of(tensor.parts[1]));
  open_factors(tensor, 2);
  if (tensor.is_transposed) transposed_rows_ = static_cast<int64_t>(tensor.shape[1]);
}

void WeightReader::open_factors(const ModelTensor& tensor, size_t part) {
  if (tensor.parts.size() <= part) return;
  const TensorPlace& place = tensor.parts[part];
  factors_ = numbers_of(place);
  for (const float f : factors_)
    if (!std::isfinite(f) || f <= 0)
      throw Error(fmt::format("{}: its factor {} is {}, no finite number above 0: what the weight is cannot be known",
                              name_, place.info.name, f));
  if (tensor.factor_rows.empty()) return;
  factor_ends_.clear();
  int64_t end = 0;
  for (const std::uint64_t count : tensor.factor_rows) factor_ends_.push_back(end += static_cast<int64_t>(count));
}

void WeightReader::open_fp8(const ModelTensor& tensor) {
  codes_.emplace(reader_of(tensor.parts[0]));
  grid_ = *tensor.fp8;
  q_.spec.element = tensor.parts[0].info.dtype == Dtype::f8_e5m2 ? Element::e5m2 : Element::e4m3;
  q_.spec.scale = Scale::none;
  const FloatFormat& format = format_of(q_.spec.element);
  std::vector<float> values(256);
  for (uint32_t code = 0; code < 256; ++code) values[code] = decode(format, code);
  fp8_values_ = std::make_shared<const std::vector<float>>(std::move(values));
  const TensorPlace& place = tensor.parts[1];
  std::vector<float> scales;
  if (info(place.info.dtype).kind == DtypeKind::real) {
    scales = numbers_of(place);
    // A row or block of zeros may have the scale 0; a weight may not.
    for (const float s : scales)
      if (!std::isfinite(s) || s < 0 || (s == 0 && scales.size() == 1))
        throw Error(fmt::format("{}: its scale {} is {}, no finite number above 0: what the weight is cannot be known",
                                name_, place.info.name, s));
  } else {
    for (const uint8_t code : bytes_of(place)) scales.push_back(decode(format_of(Scale::e8m0), code));
  }
  fp8_scales_ = std::make_shared<const std::vector<float>>(std::move(scales));
}

std::vector<std::string> WeightReader::notes() const { return codes_ ? codes_->notes() : std::vector<std::string>{}; }

bool WeightReader::reads_anywhere() const {
  if (turned_ != nullptr) return turned_->reads_anywhere();
  return (!codes_ || codes_->reads_anywhere()) && (!scales_ || scales_->reads_anywhere()) &&
         (!gguf_ || gguf_->reads_anywhere());
}

void WeightReader::read_rows(int64_t first, int64_t count, float* out, int threads) {
  read_values(first, count, out, threads);
  if (columns_.empty()) return;
  for (int64_t row = 0; row < count; ++row, out += cols_)
    for (int64_t i = 0; i < cols_; ++i) out[i] *= columns_[static_cast<size_t>(i)];
}

void WeightReader::read_values(int64_t first, int64_t count, float* out, int threads) {
  if (turned_ != nullptr) return turned_->read(first, count, out);
  if (fp8_scales_ != nullptr) return read_fp8(first, count, out);
  if (scheme_ == nullptr && codes_)
    return codes_->read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(count), out);
  if (scheme_ == nullptr) return read_q8_0(first, count, out);
  if (transposed_rows_ != 0) return read_transposed(first, count, out);
  while (count > 0) {
    const auto factor =
        static_cast<size_t>(std::upper_bound(factor_ends_.begin(), factor_ends_.end(), first) - factor_ends_.begin());
    const int64_t part = std::min(count, factor_ends_[factor] - first);
    read_quantized(first, part);
    q_.tensor_scale = {factors_[factor]};
    decode_weight(backend_, q_, out, threads);
    out += part * cols_;
    first += part;
    count -= part;
  }
}

float WeightReader::finite_amax(int64_t first, int64_t count, int threads) {
  const bool is_plain = turned_ == nullptr && scheme_ == nullptr && fp8_scales_ == nullptr && codes_;
  const bool is_bf16 = is_plain && codes_->dtype() == Dtype::bf16;
  const bool is_f16 = is_plain && codes_->dtype() == Dtype::f16;
  if (is_bf16 || is_f16) {
    stored_.resize(static_cast<size_t>(count) * codes_->row_bytes());
    codes_->read_raw(static_cast<uint64_t>(first), static_cast<uint64_t>(count), stored_.data());
    const uint16_t bits = finite_amax_bits(stored_.data(), count * cols_, is_bf16 ? 0x7f80 : 0x7c00);
    return std::bit_cast<float>(is_bf16 ? bf16_to_f32_bits(bits) : f16_to_f32_bits(bits));
  }
  return RowReader::finite_amax(first, count, threads);
}

const Quantized& WeightReader::read_quantized(int64_t first, int64_t count) {
  if (turned_ != nullptr) throw Error(name_ + ": blocks cannot be transposed as they are");
  q_.rows = count;
  q_.cols = cols_;
  q_.geometry = geometry_of(q_.spec, count, cols_);
  if (fp8_scales_ != nullptr) {
    q_.codes.resize(static_cast<size_t>(count * cols_));
    codes_->read_raw(static_cast<uint64_t>(first), static_cast<uint64_t>(count), q_.codes.data());
    q_.real_scales = first == 0 ? *fp8_scales_ : std::vector<float>{};
    return q_;
  }
  q_.codes.resize(static_cast<size_t>(count * cols_ / 2));
  q_.scales.resize(static_cast<size_t>(count * cols_ / stored_block_));
  if (blocks_ == GgufValues::plain)
    read_codes(first, count);
  else
    read_blocks(first, count);
  if (exact_power_) to_exact_nvfp4(*exact_power_, q_.scales, q_.codes);
  const uint32_t known = (uint32_t{1} << format_of(q_.spec.scale).code_bits()) - 1;
  uint8_t used = 0;
  for (const uint8_t scale : q_.scales) used |= scale;
  if ((used & ~known) != 0)
    throw Error(fmt::format("{}: a scale of rows {} to {} has a sign, which {} has not", name_, first, first + count,
                            row_of(scale_table, q_.spec.scale).name));
  return q_;
}

// Row k of an expert: nibble k mod 2 of byte row k/2, under scale row k/block.
void WeightReader::read_transposed(int64_t first, int64_t count, float* out) {
  const Quantizer r = resolve(q_.spec);
  const float top = r.top();
  std::vector<uint8_t> codes(static_cast<size_t>(cols_)), scales(codes.size());
  std::vector<float> values(16), factors(256);
  for (uint32_t code = 0; code < 16; ++code) values[code] = decode(r.element, code);
  int64_t code_row = -1, scale_row = -1;
  auto factor = static_cast<size_t>(-1);
  for (int64_t row = first; row < first + count; ++row, out += cols_) {
    const auto at =
        static_cast<size_t>(std::upper_bound(factor_ends_.begin(), factor_ends_.end(), row) - factor_ends_.begin());
    if (at != factor)
      for (uint32_t code = 0; code < 256; ++code) {
        const float s = scale_value(r, code);
        factors[code] = q_.spec.has_tensor_scale() ? decode_factor(q_.spec.decode, s, factors_[at], top) : s;
      }
    factor = at;
    // Both counts are even, so rows of all experts count on.
    if (row / 2 != code_row) codes_->read_raw(static_cast<uint64_t>(code_row = row / 2), 1, codes.data());
    if (row / scheme_->block != scale_row)
      scales_->read_raw(static_cast<uint64_t>(scale_row = row / scheme_->block), 1, scales.data());
    const bool is_upper = (row % 2 == 1) != (nibbles_ == golden::CodeLayout::high_first);
    for (size_t c = 0; c < codes.size(); ++c) {
      const float y = values[(is_upper ? codes[c] >> 4 : codes[c]) & 15] * factors[scales[c]];
      out[c] = is_nan(y) ? float_of(canonical_nan_bits) : y;
    }
  }
}

void WeightReader::read_fp8(int64_t first, int64_t count, float* out) {
  stored_.resize(static_cast<size_t>(count * cols_));
  codes_->read_raw(static_cast<uint64_t>(first), static_cast<uint64_t>(count), stored_.data());
  const int64_t across = (cols_ + grid_.cols - 1) / grid_.cols;
  const std::vector<float>&values = *fp8_values_, &scales = *fp8_scales_;
  const unsigned char* from = stored_.data();
  for (int64_t row = first; row < first + count; ++row)
    for (int64_t block = 0; block < across; ++block) {
      const float scale = scales[static_cast<size_t>(row / grid_.rows * across + block)];
      const int64_t width = std::min(grid_.cols, cols_ - block * grid_.cols);
      for (int64_t i = 0; i < width; ++i) *out++ = values[*from++] * scale;
    }
}

void WeightReader::read_q8_0(int64_t first, int64_t count, float* out) {
  stored_.resize(static_cast<size_t>(count) * gguf_row_bytes_);
  gguf_->read(gguf_offset_ + static_cast<uint64_t>(first) * gguf_row_bytes_, stored_.data(), stored_.size());
  const int64_t blocks = count * cols_ / 32;
  for (int64_t b = 0; b < blocks; ++b) {
    uint16_t half;
    std::memcpy(&half, stored_.data() + b * 34, 2);
    const float d = std::bit_cast<float>(f16_to_f32_bits(half));
    int8_t q[32];
    std::memcpy(q, stored_.data() + b * 34 + 2, 32);
    for (int i = 0; i < 32; ++i) out[b * 32 + i] = d * static_cast<float>(q[i]);
  }
}

void WeightReader::read_codes(int64_t first, int64_t count) {
  // gpt-oss splits a row of K into K/32 rows of 16 bytes; scales of other shapes hold the same bytes in order.
  const auto read = [&](TensorReader& reader, std::vector<uint8_t>& to, int64_t row_bytes) {
    const auto stored = static_cast<int64_t>(reader.row_bytes());
    if (stored == 0 || row_bytes % stored != 0)
      throw Error(fmt::format("{}: {} has shape {}, which is no part of rows of {} bytes", name_, reader.name(),
                              shape_text(reader.shape()), row_bytes));
    const int64_t rows = row_bytes / stored;
    reader.read_raw(static_cast<uint64_t>(first * rows), static_cast<uint64_t>(count * rows), to.data());
  };
  read(*codes_, q_.codes, cols_ / 2);
  if (nibbles_ == golden::CodeLayout::high_first)
    for (uint8_t& byte : q_.codes) byte = static_cast<uint8_t>(byte >> 4 | byte << 4);
  const int64_t scale_cols = cols_ / stored_block_;
  if (linear_scales_ != nullptr)
    std::copy_n(linear_scales_->begin() + first * scale_cols, count * scale_cols, q_.scales.begin());
  else
    read(*scales_, q_.scales, scale_cols);
}

void WeightReader::read_blocks(int64_t first, int64_t count) {
  stored_.resize(static_cast<size_t>(count) * gguf_row_bytes_);
  gguf_->read(gguf_offset_ + static_cast<uint64_t>(first) * gguf_row_bytes_, stored_.data(), stored_.size());
  const uint8_t* from = stored_.data();
  uint8_t *codes = q_.codes.data(), *scales = q_.scales.data();
  const int parts = gguf_block(blocks_).scales, half = stored_block_ / 2;
  for (int64_t b = 0; b < count * cols_ / (parts * stored_block_); ++b) {
    std::memcpy(scales, from, static_cast<size_t>(parts));
    scales += parts;
    from += parts;
    for (int part = 0; part < parts; ++part, from += half, codes += half) join_halves(from, half, codes);
  }
}

}  // namespace fp4
