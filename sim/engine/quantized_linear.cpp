// The three products of a linear layer under a recipe; see quantized_linear.h. Backward of the estimators stands in
// estimator_gradient.cpp.
#include "sim/engine/quantized_linear.h"

#include "sim/engine/estimator_gradient.h"
#include "src/text/error.h"

namespace fp4::sim {

static void count_inputs(Layer& layer, const PostTraining& ptq, Tensor x) {
  if (!ptq.any() || layer.is_product || !layer.is_quantised() || layer.products[0].is_plain()) return;
  if (!layer.inputs) layer.inputs = std::make_unique<InputStatistics>(x.cols, ptq);
  layer.inputs->count(x);
}

void LinearEngine::product(const ProductCall& p) {
  LayerProduct& planned = p.layer.products[static_cast<size_t>(p.gemm)];
  planned.count += p.tape.pass.training && p.part == 0;
  compute(p);
  if (phases_.noise.counts() && p.gemm == Gemm::wgrad && !planned.is_plain()) phases_.noise.add(p);
}

Var LinearEngine::forward(Tape& tape, int number, Var x, Var w, Var bias, bool relu, int part,
                          const ForwardApart& apart) {
  if (part >= LayerOperands::most_parts || (part > 0 && number >= LayerOperands::part_stride))
    throw Error("more than 32768 products of a layer, or 1024 layers: fewer sequences or heads are needed");
  Layer& layer = layers_[static_cast<size_t>(number)];
  if (calibrates_) count_inputs(layer, recipe_.ptq, x->value);
  const Pass& pass = tape.pass;
  const int rows = x->value.rows, out = w->value.rows;  // a product brings its own sizes
  const bool records = x->needs_grad || w->needs_grad || (bias && bias->needs_grad);
  Var y = apart.y != nullptr || apart.only_backward ? tape.variable(Tensor{apart.y, rows, out}, records)
                                                    : tape.variable(rows, out, records);
  const MaskedWeights weights = masked(tape.arena, layer.sparse, w->value);
  SavedForward saved = {x, w, bias, y, relu, weights.values};
  if (!layer.is_product) layer.weights.weight = w->value;
  bool multiplies = !apart.only_backward;
  SplitUse use;
  ProductCall p = {backend_, tape, layer, part, Gemm::fprop, {view(x->value), view(weights.values)}};
  p.c_row = out, p.split = &use;
  if (pass.quantise && !pass.training && layer.calibrated) {
    p.x[0] = view(layer.calibrated->smoothed(tape.arena, x->value));
    p.ready[1] = &layer.calibrated->codes;
  } else if (pass.quantise && p.way != ProductWay::called) {
    save_operands(p, saved, apart.y == nullptr, apart.is_latest);
    if (needs_columns(layer, x->value, weights)) p.sparse = &weights;
    multiplies = multiplies || use.decoded[0] != nullptr || use.decoded[1] != nullptr;
  }
  saved.of_wgrad = apart.of_wgrad;
  std::vector<LackingOperand> lacking;
  Quantized made[2];
  if (multiplies) add_lacking(p, lacking, made);
  if (apart.of_wgrad != nullptr && !apart.only_backward)
    lacking.push_back({layer.call(pass, {part, Gemm::wgrad, 1}, view(x->value).transposed()), apart.of_wgrad});
  backend_.quantize_together(lacking);
  if (multiplies) {
    if (y->value.data == nullptr) y->value = tape.floats.tensor(rows, out);
    p.c = y->value.data;
    // Traces and logs are of products without a bias.
    if (bias && !relu && !apart.only_backward && backend_.resident != nullptr && pass.trace == nullptr &&
        pass.log == nullptr && p.way == ProductWay::whole)
      p.bias = bias->value.data;
    product(p);
  }
  saved.channels = use.channels;
  if (pass.log != nullptr) note(backend_.host, tape, layer, part, x->value, weights.values, y->value);
  if (bias && !apart.only_backward && p.bias == nullptr)
    (relu ? tape.k.bias_relu : tape.k.add_bias)(y->value.data, bias->value.data, rows, out);
  tape.record(y, [this, &layer, part, saved](Tape& t) { backward(t, layer, part, saved); });
  return y;
}

// One backward product: straight into the gradient, or through fprop's rotated basis and its estimator.
void LinearEngine::gradient(ProductCall& p, int operand, const SavedForward& saved, bool is_rotated) {
  Tape& tape = p.tape;
  const Var target = operand == 0 ? saved.x : saved.w;
  const GemmSpec& f = p.layer.spec(Gemm::fprop);
  const EstimatorSpec& estimator = (operand == 0 ? f.a : f.b).estimator;
  const int rows = target->value.rows, in = target->value.cols;
  float* const sum = tape.new_gradient(target);
  if (estimator.is_straight_through() && !is_rotated) {
    p.c = sum, p.c_row = in;
    product(p);
  } else {
    const Tensor raw = tape.floats.tensor(rows, is_rotated ? static_cast<int>(hadamard_padded(f.hadamard, in)) : in);
    p.c = raw.data, p.c_row = raw.cols;
    product(p);
    const QuantizeCall call = p.layer.call(tape.pass, {p.part, Gemm::fprop, operand}, view(target->value));
    const SavedOperand& own = saved.of[operand];
    estimator_gradient(tape, backend_.host,
                       {estimator, f.hadamard, call.place.hadamard_signs(), call.soft_alpha, own.met, own.quantized},
                       raw, is_rotated, {sum, rows, in});
  }
  tape.add_gradient(target, sum);
}

void LinearEngine::backward(Tape& tape, Layer& layer, int part, const SavedForward& saved) {
  const Tensor dy = {saved.y->grad, saved.y->value.rows, saved.y->value.cols};
  if (saved.bias && saved.bias->needs_grad) {
    float* const sums = tape.new_gradient(saved.bias);
    if (saved.relu)  // y's gradient has no other reader
      tape.k.bias_relu_backward(dy.data, sums, saved.y->value.data, dy.rows, dy.cols);
    else
      tape.k.column_sums(sums, dy.data, dy.rows, dy.cols);
    tape.add_gradient(saved.bias, sums);
  }
  const GemmSpec &f = layer.spec(Gemm::fprop), &g = layer.spec(Gemm::wgrad);
  const Tensor x = saved.of[0].decoded, w = saved.of[1].decoded;
  const bool needs_x = saved.x->needs_grad, needs_w = saved.w->needs_grad;
  const MatrixView w_transposed = view(w.data ? w : saved.weights).transposed();
  const MatrixView x_transposed = view(x.data ? x : saved.x->value).transposed();
  ProductCall of_x = {backend_, tape, layer, part, Gemm::dgrad, {view(dy), w_transposed}};
  ProductCall of_w = {backend_, tape, layer, part, Gemm::wgrad, {view(dy).transposed(), x_transposed}};
  SplitUse use;
  if (f.split.kind == g.split.kind && f.split.share == g.split.share) use.channels = saved.channels;
  of_w.ready[1] = saved.of_wgrad, of_w.split = &use;
  if (needs_x) of_x.ready[1] = turned_weights(layer, part);
  std::vector<LackingOperand> lacking;
  Quantized made[4];
  if (needs_x) add_lacking(of_x, lacking, made);
  if (needs_w) add_lacking(of_w, lacking, made + 2);
  backend_.quantize_together(lacking);
  if (needs_x) gradient(of_x, 0, saved, w.data && f.hadamard.size > 0);
  if (needs_w) gradient(of_w, 1, saved, x.data && f.hadamard.size > 0);
}

}  // namespace fp4::sim
