// Which kernels make up an operation, on operands that live in device memory. The backend moves host data in and out
// around these; the benchmark calls them on data that stays.
#pragma once

#include "src/gpu/device.h"

namespace fp4::gpu {

// A quantised operand in device memory.
struct Resident {
  QuantSpec spec;
  Operand operand;
  BlockGeometry geometry;
  Buffer<uint8_t> codes;
  Buffer<uint8_t> scales;
  Buffer<float> real_scales;
  Buffer<TensorFactor> factors;  // empty where operand.known is the factor
  Buffer<float> amax;            // empty where the host knows it:
  float known_amax = 0;
};

// How to quantise: the fields of QuantizeCall that are not data.
struct QuantizeHow {
  HadamardSpec hadamard;
  RandomPlace place;
  float held_amax = -1.0f;
  float soft_alpha = 0.0f;
  int64_t row_offset = 0;
};

// An operand of this shape, nothing computed yet; `cols` counts the Hadamard padding.
Resident make_resident(Pool& pool, const QuantSpec& spec, int64_t rows, int64_t cols);
// One whose arrays lie in memory that the caller keeps: scales of bytes or of floats, as the spec has them; factors,
// where it has a tensor scale.
Resident resident_at(const QuantSpec& spec, int64_t rows, int64_t cols, uint8_t* codes, void* scales,
                     TensorFactor* factors);
Resident upload(Pool& pool, const Quantized& q);
void download(const Resident& from, Quantized& to);
// The tensor amax that was used.
float amax_of(const Resident& r);

void quantize(Pool& pool, const OperandElements& x, const QuantizeHow& how, Resident& out);
// Several operands, four in as many launches as one takes where all take the same kernels.
struct Quantisation {
  OperandElements x;
  QuantizeHow how;
  Resident* out;
};
void quantize_together(Pool& pool, const std::vector<Quantisation>& all);

// Both copies of a matrix in one pass: `along` has blocks along its rows, `across` is the transpose. False for what one
// tile cannot hold: Hadamards, 2-D or long blocks, tensor scales that depend on the whole tensor or on 128 columns.
bool can_quantize_both_ways(const QuantSpec& along, const QuantSpec& across);
void quantize_both_ways(Pool& pool, const OperandElements& x, RandomPlace place_along, RandomPlace place_across,
                        Resident& along, Resident& across);

// y [x.rows, x.cols padded to whole transforms].
void hadamard(Pool& pool, const OperandElements& x, const HadamardSpec& h, RandomPlace signs, bool inverse, float* y);
void dequantize(Pool& pool, const Resident& q, float* out);

// Whether the matrix units give this product, and the run over which both scales are constant: 16 or 32.
struct MatrixPlan {
  bool fits = false;
  int run = 32;
};
MatrixPlan matrix_plan(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator);

// How far the exponents of a tile's scale products may lie apart for wide_gemm.h to give this product with K = k, or -1
// where it cannot.
int widest_spread(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator, int64_t k);

// c [a.rows, b.rows] contiguous, with `bias` [b.rows] in each row where it is not null.
void gemm(Pool& pool, const Resident& a, const Resident& b, const GemmOptions& options, float* c,
          const float* bias = nullptr);

// Under fp32_block on that vendor's units, or one thread an output for `none`, whatever the device has proven (for the
// probe).
void gemm_on_unit(Pool& pool, const Resident& a, const Resident& b, MatrixKind kind, float* c);

// Whether a matrix unit gives every sum right that stays below 2^24, whatever meets whatever: that its fragments lie as
// its manual says, and that it keeps the bits. No unit is used before.
bool probe_matrix_unit(Pool& pool, MatrixKind kind);

// Whether the device's own e2m1 conversion is there and gives our codes on every input that is tried.
bool probe_native(Pool& pool);

// Words that differ, and the first of them.
Difference compare_bits(Pool& pool, const void* a, const void* b, int64_t words);

}  // namespace fp4::gpu
