#include "sim/engine/product.h"

#include "sim/engine/trace.h"
#include "sim/tape/ops.h"
#include "src/text/error.h"

namespace fp4::sim {

static void plain_product(const ProductCall& p) {
  const auto& [a, b] = p.x;
  multiply(p.tape, p.c, p.c_row, {a.data, a.row_stride, a.col_stride}, {b.data, b.col_stride, b.row_stride},
           static_cast<int>(a.rows), static_cast<int>(b.rows), static_cast<int>(a.cols));
}

static constexpr std::array<void (*)(const ProductCall&), 5> ways = {plain_product, whole_product, split_product,
                                                                     sparse_product, called_product};

LackingOperand ProductCall::lacking(int operand, const QuantizeCall& call, Quantized& out) const {
  float& held = layer.operands.held_amax[static_cast<size_t>(gemm)][static_cast<size_t>(operand)];
  return {call, &out, samples_amax(tape.pass, call.spec) ? &held : nullptr};
}

const Quantized& ProductCall::quantized(int operand, MatrixView of) const {
  Quantized& out = layer.operands.scratch[operand];
  const LackingOperand one = lacking(operand, call(operand, of), out);
  backend.quantize_together({&one, 1});
  return out;
}

void compute(const ProductCall& p) {
  ways[static_cast<size_t>(p.way)](p);
  if (p.tape.pass.trace != nullptr && p.part == 0 && p.layer.treatment != Layer::Treatment::plain)
    p.tape.pass.trace->product(p);
}

void whole_product(const ProductCall& p) {
  MultiplyCall call = {p.call(0), p.call(1), p.options(), p.c, p.c_row, p.ready[0], p.ready[1]};
  if (call.ready_a == nullptr && samples_amax(p.tape.pass, call.a.spec)) call.ready_a = &p.quantized(0, p.x[0]);
  if (call.ready_b == nullptr && samples_amax(p.tape.pass, call.b.spec)) call.ready_b = &p.quantized(1, p.x[1]);
  if (p.backend.resident == nullptr)
    p.backend.host.multiply(call);
  else if (!p.backend.resident->multiply_with_bias(call, p.bias))
    throw Error("gpu: " + p.layer.name + ": a product that the device does not know; --backend auto does",
                Error::failed);
}

void add_lacking(ProductCall& p, std::vector<LackingOperand>& all, Quantized made[2]) {
  if (p.backend.resident == nullptr || p.way == ProductWay::plain) return;
  for (const int operand : {0, 1}) {
    const Quantized*& ready = p.ready[static_cast<size_t>(operand)];
    if (ready != nullptr) continue;
    all.push_back(p.lacking(operand, p.call(operand), made[operand]));
    all.back().ready = &ready;
  }
}

}  // namespace fp4::sim
