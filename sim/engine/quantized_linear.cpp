// The three products of a linear layer under a recipe; see quantized_linear.h. Backward of the estimators stands in
// estimator_gradient.cpp.
#include "sim/engine/quantized_linear.h"

#include <cmath>

#include "fp4/presets.h"
#include "sim/engine/estimator_gradient.h"
#include "sim/tape/ops.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

// Quantising the transpose anew gives the transposed codes, if no random bits, no order of summation and no smooth
// maximum, which is fprop's alone, are involved.
bool transposes_by_itself(const OperandSpec& o) {
  const QuantSpec& s = o.quant;
  return !s.draws_random_bits() && !is_quest(s.scale_rule) && !tries_codes(s.scale_rule) &&
         !is_soft_maximum(o.estimator.scale_gradient);
}

// Whether dgrad's b is the transpose of fprop's b, codes and scales: square blocks, the same spec, no rotation.
bool shares_weights(const GemmSpec& fprop, const GemmSpec& dgrad) {
  return fprop.b.quant == dgrad.b.quant && fprop.b.quant.has_scale() && fprop.b.quant.block.kind == BlockKind::square &&
         dgrad.b.source == Source::high_precision && keeps_b_whole(fprop.split) && keeps_b_whole(dgrad.split) &&
         fprop.hadamard.size == 0 && dgrad.hadamard.size == 0;
}

// 2-D blocks: codes, scales and tensor scale of the transpose, element by element.
void transpose(const Quantized& q, Quantized& t) {
  t.spec = q.spec;
  t.rows = q.cols, t.cols = q.rows;
  t.geometry = geometry_of(t.spec, t.rows, t.cols);
  t.codes.assign(static_cast<size_t>(t.rows * t.code_row_bytes()), 0);
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t c = 0; c < t.cols; ++c) t.set_code(r, c, q.code(c, r));
  const int64_t rows = t.geometry.scale_rows, cols = t.geometry.scale_cols;
  const auto flip = [&](const auto& from, auto& to) {
    to.resize(from.size());
    if (from.empty()) return;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        to[static_cast<size_t>(r * cols + c)] = from[static_cast<size_t>(c * rows + r)];
  };
  flip(q.scales, t.scales);
  flip(q.real_scales, t.real_scales);
  t.tensor_scale = q.tensor_scale;
  t.amax = q.amax;
}

}  // namespace

// A forward operand that backward needs, in fprop's rotated basis.
struct LinearEngine::Kept {
  const Quantized* quantized = nullptr;
  Tensor met;      // as the quantiser met it, where an estimator asks for it
  Tensor decoded;  // where a source asks for it
};

struct LinearEngine::Saved {
  Var x, w, bias, y;
  bool relu;
  Tensor weights;  // as fprop met them: w, or with the zeros of a mask
  Kept kept_x, kept_w;
  Channels channels;  // of a split by channels
  const Quantized* of_wgrad = nullptr;
};

bool LinearEngine::samples_amax(const Tape& tape, const QuantSpec& q) const {
  return q.has_tensor_scale() && q.tensor_scale == TensorScale::hold && tape.pass.training &&
         (tape.pass.step - 1) % static_cast<uint32_t>(q.hold_steps) == 0;
}

QuantizeCall LinearEngine::call_of(Tape& tape, const Layer& layer, Part part, Gemm gemm, int operand,
                                   MatrixView x) const {
  const GemmSpec& s = spec(layer, gemm);
  const OperandSpec& o = operand == 0 ? s.a : s.b;
  QuantizeCall call;
  call.x = x;
  call.spec = o.quant;
  call.hadamard = s.hadamard;
  call.place = random_place(tape.pass, part, gemm, operand, Purpose::rounding);
  if (!samples_amax(tape, o.quant))
    call.held_amax = layer.held_amax[static_cast<size_t>(gemm)][static_cast<size_t>(operand)];
  if (gemm == Gemm::fprop && is_soft_maximum(o.estimator.scale_gradient)) call.soft_alpha = o.estimator.alpha;
  call.threads = tape.pass.threads;
  return call;
}

