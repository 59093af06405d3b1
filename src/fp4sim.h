/* The C interface of fp4sim: bit-exact FP4 quantisation, decoding, products and Hadamards for any
 * language with a C call.
 *
 * Specs are the words of the command line ("nvfp4,rounding=stochastic"), matrices are row-major float32. Functions
 * return 0, or the exit code of the command line: 1 the work failed, 2 bad input; fp4sim_last_error() then says what
 * (per thread). Buffers belong to the caller; their sizes come from fp4sim_shape(). No function keeps a pointer.
 * Rounding mode, flush-to-zero and traps of the caller change no result, and are as before when a function returns. */
#ifndef FP4SIM_H
#define FP4SIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FP4SIM_API __attribute__((visibility("default")))
#else
#define FP4SIM_API
#endif

/* Where random bits lie: Philox4x32-10 by (seed, stream, step, position). */
typedef struct fp4sim_place {
  uint64_t seed;
  uint32_t stream;
  uint32_t step;
} fp4sim_place;

/* Sizes of the arrays of a quantised [rows, cols] operand. */
typedef struct fp4sim_array_shape {
  int64_t code_row_bytes; /* FP4: two codes a byte, even index in the low nibble; wider codes 1, 2 or 4 bytes each */
  int64_t scale_rows;
  int64_t scale_cols;
  int64_t tensor_scales; /* floats: 1, or rows * ceil(cols / 128) for outer128 */
  int scale_bytes;       /* 1, or 4 for real (float32) scales; 0 without scales */
} fp4sim_array_shape;

FP4SIM_API const char* fp4sim_version(void);
FP4SIM_API const char* fp4sim_signature(
    void); /* 16 hex digits that change when any arithmetic changes; "" on failure */
FP4SIM_API const char* fp4sim_last_error(void);

FP4SIM_API int fp4sim_shape(const char* spec, int64_t rows, int64_t cols, fp4sim_array_shape* shape);

/* x [rows, cols] -> codes [rows * code_row_bytes], scales [scale_rows * scale_cols * scale_bytes], tensor_scale. */
FP4SIM_API int fp4sim_quantize(const char* spec, const float* x, int64_t rows, int64_t cols, fp4sim_place place,
                               uint8_t* codes, void* scales, float* tensor_scale);

/* The decoded values, out [rows, cols]. */
FP4SIM_API int fp4sim_dequantize(const char* spec, int64_t rows, int64_t cols, const uint8_t* codes, const void* scales,
                                 const float* tensor_scale, float* out);

/* c [m, n] = Q(a) Q(b)^T with a [m, k], b [n, k] under a named accumulator ("fp32_block", "k64_rz", ...). */
FP4SIM_API int fp4sim_gemm(const char* spec_a, const char* spec_b, const char* accumulator, const float* a,
                           const float* b, int64_t m, int64_t n, int64_t k, fp4sim_place place, float* c);

/* An operand that was quantised before: arrays as fp4sim_shape() sizes them. */
typedef struct fp4sim_operand {
  const char* spec;
  const uint8_t* codes;
  const void* scales; /* NULL without scales */
  const float* tensor_scale;
} fp4sim_operand;

/* d = alpha * product + beta * c + bias, each step one float32 operation in this order, then one rounding (nearest
 * even, overflow to infinity) to the type of d. */
typedef struct fp4sim_epilogue {
  float alpha;
  float beta;         /* 0: c is not read */
  const float* c;     /* [m, n], or NULL where beta is 0 */
  const float* bias;  /* [n], one a column, or NULL */
  const char* output; /* "fp32", "bf16" or "fp16" */
} fp4sim_epilogue;

/* d [m, n], 4 or 2 bytes an element, of operands a [m, k] and b [n, k]; epilogue NULL: the product in float32. */
FP4SIM_API int fp4sim_gemm_codes(const fp4sim_operand* a, const fp4sim_operand* b, const char* accumulator, int64_t m,
                                 int64_t n, int64_t k, const fp4sim_epilogue* epilogue, void* d);

/* y [rows, cols padded to size]; signs none, fixed, per_layer or per_step; normalise sqrt or fold. */
FP4SIM_API int fp4sim_hadamard(const float* x, int64_t rows, int64_t cols, int size, const char* signs,
                               const char* normalise, fp4sim_place place, float* y);

#ifdef __cplusplus
}
#endif

#endif
