"""A researcher: what does a format do to a tensor, and what does a technique do to a training?

    python3 tools/examples/researcher.py
"""
import numpy as np

import fp4sim as f4

# 1. The error of each format on weights with a few large columns.
draw = np.random.default_rng(0)
weights = draw.standard_normal((256, 512)).astype(np.float32)
weights[:, ::64] *= 20
errors = {spec: f4.quantize(weights, spec).nmse for spec in ("mxfp4", "mxfp4,scale_rule=rceil", "nvfp4", "nvfp4,block=16x16")}
for spec, error in sorted(errors.items(), key=lambda row: row[1]):
    print(f"{spec:24} NMSE {error:.5f}")

# 2. A Hadamard spreads a large column over its tile; the rotation is orthonormal, so errors compare.
rotated = f4.quantize(f4.hadamard(weights, 32, signs="per_layer", seed=1), "mxfp4").nmse
print(f"{'mxfp4 after a Hadamard':24} NMSE {rotated:.5f}")

# 3. Where in training does it hurt? One product quantised at a time, the others in bfloat16.
for recipe in ("bf16", "mxfp4@fprop", "mxfp4@dgrad", "mxfp4@wgrad"):
    run = f4.train("classifier", recipe, seed=1, steps=60)
    print(f"{recipe:24} loss {run.loss:.4f}  digest {run.digest}")
