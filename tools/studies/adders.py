"""Where the outputs of a product begin to depend on the accumulator: share of outputs that differ from `exact`.

    /usr/bin/python3 tools/studies/adders.py results/accumulators/outputs.csv results/accumulators/zeros.csv

[64, K] x [64, K]^T of entries N(0,1) times exp(c*N(0,1)) per channel (the tasks' outliers.channel = c).
Per (format, c, K, accumulator):
  differs    share of the 4,096 outputs whose bits differ from `exact`
  distance   root mean square of the difference / root mean square of the quantisation error (both against fp64): what the
             adder adds to what the format already lost

zeros.csv: what blocks of zeros do to small operands, [64, 256] x [64, 256]^T, entries of a N(0,1) * 2^-exponent with every
second block of 32 columns zero, those of b N(0,1). Per (format, exponent, accumulator): error, the root mean square of the
difference from `exact` / that of `exact`.
"""
import sys
import numpy as np
import fp4lib
from fp4lib import fp4sim

SIZE = 64
ACCUMULATORS = ["fp32_block", "fp32_sequential", "k64_rz", "k64_rz_snap", "fused35_rz", "fused25_rz", "double", "fused35_rz_2026_08",
                "fused25_rz_2026_08", "b200_nvf4", "b200_mxf4", "b200_f8f6f4", "cdna4_isa"]
FORMATS = ["mxfp4", "nvfp4", "ue5m3fp4", "mxfp8"]

rows = []
for k in [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]:
    for c in [0, .5, 1, 2]:
        generator = np.random.default_rng(k)
        channel = np.exp(c * generator.standard_normal(k))
        a, b = ((generator.standard_normal((SIZE, k)) * channel).astype(np.float32) for _ in range(2))
        truth = a.astype(np.float64) @ b.astype(np.float64).T
        for name in FORMATS:
            exact = fp4sim.gemm(a, b, name, accumulator="exact")
            lost = np.sqrt(np.mean((exact - truth) ** 2))
            for accumulator in ACCUMULATORS:
                c_out = fp4sim.gemm(a, b, name, accumulator=accumulator)
                moved = np.sqrt(np.mean((c_out.astype(np.float64) - exact) ** 2))
                rows.append({"format": name, "outliers": c, "K": k, "accumulator": accumulator,
                             "differs": float(np.mean(c_out.view(np.uint32) != exact.view(np.uint32))),
                             "distance": float(moved / lost)})
fp4lib.write_rows(sys.argv[1], rows)

rows = []
generator = np.random.default_rng(1)
normal, b = (generator.standard_normal((SIZE, 256)).astype(np.float32) for _ in range(2))
normal[:, np.arange(256) // 32 % 2 == 0] = 0
for exponent in [0, 12, 20, 28, 32, 36, 40, 44, 48]:
    a = np.ldexp(normal, -exponent)
    for name in ["mxfp4", "mxfp4,zero_block=limit", "nvfp4", "mxfp8"]:
        exact = fp4sim.gemm(a, b, name, accumulator="exact").astype(np.float64)
        for accumulator in ["fused35_rz", "fused35_rz_2026_08", "fused25_rz", "fused25_rz_2026_08", "b200_nvf4", "b200_mxf4",
                            "b200_f8f6f4"]:
            error = fp4sim.gemm(a, b, name, accumulator=accumulator) - exact
            rows.append({"format": name, "exponent": exponent, "accumulator": accumulator,
                         "error": float(np.sqrt(np.mean(error ** 2) / np.mean(exact ** 2)))})
fp4lib.write_rows(sys.argv[2], rows)
