#include "src/backends/embedding_rows.h"

#include <algorithm>

namespace fp4 {

namespace {

IntegerRow integer_row_of(int bits, const MatrixView& x, int64_t row) {
  float least = x.cols > 0 ? x.at(row, 0) : 0.0f, largest = least;
  for (int64_t c = 0; c < x.cols; ++c) {
    const float v = x.at(row, c);
    if (!is_finite(v)) return integer_row(bits, v, v);
    least = smaller(least, v);
    largest = larger(largest, v);
  }
  return integer_row(bits, least, largest);
}

QuantSpec spec_of(RowFormat format, const RowRounding& how) {
  QuantSpec spec = row_of(row_format_table, format).spec;
  spec.rounding = how.mode;
  spec.random_bits = how.random_bits;
  return spec;
}

// The largest and the smallest magnitude but 0 of a bag's numbers, as bits.
struct Span {
  uint32_t largest = 0;
  uint32_t smallest = float_infinity_bits;
};
Span magnitudes_of(const float* rows, int64_t cols, const int32_t* ids, int64_t n) {
  Span s;
  for (int64_t i = 0; i < n; ++i) {
    const float* row = rows + ids[i] * cols;
    for (int64_t c = 0; c < cols; ++c) {
      const uint32_t bits = magnitude_bits(row[c]);
      s.largest = std::max(s.largest, bits);
      s.smallest = std::min(s.smallest, bits == 0 ? float_infinity_bits : bits);
    }
  }
  return s;
}

bool exact_by_columns(const float* rows, int64_t cols, const int32_t* ids, int64_t n, float* out) {
  const Span s = magnitudes_of(rows, cols, ids, n);
  if (s.largest == 0) {
    std::fill_n(out, cols, 0.0f);
    return true;
  }
  // Every number is a multiple of 2^unit, and n of them stay below 2^62 units. Sums are at least 2^-126, so that the
  // last product is exact, and below 2^127.
  const int unit = static_cast<int>(s.smallest >> 23) - 150;
  const int top = static_cast<int>(s.largest >> 23) - 126 + floor_log2(static_cast<uint64_t>(n)) + 1;
  if (unit < -126 || top - unit > 62 || top > 127) return false;
  const double to_units = 1.0 / static_cast<double>(power_of_two(unit));
  const float of_unit = power_of_two(unit);
  constexpr int64_t width = 64;
  for (int64_t begin = 0; begin < cols; begin += width) {
    const int64_t end = std::min(begin + width, cols);
    int64_t sum[width] = {};
    for (int64_t i = 0; i < n; ++i) {
      const float* row = rows + ids[i] * cols;
      for (int64_t c = begin; c < end; ++c)
        sum[c - begin] += static_cast<int64_t>(static_cast<double>(row[c]) * to_units);
    }
    for (int64_t c = begin; c < end; ++c) out[c] = static_cast<float>(sum[c - begin]) * of_unit;
  }
  return true;
}

}  // namespace

void encode_rows(RowFormat format, const MatrixView& x, const RowRounding& how, const Dispatcher& backend,
                 RowTable& out) {
  out.format = format;
  out.rows = x.rows, out.cols = x.cols;
  if (!is_integer_row(format)) {
    QuantizeCall call = {.x = x, .spec = spec_of(format, how), .place = how.place};
    backend.quantize(call, out.stored);
    return;
  }
  const int bits = row_of(row_format_table, format).integer_bits;
  out.codes.resize(static_cast<size_t>(x.rows * x.cols));
  out.integer.resize(static_cast<size_t>(x.rows));
  std::vector<uint32_t> draws(is_stochastic(how.mode) ? static_cast<size_t>(x.cols) : 0);  // of a row
  for (int64_t r = 0; r < x.rows; ++r) {
    const IntegerRow row = out.integer[static_cast<size_t>(r)] = integer_row_of(bits, x, r);
    random_draws(how.place, static_cast<uint64_t>(r * x.cols), how.random_bits, draws.data(), draws.size());
    for (int64_t c = 0; c < x.cols; ++c) {
      const RoundingDraw draw = {how.mode, how.random_bits, draws.empty() ? 0u : draws[static_cast<size_t>(c)]};
      out.codes[static_cast<size_t>(r * x.cols + c)] = static_cast<uint8_t>(integer_code(bits, row, x.at(r, c), draw));
    }
  }
}

void decode_rows(const RowTable& table, const Dispatcher& backend, float* out) {
  if (!is_integer_row(table.format)) return backend.dequantize(table.stored, out);
  for (int64_t r = 0; r < table.rows; ++r)
    for (int64_t c = 0; c < table.cols; ++c) {
      const int64_t at = r * table.cols + c;
      out[at] = integer_value(table.integer[static_cast<size_t>(r)], table.codes[static_cast<size_t>(at)]);
    }
}

void bag_by_reference(BagOrder order, const float* rows, int64_t cols, const int32_t* ids, int64_t n, float* out) {
  for (int64_t c = 0; c < cols; ++c) {
    BagSum sum(order);
    for (int64_t i = 0; i < n; ++i) sum.add(rows[ids[i] * cols + c]);
    out[c] = sum.result();
  }
}

bool bag_by_columns(BagOrder order, const float* rows, int64_t cols, const int32_t* ids, int64_t n, float* out) {
  if (order == BagOrder::exact) return n > 0 && exact_by_columns(rows, cols, ids, n, out);
  std::fill_n(out, cols, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = rows + ids[i] * cols;
    for (int64_t c = 0; c < cols; ++c) out[c] += row[c];
  }
  for (int64_t c = 0; c < cols; ++c) out[c] = canonical(out[c]);
  return true;
}

void embedding_bag(BagOrder order, const float* rows, int64_t cols, const Bags& bags, float* out) {
  for (int64_t b = 0; b < bags.count; ++b) {
    const int32_t* ids = bags.ids + bags.first[b];
    const int64_t n = bags.first[b + 1] - bags.first[b];
    float* sum = out + b * cols;
    if (!bag_by_columns(order, rows, cols, ids, n, sum)) bag_by_reference(order, rows, cols, ids, n, sum);
  }
}

void embedding_bag(BagOrder order, const RowTable& table, const Bags& bags, const Dispatcher& backend, float* out) {
  if (order == BagOrder::fused && is_integer_row(table.format)) {
    for (int64_t b = 0; b < bags.count; ++b)
      for (int64_t c = 0; c < table.cols; ++c) {
        BagSum sum(order);
        for (int32_t i = bags.first[b]; i < bags.first[b + 1]; ++i) {
          const auto row = static_cast<size_t>(bags.ids[i]), cols = static_cast<size_t>(table.cols);
          sum.add(table.integer[row], table.codes[row * cols + static_cast<size_t>(c)]);
        }
        out[b * table.cols + c] = sum.result();
      }
    return;
  }
  std::vector<float> rows(static_cast<size_t>(table.rows * table.cols));
  decode_rows(table, backend, rows.data());
  embedding_bag(order, rows.data(), table.cols, bags, out);
}

}  // namespace fp4
