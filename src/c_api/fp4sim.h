/* The C interface of fp4sim: bit-exact FP4 quantisation, decoding, products and Hadamards, of arrays and of whole
 * files, for any language with a C call.
 *
 * Specs are the words of the command line ("nvfp4,rounding=stochastic"), matrices are row-major float32. Functions
 * return 0, or the exit code of the command line: 1 the work failed, 2 bad input; fp4sim_last_error() then says what
 * (per thread). Buffers belong to the caller; their sizes come from fp4sim_shape(). No function keeps a pointer.
 * Pointers lie as their types must (floats at multiples of 4); a result of fp4sim_gemm() or fp4sim_hadamard() that
 * would lie on an input is refused, but for a Hadamard in place, y == x, of whole blocks.
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

/* ---- Whole files, by bands of rows: memory does not grow with their size. ----
 * What the commands quantize, dequantize, compare and inspect do; messages spell an option as the command line does
 * ("--spec" is the member spec). A structure of zeros is every default, and so is NULL in its place. Results appear
 * whole under their names or not at all, and are on the disk when the function returns. */

/* How the work is done; none of it changes a bit of the result. */
typedef struct fp4sim_run {
  int threads;         /* 0: as many as the machine runs at once */
  int force;           /* not 0: existing results are replaced, what the call reads never; else they are an error */
  const char* backend; /* NULL: "auto" */
  /* NULL, or called as bytes of input are done (not while a folder is decoded), by one thread at a time, which need not
   * be the caller's. tensor is "" for a file with one. It must return: no exception, no longjmp. */
  void (*progress)(uint64_t done, uint64_t all, const char* tensor, void* user);
  void* user;
} fp4sim_run;

/* What a tensor file does not say itself. */
typedef struct fp4sim_input {
  const char* dtype; /* "bf16": of a raw file, with shape; or of a .npy whose type is opaque (|V1, <V2) */
  const char* shape; /* of a raw file: "128x4096", row-major, little endian */
  const char* entry; /* the array of a .npz or .safetensors with several; "FILE:NAME" as a path says the same */
  int bf16;          /* not 0: uint16 and opaque 2-byte elements are bfloat16 */
} fp4sim_input;

/* What quantisation did, over finite elements; of a model the sum over its quantised tensors. */
typedef struct fp4sim_report {
  int64_t elements;
  double nmse;          /* sum (x - decoded)^2 / sum x^2 */
  double decibels;      /* -10 log10 of it; infinity without an error */
  double largest_error; /* of |x - decoded| */
  double clipped;       /* shares, 0 to 1: |x| > |decoded| at the largest code; decoded to zero; of these x not zero */
  double zeros;
  double underflows;
  int64_t nonfinite; /* elements left out above */
  double bits_per_element;
  uint64_t bytes;        /* of codes, scales and tensor scales */
  int64_t tensors, kept; /* of a model: all weights, and those that stayed as they were; else 1 and 0 */
} fp4sim_report;

typedef struct fp4sim_quantize_options {
  fp4sim_run run;
  fp4sim_input input; /* one tensor only */
  const char* spec;   /* words as everywhere; NULL with a scheme: the scheme's own */
  const char* scheme; /* NULL: one tensor. Else a model in a scheme of `fp4sim list checkpoints`, "modelopt_nvfp4" */
  fp4sim_place place; /* the n-th quantised tensor of a model has stream + 128 n */
  /* One tensor: */
  int transpose;            /* not 0: blocks along axis 0 */
  const char* nibbles;      /* NULL: "low_first"; layouts of `fp4sim list layouts`; of a model's output, too */
  const char* scale_layout; /* NULL: "linear"; of a model's output, too */
  /* A model: patterns with * and ?, the last one NULL. */
  const char* const* tensors;   /* what is quantised; NULL: every matrix but kept ones */
  const char* const* keep;      /* what stays besides what `fp4sim list keep-rules` names; NULL: nothing more */
  int allow_left;               /* not 0: what looks quantised and is not understood stays, instead of an error */
  int changed;                  /* not 0: reads shards that are not those of fp4sim.json by their SHA-256 */
  const char* const* keep_only; /* what stays instead of those rules; {"none", NULL}: nothing does */
  const char* activations;      /* a word of `fp4sim list activations`; NULL: the scheme's own */
  const char* fuse;             /* which weights share a factor: NULL or "auto", "none", "GROUPS.json" */
  int follow_links;             /* not 0: reads and copies what links out of the model's folder lead to */
} fp4sim_quantize_options;

