"""An architect: what does the adder of a matrix unit change, in products and in training?

    python3 tools/examples/architect.py
"""
import numpy as np

import fp4sim as f4

# 1. One product under the adders of several chips, against the exact product of the same codes.
draw = np.random.default_rng(0)
a, b = (f4.quantize(draw.standard_normal((32, 4096)).astype(np.float32), "nvfp4") for _ in range(2))
exact = a.dequantize().astype(np.float64) @ b.dequantize().astype(np.float64).T
for adder in ("exact", "fp32_block", "k64_rz", "fused35_rz"):
    error = np.abs(f4.gemm(a, b, accumulator=adder) - exact).max()
    print(f"{adder:16} largest error {error:.2e}")

# 2. An adder of one's own: that of a Blackwell unit with 12 fraction bits instead of 35.
mine = dict(f4.show("fused35_rz", "accumulator"), fraction_bits=12)
print(f"{'12 bits':16} largest error {np.abs(f4.gemm(a, b, accumulator=mine) - exact).max():.2e}")

# 3. What does the format of such a unit buy in a whole step of a model?
cost = f4.cost(["nvfp4_te", "mxfp8", "bf16"], study="compare", hardware="b200", model="llama3_8b")
for row in cost.rows:
    print(f"{row['recipe']:16} step {row['step_time_s']:.3f} s, {row['energy_j']:.0f} J")

# 4. Does a training notice?
for adder in ("fp32_block", "k64_rz"):
    run = f4.train("classifier", "nvfp4", seed=1, steps=60, set={"*.accumulator": adder})
    print(f"{adder:16} loss {run.loss:.4f}  digest {run.digest}")
