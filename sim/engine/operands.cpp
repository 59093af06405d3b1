#include "sim/engine/operands.h"

namespace fp4::sim {

void EngineBackend::quantize_together(std::span<const LackingOperand> all) const {
  if (resident != nullptr) {
    std::vector<QuantizeCall> calls;
    for (const LackingOperand& one : all) calls.push_back(one.call);
    std::vector<Quantized> made(all.size());
    resident->quantize_all(calls, made.data());
    for (size_t i = 0; i < all.size(); ++i) *all[i].out = std::move(made[i]);
  }
  for (const LackingOperand& one : all) {
    if (resident == nullptr) host.quantize(one.call, *one.out);
    if (one.amax != nullptr) *one.amax = one.out->amax;
    if (one.ready != nullptr) *one.ready = one.out;
  }
}

bool samples_amax(const Pass& pass, const QuantSpec& q) {
  return q.has_tensor_scale() && q.tensor_scale == TensorScale::hold && pass.training &&
         (pass.step - 1) % static_cast<uint32_t>(q.hold_steps) == 0;
}

RandomPlace LayerOperands::draws(const Pass& pass, OperandPlace at, Purpose purpose) const {
  return {pass.seed,
          stream_number(static_cast<uint32_t>(layer + part_stride * at.part), static_cast<uint32_t>(at.gemm),
                        static_cast<uint32_t>(at.operand), purpose),
          pass.step};
}

QuantizeCall LayerOperands::call(const Pass& pass, const GemmSpec& s, OperandPlace at, MatrixView x) const {
  const OperandSpec& o = at.operand == 0 ? s.a : s.b;
  QuantizeCall call;
  call.x = x;
  call.spec = o.quant;
  call.hadamard = s.hadamard;
  call.place = draws(pass, at, Purpose::rounding);
  if (!samples_amax(pass, o.quant))
    call.held_amax = held_amax[static_cast<size_t>(at.gemm)][static_cast<size_t>(at.operand)];
  if (at.gemm == Gemm::fprop && is_soft_maximum(o.estimator.scale_gradient)) call.soft_alpha = o.estimator.alpha;
  call.threads = pass.threads;
  return call;
}

}  // namespace fp4::sim
