#include "src/backends/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/text/error.h"

namespace fp4 {
namespace {

// Which of a row's groups of `width` elements, in steps of `step`, keep two of four; false: not all do.
bool keeps_two_of_four(const float* row, int64_t cols, int step, std::vector<int32_t>& kept) {
  for (int64_t first = 0; first < cols; first += 4 * step) {
    int count = 0;
    for (int i = 0; i < 4; ++i) {
      const float* at = row + first + i * step;
      const bool keeps = std::any_of(at, at + step, [](float v) { return v != 0.0f; });
      if (step == 2 && keeps && (at[0] == 0.0f || at[1] == 0.0f)) return false;
      if (!keeps) continue;
      for (int j = 0; j < step; ++j) kept.push_back(static_cast<int32_t>(first + i * step + j));
      ++count;
    }
    if (count != 2) return false;
  }
  return true;
}

bool has_blocks(const QuantSpec& s) {
  return s.has_scale() && (s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square);
}

QuantSpec half_blocks(const QuantSpec& s, const char* which) {
  check_sparse(s, std::string("sparse product: ") + which);
  QuantSpec out = s;
  if (has_blocks(s)) out.block = {BlockKind::vector, s.block.size / 2};
  return out;
}

// Rows of `q` at the columns of K that are kept.
Quantized kept_of(const Quantized& q, int64_t first_row, int64_t rows, const int32_t* columns, int64_t count,
                  const QuantSpec& spec) {
  Quantized out = {.spec = spec, .rows = rows, .cols = count, .geometry = geometry_of(spec, rows, count)};
  out.codes.assign(static_cast<size_t>(rows * out.code_row_bytes()), 0);
  const auto scales = static_cast<size_t>(out.geometry.scale_rows * out.geometry.scale_cols);
  out.scales.assign(q.scales.empty() ? 0 : scales, 0);
  out.real_scales.assign(q.real_scales.empty() ? 0 : scales, 0.0f);
  out.amax = q.amax;
  out.tensor_scale = q.tensor_scale;
  if (spec.tensor_scale_cols(q.cols) != 0)  // one a row
    out.tensor_scale.assign(q.tensor_scale.begin() + first_row, q.tensor_scale.begin() + first_row + rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = columns[i];
      out.set_code(r, i, q.code(first_row + r, k));
      if (!spec.has_scale()) continue;
      const auto from = static_cast<size_t>(q.scale_index(first_row + r, k)),
                 to = static_cast<size_t>(out.scale_index(r, i));
      if (!q.scales.empty()) out.scales[to] = q.scales[from];
      if (!q.real_scales.empty()) out.real_scales[to] = q.real_scales[from];
    }
  }
  return out;
}

// An operand at the columns that row after row of the other one keeps. Masks of one pattern keep as many of every
// block, so scales stay where they are, and only codes are gathered, from an operand that is taken apart once.
class KeptColumns {
 public:
  KeptColumns(const Quantized& q, const QuantSpec& spec) : q_(q), spec_(spec) {
    is_short_ = q.code_bits() <= 8;
    if (!is_short_) return;
    codes_.reserve(static_cast<size_t>(q.rows * q.cols));
    for (int64_t r = 0; r < q.rows; ++r) {
      const uint8_t* row = q.codes.data() + r * q.code_row_bytes();
      for (int64_t k = 0; k < q.cols; ++k)
        codes_.push_back(q.is_packed() ? static_cast<uint8_t>(row[k / 2] >> 4 * (k % 2) & 0xF) : row[k]);
    }
  }

  const Quantized& at(const int32_t* columns, int64_t count) {
    if (!is_short_ || kept_.cols != count || count == 0) {
      kept_ = kept_of(q_, 0, q_.rows, columns, count, spec_);
      return kept_;
    }
    const bool is_packed = kept_.is_packed();
    const int64_t row_bytes = kept_.code_row_bytes(), pairs = is_packed ? count / 2 : 0;
    for (int64_t r = 0; r < q_.rows; ++r) {
      const uint8_t* from = codes_.data() + r * q_.cols;
      uint8_t* to = kept_.codes.data() + r * row_bytes;
      for (int64_t i = 0; i < pairs; ++i)
        to[i] = static_cast<uint8_t>(from[columns[2 * i]] | from[columns[2 * i + 1]] << 4);
      for (int64_t i = 2 * pairs; i < count; ++i) to[is_packed ? i / 2 : i] = from[columns[i]];
    }
    return kept_;
  }

