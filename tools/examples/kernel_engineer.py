"""A kernel engineer: is my kernel right, and if not, what does it do instead?

    python3 tools/examples/kernel_engineer.py
"""
import tempfile
from typing import Any

import numpy as np

import fp4sim as f4

with tempfile.TemporaryDirectory() as folder:
    # 1. A bundle of inputs and exact answers.
    golden = f4.golden_make("smoke", f"{folder}/golden")
    case = "mxfp4.boundary.8x64"
    x = np.load(f"{golden}/{case}/input.npy")

    # 2. "My kernel": scales rounded up instead of down.
    def my_kernel(values: Any) -> dict[str, Any]:
        q = f4.quantize(values, "mxfp4,scale_rule=rceil")
        return {"codes": q.codes, "scales": q.scales, "dequantized": q.dequantize()}

    verdict = f4.verify(golden, my_kernel(x), case=case)
    print(verdict)
    print("explanation:", verdict.explanation)

    # 3. The right one, in the order of scales that a tensor core reads.
    right = f4.quantize(x, "mxfp4")
    tiles = right.to_layout(scales="128x4", nibbles="low_first")
    dump = {"codes": tiles["codes"], "scales_128x4": tiles["scales"]}
    print("the right kernel:", "equal" if f4.verify(golden, dump, case=case) else "not equal")

    # 4. A case of one's own: this spec, numbers of mine.
    own = f4.golden_make(out=f"{folder}/own", spec="nvfp4", input=x)
    print("own case:", "whole" if f4.golden_check(own) == [] else "damaged")

# 5. Stochastic rounding replayed: the draws that elements 4096 .. 4099 of an operand get.
print("draws:", f4.random(8, 4, first=4096, seed=7).tolist())
