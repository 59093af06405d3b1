// The loops of train_kernels.h by name, in their order there: the tables of all instruction sets and of devices are
// made of these lists.
#pragma once

// What every set has.
#define FP4_TRAINER_LOOPS(apply)                                                                                   \
  apply(add) apply(sum_of) apply(multiply) apply(scale) apply(add_bias) apply(column_sums) apply(bias_relu)        \
      apply(bias_relu_backward) apply(relu) apply(relu_backward) apply(silu) apply(silu_backward) apply(swiglu)    \
          apply(swiglu_backward) apply(softmax_loss) apply(softmax_loss_backward) apply(square_loss)               \
              apply(square_loss_backward) apply(rmsnorm) apply(rmsnorm_backward) apply(rope) apply(causal_softmax) \
                  apply(causal_softmax_backward) apply(sum) apply(dot) apply(all_finite) apply(adam) apply(sgd)
// What host code alone calls; `panel_width` stands between the two lists.
#define FP4_HOST_LOOPS(apply)                                                                                     \
  apply(add_scaled) apply(slopes) apply(scale_sums) apply(scale_terms) apply(powers) apply(philox) apply(normals) \
      apply(uniforms) apply(sin_cos)
#define FP4_HOST_PRODUCTS(apply) apply(pack) apply(gemm) apply(gemm_in_place)

#define FP4_LOOP(loop) .loop = loop,
