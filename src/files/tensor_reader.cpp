// Rows of one array: where they lie, how they become float32, how much is held at a time.
#include "src/files/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/files/dtype.h"
#include "src/files/large_pages.h"
#include "src/files/open_array.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::uint64_t kPanelBytes = 32u << 20;    // rows gathered at a time when they do not lie in file order
constexpr std::uint64_t kStagingBytes = 256 << 10;  // elements converted at a time; fits a level 2 cache

// numpy stores types that it does not know (bfloat16, fp8 and fp4 of ml_dtypes) as bytes without a meaning: what they
// are has to be said, since a guess would be a wrong answer without a word.
void name_opaque(StoredArray& array, const OpenOptions& options) {
  const unsigned bits = info(array.dtype).bits;
  const bool told_bfloat16 = options.uint16_is_bfloat16 && bits == 16;
  const std::optional<Dtype> told = told_bfloat16 ? Dtype::bf16 : options.opaque_dtype;
  if (told && info(*told).bits == bits) {
    array.dtype = *told;
    array.notes.push_back(
        fmt::format("{}: opaque type '{}' read as {}", array.bytes->name(), array.opaque, info(*told).name));
    return;
  }
  std::string accepted;
  for (const DtypeInfo& row : dtype_table())
    if (row.bits == bits && row.kind != DtypeKind::integer) accepted += fmt::format("--dtype {}, ", row.name);
  throw Error(fmt::format(
      "{}: the type '{}' says the width of an element ({} bytes) and not what it is (numpy writes "
      "types of ml_dtypes so){}; say it: {}{}--dtype u{}",
      array.bytes->name(), array.opaque, bits / 8, told ? fmt::format("; {} has another width", info(*told).name) : "",
      bits == 16 ? "--bf16, " : "", accepted, bits));
}

// The size of a whole result, before anything of it is allocated.
std::size_t checked_size(const TensorReader& reader, std::uint64_t bits, std::uint64_t max_bytes) {
  const std::uint64_t elements = element_count(reader.name(), reader.shape());
  if (elements > max_bytes / bits * 8)
    throw Error(fmt::format("{}: {} elements would take more than the {} bytes allowed here", reader.name(), elements,
                            max_bytes));
  return static_cast<std::size_t>(elements);
}

}  // namespace

OpenOptions open_options_of(const std::string& dtype, const std::string& shape, const std::string& entry,
                            bool uint16_is_bfloat16) {
  OpenOptions options = {.entry = entry, .uint16_is_bfloat16 = uint16_is_bfloat16};
  if (dtype.empty() && !shape.empty()) throw Error("--dtype and --shape describe a raw file together: give both");
  if (shape.empty() && !dtype.empty()) options.opaque_dtype = parse_dtype("--dtype", dtype);
  if (!shape.empty()) {
    options.raw_dtype = parse_dtype("--dtype", dtype);
    options.raw_shape = parse_shape("--shape", shape);
  }
  return options;
}

TensorReader::TensorReader(const std::string& path, const OpenOptions& options) {
  PathAndEntry at = {path, options.entry};
  if (options.entry.empty() && !options.raw_dtype) at = split_entry(path);
  OpenOptions of_entry = options;
  of_entry.entry = at.entry;
  *this = TensorReader(open_file(at.path), of_entry);
}

TensorReader::TensorReader(Bytes bytes, const OpenOptions& options) : array_(open_array(bytes, options)) {
  prepare(options);
}

void TensorReader::prepare(const OpenOptions& options) {
  if (!array_.opaque.empty()) {
    name_opaque(array_, options);
  } else if (options.opaque_dtype && *options.opaque_dtype != array_.dtype) {
    throw Error(
        fmt::format("{}: holds {}, --dtype says {}; without --shape it names the elements of opaque numpy types",
                    name(), info(array_.dtype).name, info(*options.opaque_dtype).name));
  } else if (options.uint16_is_bfloat16 && array_.dtype == Dtype::u16) {
    array_.dtype = Dtype::bf16;
    array_.notes.push_back(fmt::format("{}: uint16 read as bfloat16", name()));
  }
  rows_ = matrix_rows(array_.shape);
  cols_ = matrix_cols(array_.shape);
  const unsigned bits = info(array_.dtype).bits;
  if (cols_ * bits % 8 != 0)  // cannot overflow: byte_count() bounds it
    throw Error(
        fmt::format("{}: rows of {} {} elements do not fill whole bytes", name(), cols_, info(array_.dtype).name));
  if (!array_.fortran_order || array_.shape.size() < 2) return;
  if (bits < 8) throw Error(fmt::format("{}: packed elements in Fortran order", name()));
  array_.bytes->verify();  // rows will be taken out of file order
  axes_ = file_axes(array_, false);
}

