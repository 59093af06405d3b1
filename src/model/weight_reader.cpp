#include "src/model/weight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/amax.h"
#include "src/error.h"
#include "src/known_words.h"
#include "src/model/gguf_blocks.h"
#include "src/spec_text.h"
#include "src/tensor_file/convert.h"

namespace fp4 {
namespace {

TensorReader reader_of(const TensorPlace& place, OpenOptions options) {
  if (place.gguf == nullptr) {
    // A .npy has one tensor without a name, and a raw file only what the options say.
    if (place.file.ends_with(".safetensors") || place.file.ends_with(".npz")) options.entry = place.info.name;
    return TensorReader(place.file, options);
  }
  options = {};
  options.raw_dtype = place.info.dtype;
  options.raw_shape = place.info.shape;
  const Bytes part = open_part(open_file(place.file), place.file + ": " + place.info.name, place.offset, place.bytes());
  return TensorReader(part, options);
}

}  // namespace

bool has_values(const ModelTensor& tensor) {
  if (tensor.scheme != nullptr) return true;
  const TensorPlace& place = tensor.parts.front();
  if (place.gguf != nullptr && place.gguf->values != GgufValues::plain) return place.gguf->values == GgufValues::q8_0;
  return info(place.info.dtype).kind == DtypeKind::real && place.info.opaque.empty();
}

WeightReader::WeightReader(const ModelTensor& tensor, const OpenOptions& options)
    : name_(tensor.file() + ": " + tensor.name), scheme_(tensor.scheme) {
  const TensorPlace& first = tensor.parts.front();
  rows_ = static_cast<int64_t>(matrix_rows(tensor.shape));
  cols_ = static_cast<int64_t>(matrix_cols(tensor.shape));
  if (first.gguf != nullptr && first.gguf->values != GgufValues::plain) {
    blocks_ = first.gguf->values;
    if (blocks_ == GgufValues::none)
      throw Error(
          fmt::format("{}: the values of GGUF type {} are not known; known are F32, F16, BF16, Q8_0, MXFP4, "
                      "NVFP4",
                      name_, first.gguf->name));
    gguf_ = open_file(first.file);
    gguf_offset_ = first.offset;
    gguf_row_bytes_ = static_cast<std::uint64_t>(cols_) / first.gguf->block * first.gguf->bytes;
  } else {
    codes_.emplace(reader_of(first, options));
    if (scheme_ == nullptr) {  // options may give a raw file its shape
      rows_ = static_cast<int64_t>(codes_->rows());
      cols_ = static_cast<int64_t>(codes_->cols());
      return;
    }
    scales_.emplace(reader_of(tensor.parts[1], {}));
  }
  if (scheme_ == nullptr) return;
  q_.spec = decoding_spec(quant_spec_from_words(scheme_->spec, name_));
  const size_t factor = first.gguf != nullptr ? 1 : 2;
  if (tensor.parts.size() <= factor) return;
  TensorReader reader = reader_of(tensor.parts[factor], {});
  factors_.resize(static_cast<size_t>(reader.rows() * reader.cols()));
  reader.read_rows(0, reader.rows(), factors_.data());
  if (scheme_->meaning == Factor::reciprocal)
    for (float& f : factors_) f = 1.0f / f;
  if (q_.spec.tensor_scale == TensorScale::none) q_.spec.tensor_scale = TensorScale::current;
}

std::vector<std::string> WeightReader::notes() const { return codes_ ? codes_->notes() : std::vector<std::string>{}; }

bool WeightReader::reads_anywhere() const {
  return (!codes_ || codes_->reads_anywhere()) && (!scales_ || scales_->reads_anywhere()) &&
         (!gguf_ || gguf_->reads_anywhere());
}

void WeightReader::read_rows(int64_t first, int64_t count, float* out, int threads) {
  if (scheme_ == nullptr && codes_)
    return codes_->read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(count), out);
  const int64_t run = rows_ / static_cast<int64_t>(factors_.size());
  while (count > 0) {
    const int64_t part = std::min(count, run - first % run);
    read_parts(first, part, out, threads);
    out += part * cols_;
    first += part;
    count -= part;
  }
}

