// Decides: tables whose rows are read and updated one by one (embedding tables), in the formats of
// src/backends/embedding_rows.h.
//   update master                    the table is fp32; its rows are rounded to nearest even where they are read
//          nearest_even, stochastic  the table is kept in the format: a row that changes is read, updated in fp32 and
//                                    stored again with this rounding, and nothing else remembers it
// A step changes the rows that have a gradient, by row-wise Adagrad (FBGEMM rowwise_sparse_adagrad), whatever optimizer
// the other parameters have:  h += mean(g^2) of the row;  w -= lr * g / (sqrt(h) + eps), without weight decay.
// Stochastic rounding has 16 random bits; number c of the i-th changed row of a step, rows ascending, takes draw
// i * columns + c.
#pragma once

#include <vector>

#include "sim/tape/autograd.h"
#include "src/backends/embedding_rows.h"

namespace fp4::sim {

class Parameters;

enum class RowUpdate : uint8_t { master, nearest_even, stochastic };
struct RowUpdateInfo {
  RowUpdate id;
  const char* name;
};
inline constexpr RowUpdateInfo row_update_table[] = {
    {RowUpdate::master, "master"}, {RowUpdate::nearest_even, "nearest_even"}, {RowUpdate::stochastic, "stochastic"}};
static_assert(ids_are_indices(row_update_table));

struct TableRules {
  RowFormat format = RowFormat::fp32;
  RowUpdate update = RowUpdate::master;
  float rate = 1.0f;  // times the learning rate
  bool is_stored() const { return update != RowUpdate::master && format != RowFormat::fp32; }
};

/// What a step of the optimizer gives to tables.
struct TableStep {
  float lr, eps, gradient_scale;
  uint64_t seed;
  uint32_t step;
};

/// Room for the rows that a step changes, kept from step to step.
struct TableScratch {
  std::vector<int> changed;
  std::vector<float> rows;
};

/// Rounds the rows of every table that is kept in its format, once they have their initial values.
void store_tables(Parameters& parameters, const Dispatcher& backend);

/// One step over all tables; h of a row lies in `squares` where the row's first number lies among the parameters.
/// Whether all new numbers are finite.
bool update_tables(Parameters& parameters, const Kernels& k, const Dispatcher& backend, float* squares,
                   const TableStep& step, TableScratch& scratch);

/// Sums of bags of a table's rows in `order`, `side` bags beside each other: [bags / side, side * columns]. Ids and
/// bounds as in src/backends/embedding_rows.h, in memory of the tape. A master table's rows are rounded to its format
/// first where the pass quantises.
Var embedding_bags(Tape& tape, const Dispatcher& backend, BagOrder order, const TableRules& rules, Bags bags, int side,
                   Var table);

}  // namespace fp4::sim
