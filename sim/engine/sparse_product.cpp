// A linear layer whose weights a recipe's `sparse` masks. Of every four weights (pairs) along fprop's K the
// two largest in magnitude count; the others are absent from fprop, on both sides, as on a matrix unit
// (src/backends/sparse.h), and zeros of dgrad, whose K is another axis, along which they have no pattern. The gradient
// of a weight is that of a dense layer, whether it counts or not: straight through (2102.04010). The mask is made anew
// in every forward pass, and it stays where a pass rounds nothing: it is part of the network.
#include <algorithm>
#include <cmath>

#include "sim/engine/product.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

// Magnitudes other than 0.
struct Magnitudes {
  float least = float_of(float_infinity_bits), largest = 0;
  bool finite = true;
};

Magnitudes magnitudes_of(Tensor t) {
  Magnitudes m;
  for (int64_t i = 0; i < t.size(); ++i) {
    const float v = std::fabs(t.data[i]);
    m.finite = m.finite && std::isfinite(v);
    if (v > 0) m.least = std::min(m.least, v), m.largest = std::max(m.largest, v);
  }
  return m;
}

}  // namespace

MaskedWeights masked(Arena& arena, Sparsity sparse, Tensor w) {
  MaskedWeights out = {w, {}, {}};
  if (sparse == Sparsity::none) return out;
  out.values = arena.tensor(w.rows, w.cols);
  std::fill_n(out.values.data, out.values.size(), 0.0f);
  std::vector<int32_t> columns(static_cast<size_t>(w.cols / 2 + 2));
  for (int r = 0; r < w.rows; ++r) {
    const int64_t count = largest_of_row(sparse, w.row(r), w.cols, columns.data());
    for (int64_t i = 0; i < count; ++i) {
      const int32_t k = columns[static_cast<size_t>(i)];
      out.values.row(r)[k] = w.row(r)[k];
      out.kept.push_back(k);
    }
    out.ends.push_back(static_cast<int64_t>(out.kept.size()));
  }
  return out;
}

bool needs_columns(const Layer& layer, Tensor x, const MaskedWeights& w) {
  if (layer.sparse == Sparsity::none) return false;
  const Magnitudes of_x = magnitudes_of(x), of_w = magnitudes_of(w.values);
  const bool tame = of_x.finite && of_w.finite &&
                    static_cast<double>(of_x.least) * static_cast<double>(of_w.least) >= 0x1p-96 &&
                    static_cast<double>(of_x.largest) * static_cast<double>(of_w.largest) <= 0x1p118;
  const GemmSpec& f = layer.spec(Gemm::fprop);
  return !zeros_are_absent(f.accumulator, f.a.quant, f.b.quant, tame);
}

void sparse_product(const ProductCall& p) {
  if (p.sparse == nullptr) return whole_product(p);
  Quantized own[2];
  const Quantized* q[2] = {p.ready[0], p.ready[1]};
  for (const int operand : {0, 1}) {
    if (q[operand] != nullptr) continue;
    const LackingOperand one = p.lacking(operand, p.call(operand), own[operand]);
    p.backend.quantize_together({&one, 1});
    q[operand] = &own[operand];
  }
  gemm_of_sparse_b(p.backend.host, *q[0], *q[1], p.sparse->kept, p.sparse->ends,
                   {p.spec().accumulator, 1.0f, p.tape.pass.threads}, p.c, p.c_row);
}

void check_sparsity(const Layer& layer, const TrainingRecipe& recipe) {
  if (layer.sparse == Sparsity::none) return;
  const GemmSpec& f = layer.spec(Gemm::fprop);
  const auto refuse = [&](const std::string& what) { throw Error("sparse: " + layer.name + ": " + what); };
  if (layer.is_product) refuse("has no weights of a linear layer; accepted: none");
  if (f.hadamard.size > 0) refuse("a Hadamard on fprop mixes weights that are kept with others; accepted: size 0");
  if (f.split.any()) refuse("an fprop of several parts; accepted: split none");
  if (layer.weights.rules.any()) refuse("averages, resets and ramps look at every weight; accepted: no `weights`");
  if (recipe.ptq.any()) refuse("`ptq` moves weights after the mask; accepted: no `ptq`");
  if (recipe.calls.any()) refuse("`calls` cuts dense products; accepted: no `calls`");
  if (f.a.quant.has_scale()) check_sparse(f.a.quant, "sparse: " + layer.name + ": fprop.a");
  if (f.b.quant.has_scale()) check_sparse(f.b.quant, "sparse: " + layer.name + ": fprop.b");
}

}  // namespace fp4::sim