 private:
  const Quantized& q_;
  QuantSpec spec_;
  bool is_short_ = false;
  std::vector<uint8_t> codes_;
  Quantized kept_;
};

}  // namespace

void check_sparse(const QuantSpec& s, const std::string& which) {
  if (s.has_outer_scale()) throw Error(which + " has tensor_scale outer128, which counts K");
  if (has_blocks(s) && s.block.size < 16)
    throw Error(fmt::format("{} has blocks of {}; at least 16 of K are needed", which, s.block.size));
}

SparseMask sparse_mask(const std::string& place, const std::vector<float>& values, int64_t value_cols, int64_t rows,
                       int64_t cols) {
  if (cols % 8 != 0) throw Error(fmt::format("{}: K = {} is no multiple of 8", place, cols));
  const int step = value_cols == cols / 4 ? 1 : value_cols == cols / 8 ? 2 : 0;
  if (static_cast<int64_t>(values.size()) != rows * value_cols || (step == 0 && value_cols != cols))
    throw Error(
        fmt::format("{}: {} values in rows of {}; A is {}x{}: {} a row for a mask, {} for indices of elements, {} "
                    "for indices of pairs",
                    place, values.size(), value_cols, rows, cols, cols, cols / 4, cols / 8));
  SparseMask mask = {rows, cols, {}};
  mask.kept.reserve(static_cast<size_t>(rows * cols / 2));
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = values.data() + r * value_cols;
    if (step == 0) {
      const size_t before = mask.kept.size();
      if (keeps_two_of_four(row, cols, 1, mask.kept)) continue;
      mask.kept.resize(before);
      if (!keeps_two_of_four(row, cols, 2, mask.kept))
        throw Error(
            fmt::format("{}: row {} keeps neither two of every four elements nor two of every four pairs", place, r));
      continue;
    }
    for (int64_t i = 0; i < value_cols; ++i) {
      const auto word = static_cast<int>(row[i]);
      const int first = word & 3, second = word >> 2;
      if (static_cast<float>(word) != row[i] || second > 3 || first >= second)
        throw Error(fmt::format("{}: {} at row {}, column {} is no i | j << 2 with i < j < 4", place, row[i], r, i));
      for (const int at : {first, second})
        for (int j = 0; j < step; ++j) mask.kept.push_back(static_cast<int32_t>((4 * i + at) * step + j));
    }
  }
  return mask;
}

int64_t largest_of_row(Sparsity sparsity, const float* row, int64_t cols, int32_t* kept) {
  const int64_t width = row_of(sparsity_table, sparsity).width;
  int64_t count = 0;
  for (int64_t first = 0; first < cols; first += 4 * width) {
    const auto end_of = [&](int64_t unit) { return std::min(cols, first + (unit + 1) * width); };
    // Magnitudes, of pairs their sums: rounded to fp64, and what the rounding left, so that sums compare exactly.
    double sizes[4] = {}, rests[4] = {};
    int units = 0;
    for (; units < 4 && first + units * width < cols; ++units)
      for (int64_t k = first + units * width; k < end_of(units); ++k) {
        const double before = sizes[units],
                     v = static_cast<double>(is_nan(row[k]) ? float_of(float_infinity_bits) : magnitude(row[k]));
        sizes[units] = before + v;
        rests[units] = std::isinf(sizes[units]) ? 0 : std::min(before, v) - (sizes[units] - std::max(before, v));
      }
    const auto comes_before = [&](int j, int i) {
      if (sizes[j] != sizes[i]) return sizes[j] > sizes[i];
      return rests[j] != rests[i] ? rests[j] > rests[i] : j < i;
    };
    for (int i = 0; i < units; ++i) {
      int ahead = 0;
      for (int j = 0; j < units; ++j) ahead += j != i && comes_before(j, i);
      for (int64_t k = first + i * width; ahead < 2 && k < end_of(i); ++k) kept[count++] = static_cast<int32_t>(k);
    }
  }
  return count;
}