float WeightReader::finite_amax(int64_t first, int64_t count, int threads) {
  const bool is_bf16 = scheme_ == nullptr && codes_ && codes_->dtype() == Dtype::bf16;
  const bool is_f16 = scheme_ == nullptr && codes_ && codes_->dtype() == Dtype::f16;
  if (is_bf16 || is_f16) {
    stored_.resize(static_cast<size_t>(count) * codes_->row_bytes());
    codes_->read_raw(static_cast<uint64_t>(first), static_cast<uint64_t>(count), stored_.data());
    const uint16_t bits = finite_amax_bits(stored_.data(), count * cols_, is_bf16 ? 0x7f80 : 0x7c00);
    return std::bit_cast<float>(is_bf16 ? bf16_to_f32_bits(bits) : f16_to_f32_bits(bits));
  }
  values_.resize(static_cast<size_t>(count * cols_));
  read_rows(first, count, values_.data(), threads);
  return fp4::finite_amax(values_.data(), count * cols_);
}

void WeightReader::read_parts(int64_t first, int64_t count, float* out, int threads) {
  if (blocks_ == GgufValues::plain)
    read_codes(first, count);
  else
    read_blocks(first, count);
  if (blocks_ == GgufValues::q8_0) {
    const int64_t blocks = count * cols_ / 32;
    for (int64_t b = 0; b < blocks; ++b) {
      uint16_t half;
      std::memcpy(&half, stored_.data() + b * 34, 2);
      const float d = std::bit_cast<float>(f16_to_f32_bits(half));
      int8_t q[32];
      std::memcpy(q, stored_.data() + b * 34 + 2, 32);
      for (int i = 0; i < 32; ++i) out[b * 32 + i] = d * static_cast<float>(q[i]);
    }
    return;
  }
  const uint32_t known = (uint32_t{1} << format_of(q_.spec.scale).code_bits()) - 1;
  uint8_t used = 0;
  for (const uint8_t scale : q_.scales) used |= scale;
  if ((used & ~known) != 0)
    throw Error(fmt::format("{}: a scale of rows {} to {} has a sign, which {} has not", name_, first, first + count,
                            row_of(scale_table, q_.spec.scale).name));
  const int64_t run = rows_ / static_cast<int64_t>(factors_.size());
  q_.tensor_scale = {factors_[static_cast<size_t>(first / run)]};
  backend_.dequantize(q_, out, threads);
}

void WeightReader::read_codes(int64_t first, int64_t count) {
  q_.rows = count;
  q_.cols = cols_;
  q_.geometry = geometry_of(q_.spec, count, cols_);
  q_.codes.resize(static_cast<size_t>(count * cols_ / 2));
  q_.scales.resize(static_cast<size_t>(count * cols_ / scheme_->block));
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
  read(*scales_, q_.scales, cols_ / scheme_->block);
}

void WeightReader::read_blocks(int64_t first, int64_t count) {
  stored_.resize(static_cast<size_t>(count) * gguf_row_bytes_);
  gguf_->read(gguf_offset_ + static_cast<uint64_t>(first) * gguf_row_bytes_, stored_.data(), stored_.size());
  if (blocks_ == GgufValues::q8_0) return;
  q_.rows = count;
  q_.cols = cols_;
  q_.geometry = geometry_of(q_.spec, count, cols_);
  q_.codes.resize(static_cast<size_t>(count * cols_ / 2));
  q_.scales.resize(static_cast<size_t>(count * cols_ / scheme_->block));
  const uint8_t* from = stored_.data();
  uint8_t *codes = q_.codes.data(), *scales = q_.scales.data();
  const int parts = gguf_block(blocks_).scales, half = scheme_->block / 2;
  for (int64_t b = 0; b < count * cols_ / (parts * scheme_->block); ++b) {
    std::memcpy(scales, from, static_cast<size_t>(parts));
    scales += parts;
    from += parts;
    for (int part = 0; part < parts; ++part, from += half, codes += half) join_halves(from, half, codes);
  }
}

}  // namespace fp4
