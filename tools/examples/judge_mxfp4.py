"""Judges an MXFP4 quantiser written with numpy against a golden bundle (put your kernel in place of my_kernel).

    fp4sim golden make --suite smoke --out golden
    python3 judge_mxfp4.py golden dump
    fp4sim verify --golden golden --candidate dump
"""
import json, pathlib, sys
import numpy as np


def my_kernel(x):
    """x [rows, K], K a multiple of 32 -> packed codes [rows, K/2] and E8M0 scales [rows, K/32]; FLOOR, ties to even."""
    blocks = x.reshape(x.shape[0], -1, 32)
    amax = np.abs(blocks).max(-1)
    exponent = np.frexp(amax)[1] - 1  # from the bits: log2 in float is wrong just below powers of two
    scales = np.where(amax == 0, 127, np.clip(exponent - 2 + 127, 0, 254)).astype(np.uint8)
    u = np.ldexp(np.abs(blocks), 127 - scales.astype(int)[..., None])
    boundaries = np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5], np.float32)
    code = np.searchsorted(boundaries, u, side="left")  # number of boundaries below u
    tie = (code < 7) & (u == boundaries[np.minimum(code, 6)]) & (code % 2 == 1)  # a tie above an odd code goes up
    code = (code + tie + 8 * np.signbit(blocks)).astype(np.uint8).reshape(x.shape)
    return code[:, 0::2] | code[:, 1::2] << 4, scales


golden, dump = map(pathlib.Path, sys.argv[1:3])
for case in json.loads((golden / "manifest.json").read_text())["cases"]:
    if case["words"] == "mxfp4" and case["kind"] == "quantize" and case["cols"] % 32 == 0 and not case["hadamard"]["size"]:
        codes, scales = my_kernel(np.load(golden / case["name"] / "input.npy"))
        (dump / case["name"]).mkdir(parents=True, exist_ok=True)
        np.save(dump / case["name"] / "codes.npy", codes)
        np.save(dump / case["name"] / "scales.npy", scales)
