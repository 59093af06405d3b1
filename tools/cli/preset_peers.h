// Which code of which peer ran beside a preset, on the same inputs on one machine, and how many values were equal:
// codes and block scales, the number stored for the tensor where the peer gives one, decoded values where it gives no
// codes. Inputs of 1024 x 1024: Gaussian, heavy-tailed (Student t, 2 degrees), within 2 ulp of code boundaries, block
// maxima within 60 ulp of powers of two and of 1.5 and 1.75 times them, and Gaussian with zeros of both signs and zero
// blocks; rounded to bf16 first where the preset computes in bf16. Presets that are not named here were not compared.
#pragma once

#include <cstdint>

namespace fp4::tools {

struct PresetPeer {
  const char* name;  // of the preset or accumulator
  const char* peer;
  const char* version;
  int64_t equal;
  int64_t compared;
  const char* difference;  // why not all are equal, or how the words were changed for the comparison
};

// clang-format off
inline constexpr PresetPeer preset_peers[] = {
    {"te_nvfp4", "TransformerEngine, NVFP4QuantizerRef in PyTorch", "d0067d0 (2026-08-22)", 5570560, 5570560,
     "with negative_zero=of_rounding"},
    {"te_46_mae", "TransformerEngine, NVFP4QuantizerRef in PyTorch, 4over6, MAE, 256", "d0067d0 (2026-08-22)", 5570560, 5570560,
     "with negative_zero=of_rounding"},
    {"te_46_mae_fast", "TransformerEngine, NVFP4QuantizerRef in PyTorch, 4over6, MAE, 256, fast math", "d0067d0 (2026-08-22)", 5570560, 5570560,
     "with negative_zero=of_rounding"},
    {"flashinfer_46_mae", "FlashInfer, ref_fp4_quant_4over6_te in PyTorch, MAE, 448", "fb28d72 (2026-08-22)", 5570560, 5570560,
     "with negative_zero=of_rounding; its tests hold the kernels to this code"},
    {"flashinfer_46_mae_fast", "FlashInfer, ref_fp4_quant_4over6_te in PyTorch, MAE, 448, fast math", "fb28d72 (2026-08-22)", 5570560, 5570560,
     "as flashinfer_46_mae"},
    {"fouroversix_code", "fouroversix, its PyTorch backend, MSE", "dadfad6 (2026-04-21)", 5570550, 5570560,
     "PyTorch adds 16 squared errors in another order: one near tie of 6 against 4"},
    {"pytorch_mxfp4", "PyTorch, to_mxfp", "2.14.1", 5406720, 5406720, ""},
    {"vllm_nvfp4", "vLLM, nvfp4_emulation_utils.py in PyTorch", "055e47c", 5438907, 5570565,
     "with negative_zero=of_rounding; where a block scale is 0 the peer's emulation multiplies by 1e-8 and codes up to 6, which decode to 0"},
    {"compressed_tensors_nvfp4", "compressed-tensors in PyTorch", "52792be (2025-10-30)", 10813445, 10813445, ""},
    {"compressed_tensors_mxfp4", "compressed-tensors in PyTorch on bf16", "52792be (2025-10-30)", 5406720, 5406720, ""},
    {"modelopt_nvfp4", "Model-Optimizer, NVFP4QTensor in PyTorch", "a2fbac7 (2026-08-21)", 5570565, 5570565, ""},
    {"modelopt_mxfp4", "Model-Optimizer, MXFP4QTensor in PyTorch", "a2fbac7 (2026-08-21)", 5406720, 5406720, ""},
    {"torchao_nvfp4", "torchao, nvfp4_quantize in PyTorch", "36027d8 (2026-08-21)", 5570565, 5570565, ""},
    {"mlx_mxfp4", "MLX, fp_quantize of its Metal kernels, compiled for a CPU", "846d176 (2026-08-22)", 5406720, 5406720,
     "log2 is that of the C library; MLX's CPU functions to_fp8_e8m0 and to_fp4_e2m1 agree, too"},
    {"mlx_nvfp4", "MLX, fp_quantize of its Metal kernels, compiled for a CPU", "846d176 (2026-08-22)", 5570560, 5570560, ""},
    {"mlx_nvfp4_global", "MLX, fp_quantize of its Metal kernels, compiled for a CPU", "846d176 (2026-08-22)", 5570560, 5570560, ""},
    {"ggml_mxfp4", "ggml, quantize_row_mxfp4_ref", "d99724f (2026-08-21)", 5406720, 5406720, ""},
    {"ggml_nvfp4", "ggml, quantize_row_nvfp4_ref", "d99724f (2026-08-21)", 5353727, 5570560,
     "the peer makes 448 of scales from 248 on and 7*2^-9 of 7.5*2^-9, and code 0 of payloads beyond 2^24"},
    {"fbgemm_mx4_ceil", "FBGEMM, py_quantize_mx4 in PyTorch", "71d6f8b (2026-08-21)", 5392862, 5406720,
     "all scales are equal; the peer shifts by more than 31 bits where a payload is below 2^-10, and codes it at random"},
    {"fbgemm_mx4_floor", "FBGEMM, py_quantize_mx4 in PyTorch", "71d6f8b (2026-08-21)", 5394374, 5406720, "as fbgemm_mx4_ceil"},
    {"fbgemm_mx4_even", "FBGEMM, py_quantize_mx4 in PyTorch", "71d6f8b (2026-08-21)", 5394125, 5406720, "as fbgemm_mx4_ceil"},
    {"fbgemm_mx4_nearest", "FBGEMM, py_quantize_mx4 in PyTorch", "71d6f8b (2026-08-21)", 5393749, 5406720, "as fbgemm_mx4_ceil"},
    {"microxcaling_even", "microxcaling, _quantize_mx in PyTorch", "7bc4195 (v1.1.0)", 5241810, 5242880,
     "the peer's x + 1/2 moves the float below 1/4 of a scale up; PyTorch's log2 is not rounded correctly"},
    {"microxcaling_default", "microxcaling, _quantize_mx in PyTorch", "7bc4195 (v1.1.0)", 5241810, 5242880, "as microxcaling_even"},
    {"microxcaling_floor", "microxcaling, _quantize_mx in PyTorch", "7bc4195 (v1.1.0)", 5242876, 5242880,
     "PyTorch's log2 is not rounded correctly: 2 below 2^2, 0 below 2^0"},
    {"microxcaling_even_bf16", "microxcaling, _quantize_mx in PyTorch on bf16", "7bc4195 (v1.1.0)", 5241141, 5242880,
     "the peer's x + 1/2 moves the bf16 below 1/4 of a scale up"},
};

// Adders whose model's own code ran beside a row: sums of 128 products, in groups as the instruction takes them. Operands
// drawn from all codes, Gaussian, with zeros, spread over 15 binades, and in pairs that cancel.
inline constexpr PresetPeer accumulator_peers[] = {
    {"hopper_fp8", "MMA-Sim, nv_fused_dot_add(f32_e8m13)", "c785138 (2026-01-29)", 22400, 22400, ""},
    {"cdna3_16bit", "MMA-Sim, amd_fused_dot_rd_add", "c785138 (2026-01-29)", 22400, 22400, ""},
    {"cdna3_fp8", "MMA-Sim, amd_fused_dot_rd_add(is_fp8)", "c785138 (2026-01-29)", 22400, 22400, ""},
};
// clang-format on

}  // namespace fp4::tools
