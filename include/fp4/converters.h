// Converting instructions as words of a spec, and how their results are known. `words` are laid over mxfp4, or over the
// preset that they begin with: rows of elements give the code of x over the block's scale, rows of scales (ue8m0,
// ue5m3) the scale code of a block whose maximum is a. `packing` says how random bits come out of a word
// (random_words.h).
#pragma once

#include "fp4/evidence.h"

namespace fp4 {

struct ConverterInfo {
  const char* name;
  const char* doc;
  const char* source;
  Evidence evidence;
  const char* words;
  const char* packing;  // empty: no random bits
};

// clang-format off
inline constexpr ConverterInfo converter_table[] = {
    {"ptx_rn_e2m1", "cvt.rn.satfinite.e2m1x2.f32: NaN gives 6", "PTX ISA 8.6", Evidence::documented, "nonfinite=max", ""},
    {"ptx_rz_e2m1", "cvt.rz.satfinite.e2m1x2.f32", "PTX ISA 9.4 and 9.5", Evidence::documented, "rounding=toward_zero,nonfinite=max", ""},
    {"ptx_rz_e2m3", "cvt.rz.satfinite.e2m3x2.f32", "PTX ISA 9.4 and 9.5", Evidence::documented, "element=e2m3,rounding=toward_zero,nonfinite=max", ""},
    {"ptx_rz_e3m2", "cvt.rz.satfinite.e3m2x2.f32", "PTX ISA 9.4 and 9.5", Evidence::documented, "element=e3m2,rounding=toward_zero,nonfinite=max", ""},
    {"ptx_rz_e4m3", "cvt.rz.satfinite.e4m3x2.f32 of finite numbers", "PTX ISA 9.4 and 9.5", Evidence::documented, "element=e4m3,rounding=toward_zero", ""},
    {"ptx_rz_e5m2", "cvt.rz.satfinite.e5m2x2.f32 of finite numbers", "PTX ISA 9.4 and 9.5", Evidence::documented, "element=e5m2,rounding=toward_zero", ""},
    {"ptx_rn_scaled_e2m1", "cvt.rn.satfinite.scaled::n1::ue8m0.e2m1x2.f32, scale code e below 255: x * 2^(127-e), subnormals of x are zeros",
     "PTX ISA 9.4 and 9.5", Evidence::documented, "nonfinite=max,subnormals=flush", ""},
    {"ptx_pzo_e2m1", "cvt.rn.satfinite.pzo.e2m1x2.f32: no negative zero", "PTX ISA 9.4 and 9.5", Evidence::documented, "nonfinite=max,negative_zero=drop", ""},
    {"ptx_rs_e2m1", "cvt.rs.satfinite.e2m1x4.f32 of finite numbers from 2^-126 on: 16 random bits on top of the bits that are dropped",
     "words of a B200: mlc-ai/TIRx-harness", Evidence::measured, "rounding=stochastic_truncated,random_bits=16", "ptx_e2m1x4"},
    {"ptx_rs_e4m3", "cvt.rs.satfinite.e4m3x4.f32 of finite numbers from 2^-126 on, likewise", "words of a B200: mlc-ai/TIRx-harness", Evidence::measured,
     "element=e4m3,rounding=stochastic_truncated,random_bits=16", "ptx_f8x4"},
    {"ptx_rp_ue8m0", "cvt.rp.satfinite.ue8m0x2.f32 of a/6 from 2^-126 on", "PTX ISA 8.6", Evidence::documented, "scale_rule=rceil,zero_block=limit", ""},
    {"ptx_rn_ue5m3", "cvt.rn.satfinite.ue5m3x2.f32 of fl32(a/6): above 114688 that", "PTX ISA 9.4 and 9.5", Evidence::documented,
     "ue5m3fp4,arithmetic=divide,zero_scale=keep,zero_block=limit", ""},
    {"ptx_rp_ue5m3", "cvt.rp.satfinite.ue5m3x2.f32 of fl32(a/6)", "PTX ISA 9.4 and 9.5", Evidence::documented,
     "ue5m3fp4,arithmetic=divide,zero_scale=keep,zero_block=limit,scale_rounding=toward_positive", ""},
    {"ptx_rz_ue5m3", "cvt.rz.satfinite.ue5m3x2.f32 of fl32(a/6)", "PTX ISA 9.4 and 9.5", Evidence::documented,
     "ue5m3fp4,arithmetic=divide,zero_scale=keep,zero_block=limit,scale_rounding=toward_zero", ""},
    {"ptx_rn_ue5m3_nan", "cvt.rn.ue5m3x2.f32 of fl32(a/6): NaN where it rounds to more than 114688", "PTX ISA 9.4 and 9.5", Evidence::documented,
     "ue5m3fp4,arithmetic=divide,zero_scale=keep,zero_block=limit,scale_overflow=nan", ""},
    {"amd_rn_fp4", "v_cvt_scalef32_pk_fp4_f32: NaN gives 6 with its sign", "AMD CDNA4 ISA; ROCm amd_hip_ocp_host.hpp", Evidence::documented, "nonfinite=max_signed", ""},
    {"amd_sr_fp4", "v_cvt_scalef32_sr_pk_fp4_f32: 22 random bits", "AMD CDNA4 ISA; ROCm amd_hip_ocp_host.hpp", Evidence::documented,
     "rounding=stochastic_truncated,random_bits=32,nonfinite=max_signed", "amd_fp4_f32"},
};
// clang-format on

}  // namespace fp4
