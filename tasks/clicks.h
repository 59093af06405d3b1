// Decides: the data of the task recommender: clicks by formula, or the user's file.
//   formula  ids by Zipf: P(id = i) ~ (i + 1)^-zipf, i < rows, for each of `pooling` ids of a bag; dense features
//   N(0,1).
//            A teacher has four hidden numbers v for each id of each table, N(0,1), so a bag has z = sum v /
//            sqrt(pooling), and the dense features x have z = W x / sqrt(dense), W ~ N(0,1). logit = click_bias + a
//            (sum over bags of u_t . z_t + sum over pairs of z_i . z_j), u ~ N(0,1), `a` so that the logit's SD is 1.5;
//            a click with probability sigmoid(logit).
//   file     CSV or tabs, no header, a line each: click 0 or 1, `dense` numbers, `tables` bags. A number x becomes
//            ln(1 + max(x, 0)), an empty one 0 (the preparation of DLRM's Criteo data); ids of a bag are texts with |
//            between them, each row FNV-1a(text) mod rows; an empty bag has no row and sums to 0. The last tenth of
//            the lines, at most 4,096, validates.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/rules/config.h"

namespace fp4::tasks {

/// Examples of `tables` bags each: bag t of example n has the ids bags[n * tables + t] .. of the next one.
struct ClickSet {
  std::vector<float> dense;     // [n, features]
  std::vector<int64_t> bags;    // [n * tables + 1], where each begins in ids
  std::vector<int32_t> ids;     // rows of the table of all tables: t * rows + id
  std::vector<int32_t> labels;  // 1: a click
  int count() const { return static_cast<int>(labels.size()); }
};

struct Clicks {
  ClickSet train, validation;
  std::vector<float> weights;  // of the training loss; empty: all 1
  double irreducible = 0;      // mean entropy of the validation set's clicks under the formula; 0 for a file
};

/// Of a canonical configuration whose data_seed was settled; shared by runs. `stop` is asked on the way, as
/// in_pieces asks it (sim/train/example_pool.h).
std::shared_ptr<const Clicks> clicks(const sim::Json& config, const std::function<bool()>& stop = {});

/// Reads a file as above. Throws Error that names file, line and column.
ClickSet read_clicks(const std::string& path, int dense, int tables, int rows);

/// -p ln p - (1 - p) ln(1 - p).
double entropy_of(double p);

/// Area under the ROC curve of scores, ties counting half; .5 without clicks or without others.
double area_under_curve(const std::vector<float>& scores, const std::vector<int32_t>& labels);

}  // namespace fp4::tasks
