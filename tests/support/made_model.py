#!/usr/bin/python3
"""A made-up model to measure whole-model commands with: shards of .safetensors named as a language model's.

    made_model.py FOLDER [bytes [bf16|f32]]     # 2e9 bytes of bf16 by default

Weights are normal numbers times a size of their own for each row, from one pool at other offsets, so that 2 GB take seconds.
Nothing here is a test: `tests/models.py` judges values. Measure with
    /usr/bin/time -v fp4sim compare FOLDER --specs mxfp4
    /usr/bin/time -v fp4sim quantize FOLDER --scheme modelopt_nvfp4 --out OUT --no-sync
"""
import json
import os
import sys

import numpy as np

WIDE, NARROW, SHARD = 11008, 4096, 500_000_000


def bits_of(values, kind):
    return values if kind == "f32" else (values.view(np.uint32) >> 16).astype(np.uint16)


def main():
    folder, total = sys.argv[1], int(float(sys.argv[2])) if len(sys.argv) > 2 else 2_000_000_000
    kind = sys.argv[3] if len(sys.argv) > 3 else "bf16"
    width = 4 if kind == "f32" else 2
    os.makedirs(folder)
    rng = np.random.default_rng(0)
    pool = bits_of(rng.standard_normal(1 << 24, dtype=np.float32) * np.float32(0.02), kind)
    tensors, size, layer = [], 0, 0
    while size < total:
        for name, rows, cols in (("q_proj", NARROW, NARROW), ("up_proj", WIDE, NARROW), ("down_proj", NARROW, WIDE)):
            tensors.append((f"model.layers.{layer}.{name}.weight", rows, cols))
            size += rows * cols * width
        layer += 1
    shards, held = [[]], 0
    for t in tensors:
        if held > SHARD:
            shards.append([])
            held = 0
        shards[-1].append(t)
        held += t[1] * t[2] * width
    places = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for tensor, rows, cols in shard:
            end = at + rows * cols * width
            header[tensor] = {"dtype": kind.upper(), "shape": [rows, cols], "data_offsets": [at, end]}
            at, places[tensor] = end, name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for tensor, rows, cols in shard:
                start, left = int(rng.integers(pool.size // 2)), rows * cols
                while left:
                    part = pool[start : start + left]
                    part.tofile(out)
                    left, start = left - part.size, 0
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as out:
        json.dump({"metadata": {"total_size": size}, "weight_map": places}, out)


main()
