// Decides: what --trace and `stats` measure of a product: per operand amax/rms, kurtosis, shares of clipped and
// underflowed elements and the quantisation error; per product the relative error against the fp32 product. Looks at
// a run and never changes it. Probes are other specs, tried on the tensors that the recipe met.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/autograd.h"
#include "sim/train.h"
#include "src/backends.h"

namespace fp4::sim {

class Trace {
 public:
  Trace(std::function<void(const TraceRow&)> sink, const std::vector<QuantSpec>& probes)
      : sink_(std::move(sink)), probes_(probes) {}

  /// `c` = what the recipe computed for A [rows, K] and B [cols, K].
  void product(Tape& tape, const std::string& layer, const char* gemm, const GemmSpec& spec, const Dispatcher& backend,
               MatrixView a, MatrixView b, Tensor c);

 private:
  void operand(Tape& tape, TraceRow row, const OperandSpec& spec, const HadamardSpec& hadamard,
               const Dispatcher& backend, MatrixView x);
  void measure(Tape& tape, TraceRow row, const QuantSpec& spec, const HadamardSpec& hadamard, const Dispatcher& backend,
               MatrixView x);

  std::function<void(const TraceRow&)> sink_;
  const std::vector<QuantSpec>& probes_;
};

}  // namespace fp4::sim
