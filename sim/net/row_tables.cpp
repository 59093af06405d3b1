#include "sim/net/row_tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fp4/rng.h"
#include "sim/net/layers.h"

namespace fp4::sim {

namespace {

constexpr int random_bits = 16;

// Counted down from 2^25 - 2, which no layer reaches (quantized_linear.h: fewer than 2^25 layers and parts).
RandomPlace place_of(int table, const TableStep& step) {
  const auto layer = static_cast<uint32_t>((1 << 25) - 2 - table);
  return {step.seed, stream_number(layer, 0, 0, Purpose::rounding), step.step};
}

// The rows as they read once they have been stored.
void round_rows(const TableRules& rules, Rounding mode, RandomPlace place, const Dispatcher& backend, Tensor rows) {
  if (rules.format == RowFormat::fp32 || rows.rows == 0) return;
  RowTable stored;
  encode_rows(rules.format, view_of(rows.data, rows.rows, rows.cols), {mode, random_bits, place}, backend, stored);
  decode_rows(stored, backend, rows.data);
}

}  // namespace

void store_tables(Parameters& parameters, const Dispatcher& backend) {
  for (int i = 0; i < parameters.count(); ++i)
    if (const TableRules* rules = parameters.table_rules(i); rules != nullptr && rules->is_stored())
      round_rows(*rules, Rounding::nearest_even, {}, backend, parameters.value(i));
}

bool update_tables(Parameters& parameters, const Kernels& k, const Dispatcher& backend, float* squares,
                   const TableStep& step, TableScratch& scratch) {
  auto& [changed, rows] = scratch;
  bool is_finite = true;
  for (int i = 0; i < parameters.count(); ++i) {
    const TableRules* rules = parameters.table_rules(i);
    if (rules == nullptr) continue;
    const Tensor table = parameters.value(i);
    const float* gradient = parameters.gradient(i);
    float* h = squares + (table.data - parameters.values());
    const float lr = step.lr * rules->rate;
    changed.clear();
    rows.clear();
    changed.reserve(static_cast<size_t>(table.rows));
    rows.reserve(static_cast<size_t>(table.size()));
    for (int r = 0; r < table.rows; ++r) {
      const float* g = gradient + int64_t{r} * table.cols;
      if (std::all_of(g, g + table.cols, [](float x) { return x == 0; })) continue;
      float& square = h[int64_t{r} * table.cols];
      square += k.dot(g, g, table.cols) * (step.gradient_scale * step.gradient_scale) / static_cast<float>(table.cols);
      const float factor = lr / (std::sqrt(square) + step.eps) * step.gradient_scale;
      changed.push_back(r);
      for (int c = 0; c < table.cols; ++c) rows.push_back(table.row(r)[c] - g[c] * factor);
    }
    const Tensor updated = {rows.data(), static_cast<int>(changed.size()), table.cols};
    if (rules->is_stored()) {
      const Rounding mode = rules->update == RowUpdate::stochastic ? Rounding::stochastic : Rounding::nearest_even;
      round_rows(*rules, mode, place_of(i, step), backend, updated);
    }
    is_finite &= k.all_finite(rows.data(), updated.size());
    for (size_t r = 0; r < changed.size(); ++r)
      std::copy_n(updated.row(static_cast<int>(r)), table.cols, table.row(changed[r]));
  }
  return is_finite;
}

Var embedding_bags(Tape& tape, const Dispatcher& backend, BagOrder order, const TableRules& rules, Bags bags, int side,
                   Var table) {
  const int cols = table->value.cols;
  const int32_t begin = bags.first[0], n = bags.first[bags.count] - begin;
  Var y = tape.variable(static_cast<int>(bags.count) / side, side * cols, true);
  if (tape.pass.quantise && rules.update == RowUpdate::master && rules.format != RowFormat::fp32) {
    const Tensor rows = tape.arena.tensor(n, cols);
    int32_t* own = tape.arena.take<int32_t>(n);  // the i-th id names the i-th of the rows that were read
    for (int32_t i = 0; i < n; ++i) {
      std::copy_n(table->value.row(bags.ids[begin + i]), cols, rows.row(i));
      own[i] = i;
    }
    round_rows(rules, Rounding::nearest_even, {}, backend, rows);
    embedding_bag(order, rows.data, cols, {own - begin, bags.first, bags.count}, y->value.data);
  } else {
    embedding_bag(order, table->value.data, cols, bags, y->value.data);
  }
  tape.record(y, {table}, [=](Tape& t, float* g) {
    std::memset(g, 0, sizeof(float) * static_cast<size_t>(table->value.size()));
    for (int64_t b = 0; b < bags.count; ++b)
      for (int32_t i = bags.first[b]; i < bags.first[b + 1]; ++i)
        t.k.add(g + int64_t{bags.ids[i]} * cols, y->grad + b * cols, cols);
  });
  return y;
}

}  // namespace fp4::sim
