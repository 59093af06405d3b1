#include "sim/engine/saved_operands.h"

namespace fp4::sim {

namespace {

// Quantising the transpose anew gives the transposed codes, if no random bits, no order of summation and no smooth
// maximum, which is fprop's alone, are involved.
bool transposes_by_itself(const OperandSpec& o) {
  const QuantSpec& s = o.quant;
  return !s.draws_random_bits() && !is_quest(s.scale_rule) && !tries_codes(s.scale_rule) &&
         !is_soft_maximum(o.estimator.scale_gradient);
}

// Square blocks, the same spec, no rotation.
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

ForwardCodes& codes_of(Layer& layer, int part) {
  while (layer.parts.size() <= static_cast<size_t>(part)) layer.parts.emplace_back();
  return layer.parts[static_cast<size_t>(part)];
}

// An operand of fprop that is to be quantised once, for the product and for what backward needs of it.
SavedOperand save(const ProductCall& p, int operand, Tensor x, LackingOperand& lacking) {
  Tape& tape = p.tape;
  Quantized& q = codes_of(p.layer, p.part)[static_cast<size_t>(operand)];
  SavedOperand saved = {&q, x, {}};
  QuantizeCall call = p.call(operand, view(x));
  const bool estimates = !(operand == 0 ? p.spec().a : p.spec().b).estimator.is_straight_through();
  if (estimates && call.hadamard.size > 0) {
    saved.met = tape.floats.tensor(x.rows, static_cast<int>(hadamard_padded(call.hadamard, x.cols)));
    p.backend.host.hadamard(call.x, call.hadamard, call.place.hadamard_signs(), false, saved.met.data,
                            tape.pass.threads);
    call.x = view(saved.met);
    call.hadamard = {};
  }
  lacking = p.lacking(operand, call, q);
  return saved;
}

}  // namespace

void save_operands(ProductCall& p, SavedForward& saved, bool decodes, bool is_there) {
  const bool training = p.tape.pass.training;
  const GemmSpec &f = p.spec(), &d = p.layer.spec(Gemm::dgrad), &g = p.layer.spec(Gemm::wgrad);
  const bool reads_x = training && g.b.source == Source::fprop_quantised;
  const bool reads_w = training && saved.x->needs_grad && d.b.source == Source::fprop_quantised;
  const bool splits[2] = {f.split.any(), !keeps_b_whole(f.split)};
  const bool reads[2] = {reads_x, reads_w};
  const bool keeps[2] = {
      reads_x || (training && !f.a.estimator.is_straight_through()),
      reads_w || p.layer.weights.has_average() ||
          (training && (!f.b.estimator.is_straight_through() || (shares_weights(f, d) && !transposes_by_itself(f.b))))};
  LackingOperand lacking[2];
  size_t count = 0;
  for (const int operand : {0, 1})
    if (!splits[operand] && keeps[operand])
      saved.of[operand] = save(p, operand, operand == 0 ? saved.x->value : saved.weights, lacking[count++]);
  if (!is_there) p.backend.quantize_together({lacking, count});
  for (const int operand : {0, 1}) {
    SavedOperand& own = saved.of[operand];
    const Quantized* const q = p.ready[static_cast<size_t>(operand)] = own.quantized;
    if (q != nullptr && operand == 1 && !is_there) p.layer.weights.lean(codes_of(p.layer, p.part)[1]);
    if (!reads[operand] || !decodes) continue;
    if (splits[operand]) p.split->decoded[operand] = &own.decoded;
    if (q == nullptr) continue;
    own.decoded = p.tape.floats.tensor(static_cast<int>(q->rows), static_cast<int>(q->cols));
    p.backend.dequantize(*q, own.decoded.data, p.tape.pass.threads);
  }
}

const Quantized* turned_weights(Layer& layer, int part) {
  const GemmSpec &f = layer.spec(Gemm::fprop), &d = layer.spec(Gemm::dgrad);
  if (!shares_weights(f, d)) return nullptr;
  auto& held = layer.operands.held_amax;
  held[1][1] = held[0][1];  // one tensor scale for both uses
  if (transposes_by_itself(f.b) && !layer.weights.has_average()) return nullptr;
  ForwardCodes& own = codes_of(layer, part);
  gpu::fetch(own[1]);
  transpose(own[1], own[2]);
  return &own[2];
}

}  // namespace fp4::sim
