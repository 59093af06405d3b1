#!/usr/bin/env python3
"""Reads a pack of `fp4sim golden pack OUT` with numpy alone, and tries an implementation of one's own on it.

Usage: read_pack.py OUT. Checks every SHA-256, then decodes presets, lays scales out in tiles of 128x4 and adds products
exactly, each compared with the pack bit by bit. Exits with 1 where anything differs.
"""
import hashlib
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

pack = Path(sys.argv[1])
manifest = json.loads((pack / "manifest.json").read_text())
wrong = [name for name, f in manifest["files"].items()
         if hashlib.sha256((pack / name).read_bytes()).hexdigest() != f["sha256"]]
load = lambda name: np.load(pack / name)
values = {r["use"] + "_" + r["name"]: load(f"formats/{r['use']}_{r['name']}.npy") for r in manifest["formats"]}
print(f"{len(manifest['files'])} files, version {manifest['version']}, {len(wrong)} damaged")


def unpack(codes, width):
    """Two codes a byte, the even column low; wider codes have a byte each."""
    return codes if width > 4 else np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1)


def decode(folder, spec):
    """q*s*g in fp32, in this order. Under a choice bit 7 of a block's scale says which of two grids its codes are of."""
    has_choice = spec["choice"] != "none"
    grids = [values["element_" + n] for n in (spec["choice"]["grids"] if has_choice else [spec["element"]])]
    shape, scales = load(folder / "dequantized.npy").shape, load(folder / "scales.npy")
    codes = unpack(load(folder / "codes.npy"), len(grids[0]).bit_length() - 1)[:, :shape[1]]
    each = lambda of_block: np.repeat(of_block, spec["block"], 1)[:, :shape[1]]
    y = grids[0][codes].astype(np.float32)
    if has_choice:
        y = np.where(each(scales >> 7), grids[1][codes], y).astype(np.float32)
        scales = scales & 127
    s = (scales if scales.dtype == np.float32 else values["scale_" + spec["scale"]][scales]).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return y * each(s) * load(folder / "tensor_scale.npy")


compared = 0
for preset in manifest["presets"]:
    spec = preset["spec"]
    if spec["decode"] != "scale_then_tensor" or spec["prescale"] != 1 or spec["scale_rule"] == "encode" or spec["scale"] == "none":
        continue
    for name in (n for n in manifest["files"] if n.startswith(f"presets/{preset['name']}/") and n.endswith("dequantized.npy")):
        compared += 1
        if not np.array_equal(decode(Path(name).parent, spec), load(name), equal_nan=True):
            wrong.append(name)
tiles = np.zeros((128, 8), np.uint8)  # 40 x 6, padded to 128 x 4 and its multiples
tiles[:40, :6] = load("layouts/scales.npy")
tiles = tiles.reshape(4, 32, 2, 4).transpose(2, 1, 0, 3)
if not np.array_equal(tiles.ravel(), load("layouts/scales_128x4.npy")):
    wrong.append("layouts/scales_128x4.npy")
exact = lambda x: [[Fraction(float(v)) for v in row] for row in x]
side = [values["element_e2m1"][unpack(load(f"accumulators/mxfp4/{s}_codes.npy"), 4)] *
        np.repeat(values["scale_e8m0"][load(f"accumulators/mxfp4/{s}_scales.npy")], 32, 1) for s in "ab"]
sums = [[np.float32(float(sum(p * q for p, q in zip(a, b)))) for b in exact(side[1])] for a in exact(side[0])]
if not np.array_equal(np.array(sums, np.float32), load("accumulators/mxfp4/exact.npy")):
    wrong.append("accumulators/mxfp4/exact.npy")
print(f"{compared} decoded arrays, 1 layout, 30 sums compared: " + ("all equal" if not wrong else "differ: " + ", ".join(wrong)))
sys.exit(1 if wrong else 0)