void LinearEngine::quantize(Tape& tape, Layer& layer, Gemm gemm, int operand, const QuantizeCall& call,
                            Quantized& out) {
  if (resident_ != nullptr)
    resident_->quantize(call, out);
  else
    backend_.quantize(call, out);
  if (samples_amax(tape, call.spec))
    layer.held_amax[static_cast<size_t>(gemm)][static_cast<size_t>(operand)] = out.amax;
}

void LinearEngine::trace(const ProductCall& p) const {
  if (p.tape.pass.trace == nullptr || p.part.index != 0 || p.layer.treatment == Treatment::plain) return;
  p.tape.pass.trace->product(p.tape, backend_,
                             {p.layer.name,
                              gemm_names[static_cast<size_t>(p.gemm)],
                              spec(p.layer, p.gemm),
                              call_of(p.tape, p.layer, p.part, p.gemm, 0, p.a),
                              call_of(p.tape, p.layer, p.part, p.gemm, 1, p.b),
                              p.ready_a,
                              p.ready_b,
                              {p.c, static_cast<int>(p.a.rows), static_cast<int>(p.b.rows)}});
}

LinearEngine::Way LinearEngine::way_of(const Pass& pass, const Product& planned) const {
  return !pass.quantise ? &LinearEngine::plain_product : pass.training ? planned.trained : planned.judged;
}

void LinearEngine::product(const ProductCall& p) {
  Product& planned = p.layer.products[static_cast<size_t>(p.gemm)];
  planned.count += p.tape.pass.training && p.part.index == 0;
  (this->*way_of(p.tape.pass, planned))(p);
  if (noise_.counts() && p.gemm == Gemm::wgrad && !planned.is_plain)
    noise_.add(backend_, call_of(p.tape, p.layer, p.part, p.gemm, 0, p.a),
               call_of(p.tape, p.layer, p.part, p.gemm, 1, p.b), p.c, p.c_row);
}

void LinearEngine::plain_product(const ProductCall& p) {
  multiply(p.tape, p.c, p.c_row, {p.a.data, p.a.row_stride, p.a.col_stride}, {p.b.data, p.b.col_stride, p.b.row_stride},
           static_cast<int>(p.a.rows), static_cast<int>(p.b.rows), static_cast<int>(p.a.cols));
}

void LinearEngine::whole_product(const ProductCall& p) {
  const GemmSpec& s = spec(p.layer, p.gemm);
  MultiplyCall call;
  call.a = call_of(p.tape, p.layer, p.part, p.gemm, 0, p.a);
  call.b = call_of(p.tape, p.layer, p.part, p.gemm, 1, p.b);
  call.options = {s.accumulator, s.hadamard.product_divisor(), p.tape.pass.threads};
  call.c = p.c, call.c_stride = p.c_row;
  const auto ready = [&](int operand, const Quantized* given, const QuantizeCall& q, Quantized& scratch) {
    if (given != nullptr || !samples_amax(p.tape, q.spec)) return given;
    quantize(p.tape, p.layer, p.gemm, operand, q, scratch);
    return static_cast<const Quantized*>(&scratch);
  };
  call.ready_a = ready(0, p.ready_a, call.a, p.layer.scratch);
  call.ready_b = ready(1, p.ready_b, call.b, p.layer.scratch_b);
  if (resident_ == nullptr)
    backend_.multiply(call);
  else if (!resident_->multiply_with_bias(call, p.bias))
    throw Error("gpu: " + p.layer.name + ": a product that the device does not know; --backend auto does",
                Error::failed);
}