std::size_t TensorReader::row_bytes() const { return static_cast<std::size_t>(cols_ * info(array_.dtype).bits / 8); }

void TensorReader::transpose() {
  if (info(array_.dtype).bits < 8)
    throw Error(
        fmt::format("{}: packed {} elements cannot be transposed; unpack them first", name(), info(array_.dtype).name));
  transposed_ = !transposed_;
  std::swap(rows_, cols_);
  panel_count_ = 0;
  array_.bytes->verify();
  axes_ = file_axes(array_, transposed_);
  // The transpose of a Fortran-ordered matrix lies in C order, and so does anything transposed twice.
  const bool plain = transposed_ ? array_.fortran_order && array_.shape.size() == 2 : !array_.fortran_order;
  if (plain) axes_.clear();
}

// Elements as they stand in the file (perhaps big endian).
void TensorReader::read_stored(std::uint64_t first, std::uint64_t count, unsigned char* out) {
  if (first > rows_ || count > rows_ - first)
    throw Error(fmt::format("{}: rows {} to {} of {}", name(), first, first + count, rows_));
  const std::uint64_t bytes = row_bytes();
  if (bytes == 0 || count == 0) return;
  if (axes_.empty())
    return array_.bytes->read(array_.offset + first * bytes, out, static_cast<std::size_t>(count * bytes));
  while (count != 0) {
    if (first < panel_first_ || first >= panel_first_ + panel_count_) {
      panel_first_ = first;
      panel_count_ = std::min(rows_ - first, std::max<std::uint64_t>(1, kPanelBytes / bytes));
      panel_.resize(static_cast<std::size_t>(panel_count_ * bytes));
      gather_rows(array_, axes_, cols_, panel_first_, panel_count_, panel_.data());
    }
    const std::uint64_t rows = std::min(count, panel_first_ + panel_count_ - first);
    std::memcpy(out, panel_.data() + (first - panel_first_) * bytes, static_cast<std::size_t>(rows * bytes));
    out += rows * bytes;
    first += rows;
    count -= rows;
  }
}

void TensorReader::read_raw(std::uint64_t first, std::uint64_t count, void* out) {
  read_stored(first, count, static_cast<unsigned char*>(out));
  if (!array_.big_endian) return;
  // A complex element is two numbers, each with its own byte order.
  const std::size_t width = array_.dtype == Dtype::c64 ? 4 : info(array_.dtype).bits / 8;
  swap_bytes(out, width, static_cast<std::size_t>(count) * row_bytes() / width);
}

void TensorReader::read_rows(std::uint64_t first, std::uint64_t count, float* out) {
  const DtypeInfo& type = info(array_.dtype);
  if (type.kind == DtypeKind::code)
    throw Error(
        fmt::format("{}: holds {} codes, not values; decode them first, or give float32, float16, bfloat16, float64",
                    name(), type.safetensors));
  if (array_.dtype == Dtype::f32) return read_raw(first, count, out);
  if (!noted_) {
    noted_ = true;
    if (array_.dtype == Dtype::f64)
      array_.notes.push_back(fmt::format("{}: float64 rounded to float32 (nearest even)", name()));
    if (type.kind == DtypeKind::integer)
      array_.notes.push_back(fmt::format("{}: {} read as values{}", name(), type.numpy_name,
                                         type.bits > 16 ? ", rounded to float32 (nearest even)" : ""));
  }
  if (cols_ == 0) return read_raw(first, count, out);
  // Whole rows while they fit the staging buffer; a longer row is staged alone.
  const std::uint64_t step = std::max<std::uint64_t>(1, kStagingBytes / row_bytes());
  std::vector<unsigned char> staging(static_cast<std::size_t>(std::min(step, count)) * row_bytes());
  while (count != 0) {
    const std::uint64_t rows = std::min(count, step);
    read_raw(first, rows, staging.data());
    to_float32(array_.dtype, staging.data(), static_cast<std::size_t>(rows * cols_), out);
    out += rows * cols_;
    first += rows;
    count -= rows;
  }
}

FloatTensor load_floats(const std::string& path, const OpenOptions& options, std::uint64_t max_bytes) {
  TensorReader reader(path, options);
  auto values = large_vector<float>(checked_size(reader, 32, max_bytes));
  reader.read_rows(0, reader.rows(), values.data());
  return {reader.shape(), std::move(values), reader.notes()};
}

RawTensor load_raw(const std::string& path, const OpenOptions& options, std::uint64_t max_bytes) {
  TensorReader reader(path, options);
  const std::uint64_t bits = info(reader.dtype()).bits;
  auto bytes = large_vector<unsigned char>(checked_size(reader, bits, max_bytes) * bits / 8);
  reader.read_raw(0, reader.rows(), bytes.data());
  return {reader.dtype(), reader.shape(), std::move(bytes), reader.notes()};
}

}  // namespace fp4
