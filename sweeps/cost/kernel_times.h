// Decides: how long one kernel takes. Every kernel is a roofline over three resources, matrix unit, memory and vector
// instruction issue; the longest one binds and is named. Pure functions of plain numbers.
//
// A quantiser reads a tensor and writes its quantised copies (row copy for one GEMM, column copy for another):
//   bytes = E * (read + extra passes * 2 + 4 per unfused rotated copy
//                + sum over copies (element bits + scale bits/B)/8)
//   slots = E * sum over copies (amax 2 + multiply 1 + convert 1 + pack 0.5 + what the recipe switches on)
// Techniques are added one after the other (tensor scale, Hadamard, stochastic rounding, scale rule) and each is
// charged what the kernel grows by, so that the parts add up to the whole although a roofline is not additive.
#pragma once

#include <string>
#include <vector>

#include "sweeps/cost/hardware.h"
#include "sweeps/cost/weights.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

/// The class in which a product runs on a chip: that of its wider operand, or bf16 where the matrix unit does not take
/// an operand's block scales or its element. The kernel then decodes the operands, exactly and at no cost.
std::string executed_class(const GemmFacts& gemm, const Hardware& hardware);
/// "fp4 with ue5m3 for 16", "fp4 codes of nf4", "fp4" without units for it: the operand that is decoded; "" where the
/// product runs as it is.
std::string decoded_operand(const GemmFacts& gemm, const Hardware& hardware);

/// FLOP/s, zeros counted, of a product whose operand b is sparse, where the matrix unit skips them: it knows the mask
/// in the class that the product runs in, and the blocks of what is kept (a block of 32 of K has 16). 0: no such rate.
double sparse_rate(const GemmFacts& gemm, const Hardware& hardware);
/// "fp4 4:8 with ue4m3 for 16": a sparse product that the chip runs as a dense one; "" elsewhere.
std::string sparse_as_dense(const GemmFacts& gemm, const Hardware& hardware);

/// A chip with the factors of the weights applied.
struct Chip {
  Chip(const Hardware& profile, const CostWeights& weights);
  double matrix_rate(std::string_view format_class) const { return hardware->rate(format_class) * share(format_class); }
  double matrix_rate(const GemmFacts& gemm) const;

  const Hardware* hardware;
  double efficiency;  // factor on that of GEMMs
  double bandwidth;   // bytes/s
  double issue;       // instruction slots/s that a quantiser reaches

 private:
  double share(std::string_view format_class, std::string_view scales = "") const;
};

struct Resources {
  double flop = 0;
  double flop_rate = 1;  // FLOP/s reached
  double bytes = 0;
  double ops = 0;              // vector instruction slots
  double bandwidth_share = 1;  // of the memory bandwidth, which the kernel reaches
};

struct Bound {
  double seconds = 0;
  const char* binding = "none";  // matrix, memory, issue
};

Bound roofline(const Resources& work, const Chip& chip);

/// "2.06e+13 FLOP / 1.19e+15 FLOP/s" of the resource that binds.
std::string roofline_formula(const Resources& work, const Chip& chip);

enum class HadamardKernel : uint8_t {
  fused,
  unfused,
  dense
};  // dense: a matrix product with H, 2*size FLOP an element

struct Copy {
  const OperandFacts* operand = nullptr;
  HadamardFacts hadamard;
  bool shares_codes = false;  // the transpose of another copy's codes: written, not computed
};

struct QuantiseKernel {
  std::string name;       // "X of qkv"
  double elements = 0;    // a step
  double read_bytes = 0;  // per element, besides extra passes
  std::vector<Copy> copies;
};

/// What a quantiser does besides the plain quantisation; the order is that of the charging.
enum class Technique : uint8_t { plain, tensor_scale, hadamard, stochastic_rounding, scale_rule, mask };
inline constexpr int technique_count = 6;
const char* technique_name(Technique technique);
/// The group of its terms (cost_groups).
const char* technique_group(Technique technique);

struct QuantiseOptions {
  const CostWeights* weights = nullptr;
  HadamardKernel hadamard = HadamardKernel::fused;
};

/// Work of the kernel with all techniques up to and including `last`.
Resources quantise_work(const QuantiseKernel& kernel, Technique last, const Chip& chip, const QuantiseOptions& options);

/// Slots per element that one copy costs, all techniques up to `last`.
double copy_ops(const Copy& copy, Technique last, const Chip& chip, const QuantiseOptions& options);

}  // namespace fp4::cost
