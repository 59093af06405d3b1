// The bodies behind train_kernels.h; included once per instruction set, inside its namespace and target region, with
//   LANES      floats per register of the gemm tile      TILE_ROWS  its rows
//   fma_lanes  LANES fused multiply-adds
//   load_some, store_some  the first n <= 16 floats of 16 lanes (the others filled on loading)
//   powers     x^y of n floats
// so this header has no guard. No std templates in here: an instance compiled for AVX-512 could be picked by the
// linker for everybody.

#include "sim/kernels/sums_body.h"
// The rest uses those.
#include "sim/kernels/elementwise_body.h"
#include "sim/kernels/gemm_body.h"
#include "sim/kernels/optimizer_body.h"
#include "sim/kernels/random_body.h"
#include "sim/kernels/rows_body.h"
#include "sim/kernels/scale_terms_body.h"
#include "sim/kernels/slopes_body.h"

const Kernels table = {.name = ISA_NAME,
                       .add = add,
                       .sum_of = sum_of,
                       .multiply = multiply,
                       .scale = scale,
                       .add_bias = add_bias,
                       .column_sums = column_sums,
                       .bias_relu = bias_relu,
                       .bias_relu_backward = bias_relu_backward,
                       .relu = relu,
                       .relu_backward = relu_backward,
                       .silu = silu,
                       .silu_backward = silu_backward,
                       .swiglu = swiglu,
                       .swiglu_backward = swiglu_backward,
                       .softmax_loss = softmax_loss,
                       .softmax_loss_backward = softmax_loss_backward,
                       .square_loss = square_loss,
                       .square_loss_backward = square_loss_backward,
                       .rmsnorm = rmsnorm,
                       .rmsnorm_backward = rmsnorm_backward,
                       .rope = rope,
                       .causal_softmax = causal_softmax,
                       .causal_softmax_backward = causal_softmax_backward,
                       .sum = sum,
                       .dot = dot,
                       .all_finite = all_finite,
                       .adam = adam,
                       .sgd = sgd,
                       .slopes = slopes,
                       .scale_sums = scale_sums,
                       .scale_terms = scale_terms,
                       .powers = powers,
                       .philox = philox_words,
                       .normals = normals,
                       .uniforms = uniforms,
                       .sin_cos = sin_cos,
                       .panel_width = panel,
                       .pack = pack,
                       .gemm = gemm,
                       .gemm_in_place = gemm_in_place};