// Quantises an operand of fprop once, for the product and for what backward needs of it.
LinearEngine::Kept LinearEngine::keep(Tape& tape, Layer& layer, Part part, int operand, Tensor x, bool decodes,
                                      bool is_there) {
  const GemmSpec& f = spec(layer, Gemm::fprop);
  const bool estimates = !(operand == 0 ? f.a : f.b).estimator.is_straight_through();
  Quantized& q = operand == 0 ? layer.at(part.index).x : layer.at(part.index).w;
  Kept kept = {&q, x, {}};
  QuantizeCall call = call_of(tape, layer, part, Gemm::fprop, operand, view(x));
  if (estimates && call.hadamard.size > 0) {
    kept.met = tape.floats.tensor(x.rows, static_cast<int>(hadamard_padded(call.hadamard, x.cols)));
    backend_.hadamard(call.x, call.hadamard, call.place.hadamard_signs(), false, kept.met.data, tape.pass.threads);
    call.x = view(kept.met);
    call.hadamard = {};
  }
  if (!is_there) {
    quantize(tape, layer, Gemm::fprop, operand, call, q);
    if (operand == 1) layer.weights.lean(q);
  }
  if (decodes) {
    kept.decoded = tape.floats.tensor(static_cast<int>(q.rows), static_cast<int>(q.cols));
    if (resident_ != nullptr)
      resident_->dequantize(q, kept.decoded.data, tape.pass.threads);
    else
      backend_.dequantize(q, kept.decoded.data, tape.pass.threads);
  }
  return kept;
}

void LinearEngine::keep_operands(const ProductCall& p, Saved& saved, const Apart& apart) {
  Tape& tape = p.tape;
  Layer& layer = p.layer;
  const bool training = tape.pass.training;
  const GemmSpec &f = spec(layer, Gemm::fprop), &d = spec(layer, Gemm::dgrad), &g = spec(layer, Gemm::wgrad);
  const bool reads_x = training && g.b.source == Source::fprop_quantised;
  const bool reads_w = training && saved.x->needs_grad && d.b.source == Source::fprop_quantised;
  const bool decode_x = reads_x && apart.y == nullptr, decode_w = reads_w && apart.y == nullptr;
  const bool splits_x = f.split.any(), splits_w = !keeps_b_whole(f.split);
  const bool keep_x = !splits_x && (reads_x || (training && !f.a.estimator.is_straight_through()));
  const bool keep_w =
      !splits_w &&
      (reads_w || layer.weights.has_average() ||
       (training && (!f.b.estimator.is_straight_through() || (shares_weights(f, d) && !transposes_by_itself(f.b)))));
  if (keep_x) saved.kept_x = keep(tape, layer, p.part, 0, saved.x->value, decode_x, apart.is_latest);
  if (keep_w) saved.kept_w = keep(tape, layer, p.part, 1, saved.weights, decode_w, apart.is_latest);
  if (splits_x && decode_x) p.split->decoded[0] = &saved.kept_x.decoded;
  if (splits_w && decode_w) p.split->decoded[1] = &saved.kept_w.decoded;
}

void LinearEngine::count_inputs(Layer& layer, Tensor x) const {
  if (!calibrates_ || !recipe_.ptq.any() || layer.is_product || layer.treatment != Treatment::quantised ||
      layer.products[0].is_plain)
    return;
  if (!layer.inputs) layer.inputs = std::make_unique<InputStatistics>(x.cols, recipe_.ptq);
  layer.inputs->count(x);
}

// Operands that a device is to quantise for a product, but for those whose amax is being sampled. The host does it on
// the way.
void LinearEngine::add_lacking(ProductCall& p, std::vector<Lacking>& all) const {
  if (resident_ == nullptr || !p.tape.pass.quantise || p.layer.products[static_cast<size_t>(p.gemm)].is_plain) return;
  for (int operand = 0; operand < 2; ++operand) {
    const QuantizeCall call = call_of(p.tape, p.layer, p.part, p.gemm, operand, operand == 0 ? p.a : p.b);
    const Quantized*& ready = operand == 0 ? p.ready_a : p.ready_b;
    if (ready == nullptr && !samples_amax(p.tape, call.spec)) all.push_back({call, &ready});
  }
}

std::vector<Quantized> LinearEngine::quantize_together(const std::vector<Lacking>& all) const {
  std::vector<QuantizeCall> calls;
  for (const Lacking& one : all) calls.push_back(one.call);
  std::vector<Quantized> made(all.size());
  if (resident_ != nullptr)
    resident_->quantize_all(calls, made.data());
  else
    for (size_t i = 0; i < all.size(); ++i) backend_.quantize(calls[i], made[i]);
  for (size_t i = 0; i < all.size(); ++i) *all[i].ready = &made[i];
  return made;
}

Var LinearEngine::forward(Tape& tape, int number, Var x, Var w, Var bias, bool relu, int index, Apart apart) {
  const Part part = {number, index};
  if (index >= most_parts || (index > 0 && number >= part_stride))
    throw Error("more than 32768 products of a layer, or 1024 layers: fewer sequences or heads are needed");
  Layer& layer = layers_[static_cast<size_t>(number)];
  count_inputs(layer, x->value);
  const int rows = x->value.rows, out = w->value.rows;  // a product brings its own sizes
  const bool records = x->needs_grad || w->needs_grad || (bias && bias->needs_grad);
  Var y = apart.y != nullptr || apart.only_backward ? tape.variable(Tensor{apart.y, rows, out}, records)
                                                    : tape.variable(rows, out, records);
  const Masked weights = masked(tape.arena, layer, w->value);
  Saved saved = {x, w, bias, y, relu, weights.values, {}, {}, {}};
  if (!layer.is_product) layer.weights.weight = w->value;
  const bool is_judged = tape.pass.quantise && !tape.pass.training;
  bool multiplies = !apart.only_backward;
  SplitUse use;
  ProductCall p = {tape, layer, part, Gemm::fprop, view(x->value), view(weights.values), nullptr, out};
  p.split = &use;
  if (is_judged && layer.calibrated) {
    p.a = view(layer.calibrated->smoothed(tape.arena, x->value));
    p.ready_b = &layer.calibrated->codes;
  } else if (tape.pass.quantise && !(is_judged && calls_apart(layer))) {
    keep_operands(p, saved, apart);
    p.ready_a = saved.kept_x.quantized, p.ready_b = saved.kept_w.quantized;
    if (needs_columns(layer, x->value, weights)) p.sparse = &weights;
    multiplies = multiplies || use.decoded[0] != nullptr || use.decoded[1] != nullptr;
  }
  saved.of_wgrad = apart.of_wgrad;
  std::vector<Lacking> lacking;
  if (multiplies) add_lacking(p, lacking);
  if (apart.of_wgrad != nullptr && !apart.only_backward)
    lacking.push_back({call_of(tape, layer, part, Gemm::wgrad, 1, view(x->value).transposed()), &saved.of_wgrad});
  std::vector<Quantized> made = quantize_together(lacking);
  if (saved.of_wgrad != apart.of_wgrad) {
    *apart.of_wgrad = std::move(made.back());
    saved.of_wgrad = apart.of_wgrad;
  }
  if (multiplies) {
    if (y->value.data == nullptr) y->value = tape.floats.tensor(rows, out);
    p.c = y->value.data;
    const Pass& pass = tape.pass;  // traces and logs are of products without a bias
    if (bias && !relu && !apart.only_backward && resident_ != nullptr && pass.trace == nullptr && pass.log == nullptr &&
        way_of(pass, layer.products[0]) == &LinearEngine::whole_product)
      p.bias = bias->value.data;
    product(p);
    trace(p);
  }
  saved.channels = use.channels;
  if (tape.pass.log != nullptr) note(tape, layer, part, x->value, weights.values, y->value);
  if (bias && !apart.only_backward && p.bias == nullptr)
    (relu ? tape.k.bias_relu : tape.k.add_bias)(y->value.data, bias->value.data, rows, out);
  tape.record(y, [this, part, saved](Tape& t) { backward(t, part, saved); });
  return y;
}

