// A forward product as a recipe's `calls` have it (calls.h), and what a log of forward products notes of it.
#include <algorithm>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/calls.h"
#include "sim/rules/split.h"
#include "sim/tape/forward_log.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

namespace {

Tensor rows_of(Tensor t, int first, int count) { return {t.row(first), count, t.cols}; }

MatrixView rows_of(MatrixView m, int64_t first, int64_t count) {
  m.data += first * m.row_stride, m.rows = count;
  return m;
}

}  // namespace

int LinearEngine::rows_of_call(const Tape& tape, const Layer& layer, int rows) const {
  const bool cuts = calls_apart(layer) && !tape.pass.training && tape.pass.quantise && recipe_.calls.rows > 0;
  return cuts ? std::min(recipe_.calls.rows, rows) : rows;
}

void LinearEngine::called_product(const ProductCall& p) {
  Tape& tape = p.tape;
  Layer& layer = p.layer;
  const Product& planned = layer.products[0];
  const GemmSpec& s = planned.spec;
  const Quantized* ready_b = p.ready_b;
  if (!planned.is_plain && ready_b == nullptr) {
    quantize(tape, layer, p.gemm, 1, call_of(tape, layer, p.part, p.gemm, 1, p.b), layer.scratch_b);
    ready_b = &layer.scratch_b;
  }
  const GemmOptions options = {s.accumulator, s.hadamard.product_divisor(), tape.pass.threads};
  const int rows = static_cast<int>(p.a.rows), cols = static_cast<int>(p.b.rows);
  const int step = std::max(1, rows_of_call(tape, layer, rows));
  for (int first = 0; first < rows; first += step) {
    const int count = std::min(step, rows - first);
    const MatrixView a = rows_of(p.a, first, count);
    float* const c = p.c + first * p.c_row;
    int64_t k = a.cols;
    if (!planned.is_plain) {
      quantize(tape, layer, p.gemm, 0, call_of(tape, layer, p.part, p.gemm, 0, a), layer.scratch);
      k = layer.scratch.cols;  // with the Hadamard's padding
    }
    const int64_t unit = planned.is_plain ? 16 : unit_of_k(layer.scratch.spec, ready_b->spec);
    int64_t begin = 0;
    for (const int64_t end : part_ends(k, unit, recipe_.calls.parts_of(count))) {
      const Tensor sum = begin == 0 ? Tensor{c, count, cols} : tape.arena.tensor(count, cols);
      if (planned.is_plain)
        multiply(tape, sum.data, sum.cols, {a.data + begin, a.row_stride, a.col_stride},
                 {p.b.data + begin, p.b.col_stride, p.b.row_stride}, count, cols, static_cast<int>(end - begin));
      else if (end - begin == k)
        backend_.gemm(layer.scratch, *ready_b, options, sum.data, sum.cols);
      else
        backend_.gemm(columns_of(layer.scratch, begin, end), columns_of(*ready_b, begin, end), options, sum.data,
                      sum.cols);
      if (begin > 0) add_to(tape, c, p.c_row, sum);
      begin = end;
    }
  }
}

Tensor LinearEngine::as_multiplied(Tape& tape, Layer& layer, Part part, int operand, Tensor x) {
  Tensor out;
  Quantized q;
  const int step = std::max(1, operand == 0 ? rows_of_call(tape, layer, x.rows) : x.rows);
  for (int first = 0; first < x.rows; first += step) {
    const Tensor rows = rows_of(x, first, std::min(step, x.rows - first));
    backend_.quantize(call_of(tape, layer, part, Gemm::fprop, operand, view(rows)), q);
    if (out.data == nullptr) out = tape.arena.tensor(x.rows, static_cast<int>(q.cols));
    backend_.dequantize(q, out.row(first), tape.pass.threads);
  }
  return out;
}

void LinearEngine::note(Tape& tape, Layer& layer, Part part, Tensor x, Tensor w, Tensor y) {
  Tensor a = x, b = w;
  const Product& planned = layer.products[0];
  if (layer.treatment != Treatment::plain && !planned.is_plain && !planned.spec.split.any() && x.rows > 0) {
    const CalibratedWeights* const calibrated = layer.calibrated.get();
    a = as_multiplied(tape, layer, part, 0, calibrated ? calibrated->smoothed(tape.arena, x) : x);
    if (calibrated) {
      b = tape.arena.tensor(w.rows, static_cast<int>(calibrated->codes.cols));
      backend_.dequantize(calibrated->codes, b.data, tape.pass.threads);
    } else {
      b = as_multiplied(tape, layer, part, 1, w);
    }
  }
  tape.pass.log->product(layer.name, part.index, x, a, b, y);
}

}  // namespace fp4::sim