SparseMask largest_kept(const std::string& place, Sparsity sparsity, const std::vector<float>& values, int64_t rows,
                        int64_t cols) {
  if (sparsity == Sparsity::none || cols % 8 != 0)
    throw Error(fmt::format("{}: K = {} is no multiple of 8", place, cols));
  SparseMask mask = {rows, cols, std::vector<int32_t>(static_cast<size_t>(rows * cols / 2))};
  for (int64_t r = 0; r < rows; ++r)
    largest_of_row(sparsity, values.data() + r * cols, cols, mask.kept.data() + r * (cols / 2));
  return mask;
}

std::vector<uint8_t> metadata_of(const SparseMask& mask, Sparsity sparsity) {
  const auto width = static_cast<size_t>(row_of(sparsity_table, sparsity).width);
  std::vector<uint8_t> out;
  for (size_t at = 0; at < mask.kept.size(); at += 2 * width) {
    const auto place = [&](size_t i) { return static_cast<uint32_t>(mask.kept[i]) / static_cast<uint32_t>(width) % 4; };
    out.push_back(static_cast<uint8_t>(place(at) | place(at + width) << 2));
  }
  return out;
}

void clear_others(const int32_t* kept, int64_t count, int64_t cols, float* row) {
  const int32_t* end = kept + count;
  for (int64_t k = 0; k < cols; ++k) {
    if (kept != end && *kept == k) {
      ++kept;
    } else {
      row[k] = 0.0f;
    }
  }
}

void clear_others(const SparseMask& mask, std::vector<float>& values) {
  for (int64_t r = 0; r < mask.rows; ++r)
    clear_others(mask.row(r), mask.cols / 2, mask.cols, values.data() + r * mask.cols);
}

void sparse_gemm(const Dispatcher& backend, const Quantized& a, const Quantized& b, const SparseMask& mask,
                 const GemmOptions& options, float* c, int64_t c_stride) {
  const QuantSpec spec_a = half_blocks(a.spec, "A"), spec_b = half_blocks(b.spec, "B");
  const int64_t count = mask.cols / 2;
  KeptColumns columns(b, spec_b);
  for (int64_t r = 0; r < a.rows; ++r) {
    const Quantized row = kept_of(a, r, 1, mask.row(r), count, spec_a);
    backend.gemm(row, columns.at(mask.row(r), count), options, c + r * c_stride, c_stride);
  }
}

void gemm_of_sparse_b(const Dispatcher& backend, const Quantized& a, const Quantized& b,
                      const std::vector<int32_t>& kept, const std::vector<int64_t>& ends, const GemmOptions& options,
                      float* c, int64_t c_stride) {
  const QuantSpec spec_a = half_blocks(a.spec, "A"), spec_b = half_blocks(b.spec, "B");
  KeptColumns columns(a, spec_a);
  for (int64_t r = 0; r < b.rows; ++r) {
    const int64_t begin = r == 0 ? 0 : ends[static_cast<size_t>(r - 1)], count = ends[static_cast<size_t>(r)] - begin;
    const int32_t* const own = kept.data() + begin;
    backend.gemm(columns.at(own, count), kept_of(b, r, 1, own, count, spec_b), options, c + r, c_stride);
  }
}

bool zeros_are_absent(const Accumulator& row, const QuantSpec& a, const QuantSpec& b, bool tame) {
  const bool scaled = a.has_scale() && b.has_scale(), unscaled = !a.has_scale() && !b.has_scale();
  switch (row.kind) {
    case AccumulatorKind::block: return scaled || tame;
    case AccumulatorKind::group: return row.group == 0 && (scaled || tame);
    case AccumulatorKind::sequential:
    case AccumulatorKind::sequential_double: return unscaled && tame && row.rounding == Rounding::nearest_even;
    case AccumulatorKind::fma: return tame;
    default: return false;
  }
}

}  // namespace fp4
