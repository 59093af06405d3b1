// A forward product as a recipe's `calls` have it (calls.h), and what a log of forward products notes of it.
#include <algorithm>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/calls.h"
#include "sim/rules/split.h"
#include "sim/tape/forward_log.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

namespace {

// C += the part, row by row.
void add_rows(const Tape& tape, float* c, int64_t c_row, Tensor part) {
  for (int r = 0; r < part.rows; ++r) tape.k.add(c + r * c_row, part.row(r), part.cols);
}

Tensor rows_of(Tensor t, int first, int count) { return {t.row(first), count, t.cols}; }

}  // namespace

bool LinearEngine::calls_apart(const Tape& tape, const Layer& layer) const {
  return recipe_.calls.any() && !layer.is_product && !tape.pass.training && tape.pass.quantise;
}

int LinearEngine::rows_of_call(const Tape& tape, const Layer& layer, int rows) const {
  return calls_apart(tape, layer) && recipe_.calls.rows > 0 ? std::min(recipe_.calls.rows, rows) : rows;
}

void LinearEngine::multiply_in_calls(Tape& tape, Layer& layer, Part part, Tensor x, Tensor w, const Quantized* ready_w,
                                     Tensor y) {
  const Product& planned = layer.products[0];
  const GemmSpec& s = planned.spec;
  const bool is_plain = layer.treatment == Treatment::plain || planned.is_plain;
  if (!is_plain && ready_w == nullptr) {
    quantize(tape, layer, Gemm::fprop, 1, call_of(tape, layer, part, Gemm::fprop, 1, view(w)), layer.scratch_b);
    ready_w = &layer.scratch_b;
  }
  const GemmOptions options = {s.accumulator, s.hadamard.product_divisor(), tape.pass.threads};
  const int step = std::max(1, rows_of_call(tape, layer, x.rows));
  for (int first = 0; first < x.rows; first += step) {
    const Tensor a = rows_of(x, first, std::min(step, x.rows - first));
    const Tensor c = rows_of(y, first, a.rows);
    int64_t k = x.cols;
    if (!is_plain) {
      quantize(tape, layer, Gemm::fprop, 0, call_of(tape, layer, part, Gemm::fprop, 0, view(a)), layer.scratch);
      k = layer.scratch.cols;  // with the Hadamard's padding
    }
    const int64_t unit = is_plain ? 16 : unit_of_k(layer.scratch.spec, ready_w->spec);
    int64_t begin = 0;
    for (const int64_t end : part_ends(k, unit, recipe_.calls.parts_of(a.rows))) {
      const Tensor sum = begin == 0 ? c : tape.arena.tensor(c.rows, c.cols);
      if (is_plain) {
        multiply(tape, sum.data, sum.cols, {a.data + begin, a.cols, 1}, {w.data + begin, 1, w.cols}, sum.rows, sum.cols,
                 static_cast<int>(end - begin));
      } else if (end - begin == k) {
        backend_.gemm(layer.scratch, *ready_w, options, sum.data, sum.cols);
      } else {
        backend_.gemm(columns_of(layer.scratch, begin, end), columns_of(*ready_w, begin, end), options, sum.data,
                      sum.cols);
      }
      if (begin > 0) add_rows(tape, c.data, c.cols, sum);
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