// long: two products and the one way in which both end
void LinearEngine::backward(Tape& tape, Part part, const Saved& saved) {
  Layer& layer = layers_[static_cast<size_t>(part.number)];
  // names, not a structured binding: clang 14 cannot capture one in a lambda
  const auto& x = saved.x;
  const auto& w = saved.w;
  const auto& bias = saved.bias;
  const auto& y = saved.y;
  const Tensor decoded_x = saved.kept_x.decoded;
  const Tensor decoded_w = saved.kept_w.decoded;
  const int rows = x->value.rows, in = x->value.cols, out = w->value.rows;
  if (bias && bias->needs_grad) {
    float* g = tape.new_gradient(bias);
    if (saved.relu) {  // y's gradient has no other reader
      tape.k.bias_relu_backward(y->grad, g, y->value.data, rows, out);
    } else {
      tape.k.column_sums(g, y->grad, rows, out);
    }
    tape.add_gradient(bias, g);
  }
  const Tensor dy = {y->grad, rows, out};
  const GemmSpec &f = spec(layer, Gemm::fprop), &d = spec(layer, Gemm::dgrad), &g = spec(layer, Gemm::wgrad);

  // One backward product: straight into the gradient, or through fprop's rotated basis and its estimator.
  const auto finish = [&](Var target, int operand, bool is_rotated, ProductCall& p) {
    const auto compute = [&](float* c, int64_t c_row) {
      p.c = c, p.c_row = c_row;
      product(p);
      trace(p);
    };
    const OperandSpec& o = operand == 0 ? f.a : f.b;
    float* gradient = tape.new_gradient(target);
    if (o.estimator.is_straight_through() && !is_rotated) {
      compute(gradient, target->value.cols);
    } else {
      const int cols = is_rotated ? static_cast<int>(hadamard_padded(f.hadamard, in)) : in;
      Tensor raw = tape.floats.tensor(target->value.rows, cols);
      compute(raw.data, cols);
      const QuantizeCall call = call_of(tape, layer, part, Gemm::fprop, operand, view(target->value));
      const Kept& kept = operand == 0 ? saved.kept_x : saved.kept_w;
      estimator_gradient(
          tape, backend_,
          {o.estimator, f.hadamard, call.place.hadamard_signs(), call.soft_alpha, kept.met, kept.quantized}, raw,
          is_rotated, {gradient, target->value.rows, in});
    }
    tape.add_gradient(target, gradient);
  };

  const MatrixView w_transposed = view(decoded_w.data ? decoded_w : saved.weights).transposed();
  const MatrixView x_transposed = view(decoded_x.data ? decoded_x : x->value).transposed();
  SplitUse use;
  if (f.split.kind == g.split.kind && f.split.share == g.split.share) use.channels = saved.channels;
  ProductCall of_x = {tape, layer, part, Gemm::dgrad, view(dy), w_transposed, nullptr, 0};
  ProductCall of_w = {tape, layer, part, Gemm::wgrad, view(dy).transposed(), x_transposed, nullptr, 0};
  of_w.ready_b = saved.of_wgrad, of_w.split = &use;
  if (x->needs_grad && shares_weights(f, d)) {
    float* held = layer.held_amax[1].data();
    held[1] = layer.held_amax[0][1];  // one tensor scale for both uses
    if (!transposes_by_itself(f.b) || layer.weights.has_average()) {
      Layer::Operands& own = layer.at(part.index);
      gpu::fetch(own.w);
      transpose(own.w, own.w_transposed);
      of_x.ready_b = &own.w_transposed;
    }
  }
  std::vector<Lacking> lacking;
  if (x->needs_grad) add_lacking(of_x, lacking);
  if (w->needs_grad) add_lacking(of_w, lacking);
  const std::vector<Quantized> made = quantize_together(lacking);
  if (x->needs_grad) finish(x, 0, decoded_w.data && f.hadamard.size > 0, of_x);
  if (w->needs_grad) finish(w, 1, decoded_x.data && f.hadamard.size > 0, of_w);
}

}  // namespace fp4::sim
