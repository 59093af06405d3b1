// Decides: what --trace and `stats` measure of a product. Looks at a run and never changes it. Operands are those of
// the run, code by code; probes are other specs, tried on the same tensors.
//   of an operand x, as the quantiser meets it (after its Hadamard), and q, its quantised values:
//     amax, rms, amax_over_rms, kurtosis  mean(x^4) / mean(x^2)^2
//     clipped     share of elements whose largest code stands for something larger
//     underflow   share of the elements other than 0 that become 0
//     nmse        |q - x|^2 / |x|^2;    cosine  <q, x> / (|q| |x|)
//     scale_bias, dead_zone, grid_noise   the parts of nmse after 2605.20402: with q' = x quantised by the scale
//                 amax / M of each block in fp32 (no tensor scale), q - x splits into
//                 (q - q') + [q' = 0](q' - x) + [q' != 0](q' - x); the inner product of each part with q - x, over
//                 |x|^2. They add up to nmse; the first may be negative.
//   of a product C, operand `c`:
//     relative_error   |C - AB| / |AB| against the product of the unquantised operands in fp32; cosine of the two
//     gradient_noise_ratio   of dgrad and wgrad, |C| / (sqrt(d) sigma): d sigma^2 = M N K mean(A^2) mean(B^2)
//                 (r_A + r_B + r_A r_B), r the nmse of the operands [M, K] and [N, K], whose errors are taken as
//                 independent (2505.19115)
//     changed_tiles:ADDER    share of the 16 x 16 tiles of C in which another model of the adder gives another bit
//   of the weights: oscillation and oscillating_share (quantized_linear.h)
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/tape/autograd.h"
#include "src/backends/backends.h"

namespace fp4::sim {

/// One line of --trace: a named quantity of one layer and GEMM operand at one step.
struct TraceRow {
  int step = 0;
  std::string layer, gemm, operand, quantity;
  double value = 0;
  int probe = -1;  // index into TraceProbes::specs; -1: what the recipe itself does
};

/// What is tried on the tensors and products of a traced step (without a Hadamard), never trained with.
struct TraceProbes {
  const std::vector<QuantSpec>& specs;
  const std::vector<std::pair<std::string, Accumulator>>& adders;  // by their words
};

/// Parts of |q - x|^2 / |x|^2 as above; `ideal` is q'.
struct ErrorParts {
  double scale_bias = 0, dead_zone = 0, grid_noise = 0;
};
ErrorParts error_parts(const float* x, const float* q, const float* ideal, int64_t n);

double cosine(const float* a, const float* b, int64_t n);

/// Share of the 16 x 16 tiles (less at the edges) of two matrices that differ in a bit.
double changed_tiles(const float* a, const float* b, int rows, int cols);

struct OperandPower {
  double mean_square = 0, nmse = 0;
};
double mean_square(MatrixView x);
/// The operand as it meets the quantiser, which makes q of it: after the Hadamard.
Tensor met_operand(Arena& arena, const Dispatcher& backend, const QuantizeCall& call, const Quantized& q);

/// d sigma^2 of a product [m, n] over k, and |C| / (sqrt(d) sigma); 0 where the operands have no error.
double noise_square(double m, double n, double k, OperandPower a, OperandPower b);
double gradient_noise_ratio(double norm_square, double m, double n, double k, OperandPower a, OperandPower b);

struct ProductCall;

class Trace {
 public:
  Trace(std::function<void(const TraceRow&)> sink, TraceProbes probes) : sink_(std::move(sink)), probes_(probes) {}

  /// A product of the run, whose C is contiguous; operands that are not ready are quantised once more.
  void product(const ProductCall& p);

 private:
  OperandPower operand(Tape& tape, TraceRow row, const Dispatcher& backend, const QuantizeCall& call,
                       const Quantized* ready);
  OperandPower measure(Tape& tape, TraceRow row, const Dispatcher& backend, const QuantizeCall& call,
                       const Quantized* ready);

  std::function<void(const TraceRow&)> sink_;
  TraceProbes probes_;
};

}  // namespace fp4::sim
