// A forward product as a recipe's `calls` have it (calls.h), and what a log of forward products notes of it.
#include <algorithm>

#include "sim/engine/product.h"
#include "sim/rules/calls.h"
#include "sim/tape/forward_log.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

static Tensor rows_of(Tensor t, int first, int count) { return {t.row(first), count, t.cols}; }

static MatrixView rows_of(MatrixView m, int64_t first, int64_t count) {
  m.data += first * m.row_stride, m.rows = count;
  return m;
}

// Of an operand with so many rows.
static int rows_of_call(const Pass& pass, const Layer& layer, int rows) {
  const bool cuts = !pass.training && pass.quantise && layer.calls.rows > 0;
  return std::max(1, cuts ? std::min(layer.calls.rows, rows) : rows);
}

void called_product(const ProductCall& p) {
  const auto& [whole_a, b] = p.x;
  const bool is_plain = p.layer.products[0].is_plain();
  const Quantized* ready_b = p.ready[1];
  if (!is_plain && ready_b == nullptr) ready_b = &p.quantized(1, b);
  const int rows = static_cast<int>(whole_a.rows), cols = static_cast<int>(b.rows);
  const int step = rows_of_call(p.tape.pass, p.layer, rows);
  for (int first = 0; first < rows; first += step) {
    const int count = std::min(step, rows - first);
    const MatrixView a = rows_of(whole_a, first, count);
    float* const c = p.c + first * p.c_row;
    const Quantized* const ready_a = is_plain ? nullptr : &p.quantized(0, a);
    const int64_t k = is_plain ? a.cols : ready_a->cols;  // with the Hadamard's padding
    const int64_t unit = is_plain ? 16 : unit_of_k(ready_a->spec, ready_b->spec);
    int64_t begin = 0;
    for (const int64_t end : part_ends(k, unit, p.layer.calls.parts_of(count))) {
      const Tensor sum = begin == 0 ? Tensor{c, count, cols} : p.tape.arena.tensor(count, cols);
      if (is_plain)
        multiply(p.tape, sum.data, sum.cols, {a.data + begin, a.row_stride, a.col_stride},
                 {b.data + begin, b.col_stride, b.row_stride}, count, cols, static_cast<int>(end - begin));
      else if (end - begin == k)
        p.backend.host.gemm(*ready_a, *ready_b, p.options(), sum.data, sum.cols);
      else
        p.backend.host.gemm(columns_of(*ready_a, begin, end), columns_of(*ready_b, begin, end), p.options(), sum.data,
                            sum.cols);
      if (begin > 0) add_to(p.tape, c, p.c_row, sum);
      begin = end;
    }
  }
}

Tensor as_multiplied(const Dispatcher& backend, Tape& tape, const Layer& layer, OperandPlace at, Tensor x) {
  Tensor out;
  Quantized q;
  const int step = at.operand == 0 ? rows_of_call(tape.pass, layer, x.rows) : std::max(1, x.rows);
  for (int first = 0; first < x.rows; first += step) {
    const Tensor rows = rows_of(x, first, std::min(step, x.rows - first));
    backend.quantize(layer.call(tape.pass, at, view(rows)), q);
    if (out.data == nullptr) out = tape.arena.tensor(x.rows, static_cast<int>(q.cols));
    backend.dequantize(q, out.row(first), tape.pass.threads);
  }
  return out;
}

void note(const Dispatcher& backend, Tape& tape, const Layer& layer, int part, Tensor x, Tensor w, Tensor y) {
  Tensor a = x, b = w;
  const LayerProduct& planned = layer.products[0];
  if (layer.treatment != Layer::Treatment::plain && !planned.is_plain() && !planned.spec.split.any() && x.rows > 0) {
    const CalibratedWeights* const calibrated = layer.calibrated.get();
    a = as_multiplied(backend, tape, layer, {part, Gemm::fprop, 0},
                      calibrated ? calibrated->smoothed(tape.arena, x) : x);
    if (calibrated) {
      b = tape.arena.tensor(w.rows, static_cast<int>(calibrated->codes.cols));
      backend.dequantize(calibrated->codes, b.data, tape.pass.threads);
    } else {
      b = as_multiplied(backend, tape, layer, {part, Gemm::fprop, 1}, w);
    }
  }
  tape.pass.log->product(layer.name, part, x, a, b, y);
}

}  // namespace fp4::sim