/* in: a tensor file (.npy, .npz, .safetensors, raw) of shape [.., K], taken as [product of the leading axes, K]; out: a
 * folder of codes.npy, scales.npy, tensor_scale.npy, dequantized.npy (float32), manifest.json. With a scheme, in: a
 * model (.safetensors, .gguf or a folder of shards with its index); out: a folder of such files and fp4sim.json.
 * report may be NULL. */
FP4SIM_API int fp4sim_quantize_file(const char* in, const char* out, const fp4sim_quantize_options* options,
                                    fp4sim_report* report);

typedef struct fp4sim_dequantize_options {
  fp4sim_run run;
  const char* type;           /* of a model's decoded weights: NULL or "f32"; "bf16", nearest even */
  const char* const* tensors; /* a model's weights to decode, patterns, the last one NULL; NULL: all */
  int changed;                /* not 0: decodes files that are not those of the manifest by their SHA-256 */
  const char* nibbles;        /* of a model's FP4 codes: NULL: what its marks say, else "low_first", "high_first" */
  const char* scale_layout;   /* of their scales: NULL: what its marks say, else "linear", "128x4", .. */
  int allow_left;             /* as in fp4sim_quantize_options */
  int follow_links;           /* as in fp4sim_quantize_options */
} fp4sim_dequantize_options;

/* in: a folder that fp4sim_quantize_file() wrote, out: a .npy of float32; or in: a model with FP4 weights, out: a
 * folder with its weights decoded and all else as it was. */
FP4SIM_API int fp4sim_dequantize_file(const char* in, const char* out, const fp4sim_dequantize_options* options);

typedef struct fp4sim_compare_options {
  fp4sim_run run; /* force is not read: nothing is written */
  fp4sim_input input;
  const char* nibbles; /* of a model's FP4 codes, and of their scales, as in fp4sim_dequantize_options */
  const char* scale_layout;
  int changed;      /* not 0: reads shards that are not those of fp4sim.json by their SHA-256 */
  int allow_left;   /* not 0: what looks quantised and is not understood is left out, instead of an error (1) */
  int follow_links; /* as in fp4sim_quantize_options */
} fp4sim_compare_options;

/* One tensor under one spec; best: the smallest NMSE of its tensor. Texts live until the call returns. */
typedef void (*fp4sim_compare_line)(const char* tensor, const char* spec, const fp4sim_report* report, int best,
                                    void* user);

/* Quantises and decodes the tensors of `in` (a tensor file or a model) under each of `specs`, the last one NULL, and
 * writes nothing. `line` is called for every tensor and spec, in their order, by the caller's thread after the work. */
FP4SIM_API int fp4sim_compare_file(const char* in, const char* const* specs, const fp4sim_compare_options* options,
                                   fp4sim_compare_line line, void* user);

/* A weight of a file or model. scheme and spec are "" where it is no FP4 weight; shape has rank axes, of FP4 weights
 * with codes counted one by one; bytes are those of codes, scales and factor together. */
typedef struct fp4sim_tensor {
  const char* name;
  const char* file;
  const char* type; /* of the elements or codes: "bf16", "u8", "NVFP4" */
  const char* scheme;
  const char* spec;
  const uint64_t* shape;
  int rank;
  uint64_t bytes;
  double bits_per_element;
  const char* unknown; /* why it looks like a part of a quantised weight that no scheme reads; "" where it does not */
} fp4sim_tensor;

/* Reads the headers of `in` and calls `tensor` for each weight, in the order of files and tensors, by the caller's
 * thread. What it points to lives until the call returns. */
FP4SIM_API int fp4sim_inspect_file(const char* in, void (*tensor)(const fp4sim_tensor* tensor, void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif
