// Decides: what is done to the weights of a trained network before it is judged under a recipe (`ptq`).
//   smooth (SmoothQuant 2211.10438)   X / s and W * s with s_k = max|X_k|^alpha / max|W_k|^(1 - alpha) for the
//     input channel k, both in fp32; 1 where a maximum is 0. The gain of a norm before the layer can take 1/s
//   codes: gptq (2210.17323)   block and tensor scales are those of W; then its columns are rounded one after
//     another to the nearest decoded value, and the columns that follow make up for the error as H = X^T X says
// Both read `batches` batches of the training through the network in fp32. A Hadamard of fprop comes after smoothing
// and before codes, so that gptq with a Hadamard of the block's size is MR-GPTQ (2509.23202).
#pragma once

#include <vector>

#include "fp4/axis.h"
#include "fp4/backend.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

enum class WeightCodes : uint8_t { nearest, gptq };
enum class ColumnOrder : uint8_t { activation, stored };

inline constexpr AxisRow<WeightCodes> weight_codes_table[] = {
    {WeightCodes::nearest, "nearest", "each weight by itself, as the recipe rounds", "2004.09602"},
    {WeightCodes::gptq, "gptq", "column by column, later columns make up for errors", "GPTQ 2210.17323"},
};
inline constexpr AxisRow<ColumnOrder> column_order_table[] = {
    {ColumnOrder::activation, "activation", "columns with the largest inputs first", "act-order of GPTQ's code"},
    {ColumnOrder::stored, "stored", "first to last", "2210.17323"},
};
static_assert(ids_are_indices(weight_codes_table) && ids_are_indices(column_order_table));

struct PostTraining {
  WeightCodes codes = WeightCodes::nearest;
  float smooth = 0;  // alpha; 0: none
  ColumnOrder order = ColumnOrder::activation;
  float damping = 0.01f;  // of the mean diagonal of H, added to it
  int batches = 8;
  bool any() const { return codes != WeightCodes::nearest || smooth > 0; }
  friend bool operator==(const PostTraining&, const PostTraining&) = default;
};

/// {"codes", "smooth", "order", "damping", "batches"} laid over `start`, and back; dead fields are left out.
PostTraining post_training_from(const JsonReader& given, PostTraining start);
Json post_training_to(const PostTraining& ptq);

/// s of SmoothQuant from the largest magnitudes of X's columns and W [rows, largest_x.size()].
std::vector<float> smoothing_factors(const std::vector<float>& largest_x, const float* w, int64_t rows, float alpha);

/// Replaces the codes of `q`, which holds w [q.rows, q.cols] rounded in some way, by those of GPTQ; scales stay. h:
/// H [q.cols, q.cols], symmetric. In fp64: with H + damping * mean(diag H) * 1 = L L^T and its inverse U^T U, column k
/// takes the nearest decoded value d (halfway: the even code), and the columns j after it become w_j - (w_k - d) U_kj /
/// U_kk. A column without inputs has H_kk = 1. Columns of equal H_kk keep their order; elements of more than 8 bits and
/// blocks with a NaN scale keep their codes.
void gptq(const float* w, std::vector<double> h, double damping, ColumnOrder order, Quantized& q);

}  // namespace fp4::sim
