"""A researcher: what does a format do to a tensor, and what does a technique do to a training?

    python3 tools/examples/researcher.py
"""
import tempfile

import numpy as np

import fp4sim as f4

# 1. The error of each format on weights with a few large columns.
draw = np.random.default_rng(0)
weights = draw.standard_normal((256, 512)).astype(np.float32)
weights[:, ::64] *= 20
errors = f4.compare({"weights": weights}, ["mxfp4", "mxfp4,scale_rule=rceil", "nvfp4", "nvfp4,block=16x16"])
for row in sorted(errors.rows(), key=lambda row: float(row["nmse"])):
    print(f"{row['spec']:24} NMSE {row['nmse']:.5f}")

# 2. A Hadamard spreads a large column over its tile; the rotation is orthonormal, so errors compare.
rotated = f4.quantize(f4.hadamard(weights, 32, signs="per_layer", seed=1), "mxfp4").nmse
print(f"{'mxfp4 after a Hadamard':24} NMSE {rotated:.5f}")

# 3. Where in training does it hurt? One product quantised at a time, the others in bfloat16; three seeds each.
grid = {"name": "products", "task": ["classifier"], "seeds": 3, "train": {"steps": 60},
        "axes": {"recipe": ["bf16", "mxfp4@fprop", "mxfp4@dgrad", "mxfp4@wgrad"]}}
with tempfile.TemporaryDirectory() as folder:
    sweep = f4.sweep(grid, out=f"{folder}/products.sweep")
    for row in sweep.table(grouped=True, sort="loss").rows():
        print(f"{row['recipe']:24} loss {row['loss']:.4f} over {row['n']} seeds")
    print(sweep.front())
