#!/usr/bin/python3
"""Whole models in every checkpoint format, made and judged by numpy: usage models.py PATH_OF_FP4SIM.

Layouts and decoding are written down here from the formats' own documents (see `fp4sim list checkpoints`).
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from checkpoint_files import *

PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""

# name -> (codes, scales, factor, dtypes, block, reciprocal), names put in the place of "weight" or after the name
SCHEMES = {
    "modelopt_nvfp4": ("weight", "weight_scale", "weight_scale_2", "U8", "F8_E4M3", 16, False),
    "compressed_tensors_nvfp4": ("weight_packed", "weight_scale", "weight_global_scale", "U8", "F8_E4M3", 16, True),
    "compressed_tensors_mxfp4": ("weight_packed", "weight_scale", "", "U8", "U8", 32, False),
    "modelopt_mxfp4": ("weight", "weight_scale", "", "U8", "U8", 32, False),
    "gpt_oss_mxfp4": ("_blocks", "_scales", "", "U8", "U8", 32, False),
    "deepseek_mxfp4": ("weight", "scale", "", "I8", "F8_E8M0", 32, False),
}


def stem(name, scheme):
    return name if scheme == "gpt_oss_mxfp4" else name.removesuffix("weight")


def values_of(tensors, name, scheme, shape):
    codes, scales, factor, ctype, stype, block, reciprocal = SCHEMES[scheme]
    at = stem(name, scheme)
    assert tensors[at + codes][0] == ctype and tensors[at + scales][0] == stype, scheme
    packed, scale = tensors[at + codes][1], tensors[at + scales][1]
    expected = (*shape[:-1], shape[-1] // 32, 16) if codes == "_blocks" else (*shape[:-1], shape[-1] // 2)
    assert packed.shape == expected and scale.shape == (*shape[:-1], shape[-1] // block), (scheme, packed.shape)
    rows = int(np.prod(shape[:-1]))
    codes, scale = nibbles(packed.reshape(rows, -1)), (UE4M3 if block == 16 else E8M0)[scale.reshape(rows, -1)]
    if not factor:
        return decode(codes, scale, block, 1).reshape(shape)
    stored = tensors[at + factor][1].reshape(-1).view(np.float32)[0]
    return (decode_compressed_tensors if reciprocal else decode_modelopt)(codes, scale, stored).reshape(shape)


def check_schemes(folder):
    """A model of two shards to every scheme: codes equal those of one tensor alone, and decode to the same numbers."""
    source = folder / "source"
    source.mkdir()
    weights = {"l.0.up.weight": (48, 320), "l.0.experts.weight": (3, 8, 96), "l.1.down.weight": (64, 160)}
    x = {n: (rng.standard_normal(s) * 0.02).astype(np.float32) for n, s in weights.items()}
    first, second, third = weights
    embed = rng.standard_normal((10, 36)).astype(np.float32)
    save(source / "model-00001-of-00002.safetensors",
         {"embed.weight": ("F32", embed), first: ("F32", x[first]), second: ("BF16", bf16(x[second]))})
    save(source / "model-00002-of-00002.safetensors",
         {third: ("F32", x[third]), "norm.weight": ("F32", embed[0]), "steps": ("I32", np.array([7], np.int32))})
    index = {"weight_map": {n: f"model-0000{1 if i < 3 else 2}-of-00002.safetensors"
                            for i, n in enumerate(["embed.weight", first, second, third, "norm.weight", "steps"])}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    save(source / "consolidated.safetensors", {"embed.weight": ("F32", embed)})  # not in the index: not of the model
    x[second] = floats(("BF16", bf16(x[second])))
    alone = {}
    for name in weights:
        np.save(folder / "x.npy", x[name])
        for spec in ("nvfp4", "mxfp4", "compressed_tensors_mxfp4", "modelopt_mxfp4"):
            run("quantize", folder / "x.npy", "--spec", spec, "--out", folder / "alone", "--force", "--no-sync")
            alone[name, spec] = np.load(folder / "alone/dequantized.npy")
    def all_weights(folder, scheme):
        """Schemes of experts take other layers where they are named in full."""
        if scheme not in ("gpt_oss_mxfp4", "deepseek_mxfp4"):
            return ()
        rows = json.loads(run("inspect", folder, "--json"))["rows"]
        return ("--tensors", *(r["tensor"] for r in rows if any(r["tensor"].startswith(n.removesuffix(".weight")) for n in weights)))

    before = source
    for scheme in SCHEMES:
        # The owner's rule, which the command says.
        spec = scheme if scheme in ("compressed_tensors_mxfp4", "modelopt_mxfp4") else "nvfp4" if SCHEMES[scheme][5] == 16 else "mxfp4"
        out = folder / scheme
        told = json.loads(run("quantize", source, "--scheme", scheme, "--out", out, "--no-sync", "--json", *all_weights(source, scheme)))
        assert sum(r["became"] == scheme for r in told["rows"]) == 3 and told["spec"] == spec, told
        shards = [load(out / f"model-0000{i}-of-00002.safetensors") for i in (1, 2)]
        written = json.loads((out / "model.safetensors.index.json").read_text())
        for i, shard in enumerate(shards):
            for name in shard:
                assert written["weight_map"][name] == f"model-0000{i + 1}-of-00002.safetensors", name
        tensors = shards[0] | shards[1]
        assert np.array_equal(floats(tensors["embed.weight"]), embed) and tensors["steps"][1][0] == 7
        for name, shape in weights.items():
            got = values_of(tensors, name, scheme, shape)
            # One tensor alone is decoded as (q * s) * g: an ulp from the order of the scheme's owner.
            tolerance = 3e-7 if SCHEMES[scheme][2] else 0
            assert np.allclose(got, alone[name, spec], rtol=tolerance, atol=0), (scheme, name)
            noise = ((got - x[name]).astype(np.float64) ** 2).sum() / (x[name].astype(np.float64) ** 2).sum()
            row = next(r for r in told["rows"] if r["tensor"] == name)
            assert abs(row["nmse"] - noise) < 1e-5 * noise, (scheme, name, row, noise)
        run("dequantize", out, "--out", folder / "back", "--force", "--no-sync")
        back = {k: v for i in (1, 2) for k, v in load(folder / f"back/model-0000{i}-of-00002.safetensors").items()}
        for name, shape in weights.items():
            assert np.array_equal(floats(back[name]), values_of(tensors, name, scheme, shape)), (scheme, name)
        # From scheme to scheme: FP4 weights are as good a source as bf16 ones.
        run("quantize", before, "--scheme", scheme, "--out", folder / "again", "--force", "--no-sync", *all_weights(before, scheme))
        again = load(folder / "again/model-00002-of-00002.safetensors")
        assert values_of(again, third, scheme, weights[third]).shape == weights[third]
        before = out
    run("dequantize", folder / "modelopt_nvfp4", "--type", "bf16", "--out", folder / "narrow", "--no-sync")
    narrow = load(folder / "narrow/model-00002-of-00002.safetensors")[third]
    shard = load(folder / "modelopt_nvfp4/model-00002-of-00002.safetensors")
    assert np.array_equal(narrow[1], bf16(values_of(shard, third, "modelopt_nvfp4", weights[third]))), "bf16"
    rows = json.loads(run("compare", folder / "modelopt_mxfp4", "--specs", "mxfp4", "nvfp4", "--json"))["rows"]
    exact = [r for r in rows if r["tensor"] == third and r["spec"] == "mxfp4"]
    assert exact[0]["nmse"] == 0 and exact[0]["best"], exact  # MXFP4 values are exact in MXFP4


FP8 = {"fp8_block": ("weight_scale_inv", 128, 128), "compressed_tensors_fp8": ("weight_scale", 1, None)}


def fp8_of(x, rows, cols):
    """Codes of E4M3 under a power of two for each block: 2^ceil(log2(amax / 448)), nearest, ties to the even code."""
    cols, grid = cols or x.shape[1], UE4M3[:127].astype(np.float64)
    scales = np.ones((-(-x.shape[0] // rows), -(-x.shape[1] // cols)))
    for i, j in np.ndindex(scales.shape):
        amax = float(np.abs(x[i * rows:(i + 1) * rows, j * cols:(j + 1) * cols]).max())
        k = -140
        while amax > 0 and 448 * 2.0 ** k < amax:
            k += 1
        scales[i, j] = 2.0 ** k if amax > 0 else 1
    spread = np.repeat(np.repeat(scales, rows, 0), cols, 1)[:x.shape[0], :x.shape[1]]
    size, middles = np.abs(x) / spread, (grid[1:] + grid[:-1]) / 2
    code = np.searchsorted(middles, size)
    code += (size == middles[np.minimum(code, 125)]) & (code % 2 == 1)
    return (code | np.signbit(x) * 128).astype(np.uint8), scales.astype(np.float32), np.copysign(grid[code], x) * spread


def check_fp8(folder):
    """FP4 of every scheme, bf16 and FP8 to FP8: codes, scales, what the command says of the error, what stays."""
    shape = (200, 320)  # ends within blocks
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-3, 3, shape))).astype(np.float32)
    x[3] = 0
    save(folder / "m.safetensors", {"l.up.weight": ("BF16", bf16(x)), "norm.weight": ("F32", x[0])})
    (folder / "gguf").mkdir()
    gguf(folder / "gguf/m.gguf", {"l.up.weight": (0, shape, x.tobytes())})
    sources = [folder / "m.safetensors"]
    for scheme in (*SCHEMES, "mlx_nvfp4", "mlx_mxfp4", "ggml_nvfp4", "ggml_mxfp4"):
        given = folder / ("gguf/m.gguf" if scheme.startswith("ggml") else "m.safetensors")
        if scheme == "gpt_oss_mxfp4":
            save(folder / "stack.safetensors", {"l.experts.down_proj": ("BF16", bf16(x.T.reshape(1, *x.T.shape)))})
            given = folder / "stack.safetensors"
        run("quantize", given, "--scheme", scheme, "--out", folder / scheme, "--no-sync", *(("--tensors", "l.up.weight") if scheme == "deepseek_mxfp4" else ()))
        sources.append(folder / scheme)
    for source in sources:
        stacks, read = source.name == "gpt_oss_mxfp4", source
        if source.is_dir():
            run("dequantize", source, "--out", folder / f"{source.name}.d", "--no-sync")
            read = next((folder / f"{source.name}.d").glob("*.safetensors"))
        y = floats(next(v for n, v in load(read).items() if n.startswith("l.")))
        y = (np.swapaxes(y, 1, 2) if y.ndim == 3 else y).reshape(shape).astype(np.float64)
        for scheme, (ending, rows, cols) in FP8.items():
            o, b, c = (folder / f"{source.name}.{scheme}.{end}" for end in "obc")
            words = ("quantize", source, "--scheme", scheme, "--out", o, "--no-sync")
            if stacks and rows > 1:  # an expert of 200 rows ends within a block of 128
                assert "blocks of 128 rows" in run(*words, code=2)
                continue
            told = json.loads(run(*words, "--json"))
            out = load(next(o.glob("*.safetensors")))
            at = "l.experts.down_proj." if stacks else "l.up."
            codes, scales, decoded = fp8_of(y, rows, cols)
            assert out[at + "weight"][0] == "F8_E4M3" and out[at + ending][0] == "F32"
            assert np.array_equal(out[at + "weight"][1].reshape(shape), codes), (source, scheme)
            assert np.array_equal(out[at + ending][1].view(np.float32).reshape(scales.shape), scales), (source, scheme)
            row, nmse = told["rows"][0], ((decoded - y) ** 2).sum() / (y ** 2).sum()
            assert abs(row["nmse"] - nmse) <= 1e-9 and told["nmse"] == row["nmse"], (source, scheme, row, nmse)
            assert "mxfp4" not in str(source) or nmse < 1e-9, (source, nmse)  # E4M3 holds 15 binades of E2M1 exactly
            run("dequantize", o, "--out", b, "--no-sync")
            back = load(next(b.glob("*.safetensors")))[at + "weight"]
            assert np.array_equal(floats(back).reshape(shape), decoded.astype(np.float32)), (source, scheme)
            # The same blocks are carried under the name that the scheme has, others are quantised anew.
            again = json.loads(run("quantize", o, "--scheme", scheme, "--out", c, "--no-sync", "--json"))
            assert again["rows"][0]["outcome"] == "carried", again
            assert load(next(c.glob("*.safetensors")))[at + "weight"][1].tobytes() == codes.tobytes()
    renamed = {"l.up.weight": ("F8_E4M3", codes), "l.up.scale": ("F8_E8M0", np.full((2, 3), 120, np.uint8))}
    save(folder / "v4.safetensors", renamed)
    run("quantize", folder / "v4.safetensors", "--scheme", "fp8_block", "--out", folder / "v3", "--no-sync")
    out = load(folder / "v3/v4.safetensors")
    assert (out["l.up.weight_scale_inv"][1].view(np.float32) == 2.0 ** -7).all() and np.array_equal(out["l.up.weight"][1], codes)
    x[7, 5] = np.nan
    save(folder / "nan.safetensors", {"l.up.weight": ("F32", x)})
    error = run("quantize", folder / "nan.safetensors", "--scheme", "fp8_block", "--out", folder / "no", code=2)
    assert "l.up.weight" in error and "not finite" in error and not (folder / "no").exists(), error
    for words in (("--scale-layout", "128x4"), ("--nibbles", "high_first"), ("--spec", "nvfp4")):
        run("quantize", folder / "m.safetensors", "--scheme", "fp8_block", "--out", folder / "no", *words, code=2)


def check_any_bytes(folder):
    """Every code and scale, experts with a factor each: decoded as the formats say."""
    codes = rng.integers(0, 256, (6, 64), dtype=np.uint8)
    scales = rng.integers(0, 127, (6, 8), dtype=np.uint8)
    g = np.array([0.5, 0.3, 7.0], np.float32)
    save(folder / "any.safetensors", {"e.weight": ("U8", codes.reshape(3, 2, 64)),
                                      "e.weight_scale": ("F8_E4M3", scales.reshape(3, 2, 8)),
                                      "e.weight_scale_2": ("F32", g)})
    run("dequantize", folder / "any.safetensors", "--out", folder / "any", "--no-sync")
    got = floats(load(folder / "any/any.safetensors")["e.weight"]).reshape(6, 128)
    expected = decode_modelopt(nibbles(codes), UE4M3[scales], np.repeat(g, 2)[:, None])
    assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))
    # 1 + 2^-8 and 1 + 3 * 2^-8 lie half way between two bf16 numbers: the even ones are 1 and 1 + 2^-6.
    save(folder / "tie.safetensors", {"e.weight": ("U8", np.full((2, 16), 0x22, np.uint8)),
                                      "e.weight_scale": ("F8_E4M3", np.full((2, 2), 0x38, np.uint8)),
                                      "e.weight_scale_2": ("F32", np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32))})
    run("dequantize", folder / "tie.safetensors", "--type", "bf16", "--out", folder / "tie", "--no-sync")
    assert (load(folder / "tie/tie.safetensors")["e.weight"][1] == [[0x3F80], [0x3F82]]).all(), "ties"


def check_gguf(folder):
    x = rng.standard_normal((3, 128)).astype(np.float32)
    mx = rng.integers(0, 255, (3, 4, 17), dtype=np.uint8)  # scale 0xFF apart
    nv = rng.integers(0, 256, (3, 2, 36), dtype=np.uint8)
    nv[..., :4] &= 127
    nv[..., :4][nv[..., :4] == 127] = 126
    q8 = np.zeros((3, 4, 34), np.uint8)
    d = (rng.random((3, 4)) * 0.1).astype(np.float16)
    q = rng.integers(-128, 128, (3, 4, 32), dtype=np.int8)
    q8[..., :2], q8[..., 2:] = d[..., None].view(np.uint8), q.view(np.uint8)
    shape = (3, 128)
    tensors = {"blk.0.attn_norm.weight": (0, (128,), x[0].tobytes()), "blk.0.a.weight": (1, shape, x.astype(np.float16).tobytes()),
               "blk.0.b.weight": (30, shape, bf16(x).tobytes()), "blk.0.c.weight": (8, shape, q8.tobytes()),
               "blk.0.d.weight": (39, shape, mx.tobytes()), "blk.0.e.weight": (40, shape, nv.tobytes()),
               "blk.0.e.scale": (0, (1,), np.float32(0.75).tobytes())}
    gguf(folder / "m.gguf", tensors)
    run("dequantize", folder / "m.gguf", "--out", folder / "g", "--no-sync")
    got = load(folder / "g/m.safetensors")
    assert got["blk.0.a.weight"][0] == "F16"
    expect = {"blk.0.c.weight": (d.astype(np.float32)[..., None] * q).reshape(shape),
              "blk.0.d.weight": (E2M1[halves(mx[..., 1:])] * E8M0[mx[..., :1]]).reshape(shape),
              "blk.0.e.weight": (E2M1[halves(nv[..., 4:].reshape(3, 2, 4, 8))] * UE4M3[nv[..., :4]][..., None]
                                 * np.float32(0.75)).reshape(shape)}
    for name, values in expect.items():
        assert np.array_equal(floats(got[name]).view(np.uint32), values.astype(np.float32).view(np.uint32)), name
    assert np.array_equal(got["blk.0.b.weight"][1], bf16(x)), "kept"
    listed = {r["tensor"]: r for r in json.loads(run("inspect", folder / "m.gguf", "--json"))["rows"]}
    assert listed["blk.0.d.weight"]["scheme"] == "ggml_mxfp4" and listed["blk.0.d.weight"]["bits_per_element"] == 4.25
    assert listed["blk.0.e.weight"]["scheme"] == "ggml_nvfp4" and listed["blk.0.c.weight"]["dtype"] == "Q8_0"
    run("quantize", folder / "m.gguf", "--scheme", "compressed_tensors_nvfp4", "--out", folder / "gq", "--no-sync")
    assert load(folder / "gq/m.safetensors")["blk.0.c.weight_packed"][1].shape == (3, 64)
    whole = (folder / "m.gguf").read_bytes()
    (folder / "cut.gguf").write_bytes(whole[:-300])
    assert "truncated: tensor 'blk.0.e" in run("inspect", folder / "cut.gguf", code=2)
    (folder / "bad.gguf").write_bytes(whole[:40])
    assert "damaged" in run("inspect", folder / "bad.gguf", code=2)
    gguf(folder / "k.gguf", {"blk.0.k.weight": (14, (1, 256), bytes(210))})
    run("inspect", folder / "k.gguf")
    error = run("dequantize", folder / "k.gguf", "--out", folder / "k", code=2)
    assert "blk.0.k.weight" in error and "Q6_K" in error, error


def check_gguf_written(folder):
    x = (rng.standard_normal((6, 128)) * 0.05).astype(np.float32)
    steps, k = struct.pack("<3i", 7, 8, 9), bytes(rng.integers(0, 256, 210, dtype=np.uint8))
    gguf(folder / "m.gguf", {"blk.0.up.weight": (0, (6, 128), x.tobytes()), "blk.0.k.weight": (14, (1, 256), k),
                             "blk.0.norm.weight": (0, (5,), x[0, :5].tobytes()), "steps": (26, (3,), steps)})
    np.save(folder / "x.npy", x)
    np.save(folder / "b.npy", floats(("BF16", bf16(x))))

    def alone(file, spec):
        run("quantize", folder / file, "--spec", spec, "--out", folder / "alone", "--force", "--no-sync")
        return np.load(folder / "alone/dequantized.npy").view(np.uint32)

    def written(source, *words):
        run("quantize", folder / source, *words, "--out", folder / "out", "--force", "--no-sync")
        return load_gguf(folder / "out/m.gguf")

    def mxfp4(raw):
        b = np.frombuffer(raw, np.uint8).reshape(6, 4, 17)
        return (E2M1[halves(b[..., 1:])] * E8M0[b[..., :1]]).reshape(6, 128).astype(np.float32).view(np.uint32)

    def nvfp4(raw, g):
        b = np.frombuffer(raw, np.uint8).reshape(6, 2, 36)
        y = E2M1[halves(b[..., 4:].reshape(6, 2, 4, 8))] * UE4M3[b[..., :4]][..., None]
        return (y.reshape(6, 128).astype(np.float32) * np.float32(g)).view(np.uint32)

    up = ("--tensors", "blk.0.up.weight")
    got, head = written("m.gguf", "--scheme", "ggml_mxfp4", *up)
    assert head.startswith(load_gguf(folder / "m.gguf")[1]), "the entries stay"
    assert got["blk.0.k.weight"] == (14, (1, 256), k) and got["steps"] == (26, (3,), steps), "kept as they are"
    assert got["blk.0.up.weight"][:2] == (39, (6, 128))
    assert np.array_equal(mxfp4(got["blk.0.up.weight"][2]), alone("x.npy", "ggml_mxfp4"))
    got, _ = written("m.gguf", "--scheme", "ggml_nvfp4", *up)
    assert "blk.0.up.scale" not in got
    assert np.array_equal(nvfp4(got["blk.0.up.weight"][2], 1), alone("x.npy", "nvfp4,tensor_scale=none"))
    got, _ = written("m.gguf", "--scheme", "ggml_nvfp4", "--spec", "nvfp4", *up)
    kind, shape, raw = got["blk.0.up.scale"]
    assert (kind, shape) == (0, (1,))
    assert np.array_equal(nvfp4(got["blk.0.up.weight"][2], np.frombuffer(raw, np.float32)[0]), alone("x.npy", "nvfp4"))
    run("dequantize", folder / "out", "--out", folder / "back", "--force", "--no-sync", "--tensors", "blk.0.up.weight", code=2)  # Q6_K
    gguf(folder / "m.gguf", {"blk.0.up.weight": (30, (6, 128), bf16(x).tobytes()), "blk.0.norm.weight": (0, (128,), x[0].tobytes())})
    got, _ = written("m.gguf", "--scheme", "ggml_mxfp4")
    assert got["blk.0.norm.weight"] == (0, (128,), x[0].tobytes())
    assert np.array_equal(mxfp4(got["blk.0.up.weight"][2]), alone("b.npy", "ggml_mxfp4"))
    run("dequantize", folder / "out", "--out", folder / "back", "--force", "--no-sync")
    back = load(folder / "back/m.safetensors")
    assert np.array_equal(floats(back["blk.0.up.weight"]).view(np.uint32), alone("b.npy", "ggml_mxfp4"))
    gguf(folder / "w.gguf", {"blk.0.up.weight": (0, (6, 96), x[:, :96].tobytes())})
    error = run("quantize", folder / "w.gguf", "--scheme", "ggml_nvfp4", "--out", folder / "w", code=2)
    assert "96 columns" in error and "64" in error, error


def check_gguf_source(folder):
    """FP4 in GGUF is made of GGUF; what makes one of something else is said, with both commands."""
    x = rng.standard_normal((6, 128)).astype(np.float32)
    save(folder / "a.safetensors", {"l.up.weight": ("F32", x)})
    gguf(folder / "b.gguf", {"blk.0.up.weight": (0, (6, 128), x.tobytes())})
    for source in (folder / "a.safetensors", folder):
        for scheme, word in (("ggml_mxfp4", "`llama-quantize m.gguf OUT.gguf MXFP4_MOE`"), ("ggml_nvfp4", "OUT` makes FP4")):  # llama-quantize of 0.7 has no NVFP4
            error = run("quantize", source, "--scheme", scheme, "--out", folder / "no", code=2)
            for told in ("a.safetensors", "convert_hf_to_gguf.py", f"--scheme {scheme} --out", word):
                assert told in error, (told, error)
            assert not (folder / "no").exists() and len(error.splitlines()) == 1, error
    # llama.cpp's graphs of Gemma 2 and Qwen2 have no use for a factor of a tensor: none is written for them.
    for name, refused in (("gemma2", True), ("qwen2", True), ("qwen3", False), ("llama", False)):
        gguf(folder / "c.gguf", {"blk.0.up.weight": (0, (6, 128), x.tobytes())}, architecture=name)
        words = ("quantize", folder / "c.gguf", "--scheme", "ggml_nvfp4")
        run(*words, "--out", folder / name, "--no-sync")
        assert not [n for n in load_gguf(folder / name / "c.gguf")[0] if n.endswith(".scale")]
        for spec in ("nvfp4", "vllm_nvfp4"):
            if refused:
                error = run(*words, "--spec", spec, "--out", folder / "no", code=2)
                assert "has a factor" in error and name in error and "tensor_scale=none" in error and not (folder / "no").exists(), error
            else:
                run(*words, "--spec", spec, "--out", folder / name, "--no-sync", "--force")
                assert "blk.0.up.scale" in load_gguf(folder / name / "c.gguf")[0]


def check_refusals(folder):
    x = rng.standard_normal((4, 40)).astype(np.float32)
    (folder / "s").mkdir()  # of diffusers: its index has another name. --dry-run says what the conversion does
    for name in "ab":
        save(folder / f"s/diffusion_pytorch_model-{name}.safetensors", {f"{name}.up.weight": ("F32", x[:, :32]), f"{name}.norm.weight": ("F32", x[0])})
    index = "diffusion_pytorch_model.safetensors.index.json"
    (folder / "s" / index).write_text(json.dumps({"weight_map": {f"{n}.{p}.weight": f"diffusion_pytorch_model-{n}.safetensors" for n in "ab" for p in ("up", "norm")}}))
    words = ("quantize", folder / "s", "--scheme", "modelopt_nvfp4", "--out", folder / "t", "--json", "--no-sync")
    planned = json.loads(run(*words, "--dry-run"))
    assert not (folder / "t").exists() and planned["out"] is None, planned
    done = json.loads(run(*words))
    for key in ("tensor", "became", "outcome", "bytes_in", "bytes_out"):
        assert [r[key] for r in planned["rows"]] == [r[key] for r in done["rows"]], key
    assert (planned["outcomes"], planned["bytes_out"]) == (done["outcomes"], done["bytes_out"]) and done["outcomes"]["quantised"] == 2
    assert set(json.loads((folder / "t" / index).read_text())["weight_map"].values()) == {f"diffusion_pytorch_model-{n}.safetensors" for n in "ab"}
    save(folder / "r.safetensors", {"a.weight": ("F32", x), "b.weight": ("F32", x[:, :32])})
    scheme = ("--scheme", "compressed_tensors_mxfp4", "--out", folder / "r")
    error = run("quantize", folder / "r.safetensors", *scheme, code=2)
    assert "r.safetensors" in error and "a.weight" in error and "40 columns" in error and "32" in error, error
    assert not (folder / "r").exists()
    error = run("quantize", folder / "r.safetensors", *scheme, "--tensors", "c.*", code=2)
    assert "--tensors" in error and "c.*" in error, error
    error = run("quantize", folder / "r.safetensors", *scheme, "--tensors", "b.*", "--spec", "nvfp4", code=2)
    assert "--spec" in error and "e8m0" in error, error
    error = run("quantize", folder / "r.safetensors", "--scheme", "gptq", "--out", folder / "r", code=2)
    assert "modelopt_nvfp4" in error, error
    run("quantize", folder / "r.safetensors", *scheme, "--keep", "a.*", "--no-sync")
    assert sorted(load(folder / "r/r.safetensors")) == ["a.weight", "b.weight_packed", "b.weight_scale"]
    hole = folder / "hole"
    hole.mkdir()
    (hole / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a.weight": "gone.safetensors"}}))
    error = run("inspect", hole, code=2)
    assert "gone.safetensors" in error and "a.weight" in error, error


def check_memory(folder):
    """48 MB of bf16 through compare and quantize: memory stays far below the model."""
    big = folder / "big"
    big.mkdir()
    x = bf16(rng.standard_normal((1024, 4096), np.float32))
    for i in range(2):
        save(big / f"model-{i}.safetensors", {f"l.{i}.{k}.weight": ("BF16", x) for k in range(3)})
    for words in (["compare", big, "--specs", "nvfp4", "mxfp4", "--json"],
                  ["quantize", big, "--scheme", "modelopt_nvfp4", "--out", folder / "small", "--no-sync"]):
        # A small parent: the memory of this one counts for a child until it runs another program.
        peak = int(subprocess.run([sys.executable, "-S", "-c", PEAK, FP4SIM, *map(str, words)], capture_output=True,
                                  text=True, check=True).stdout)
        assert peak < 40_000, (words, peak)

with tempfile.TemporaryDirectory() as name:
    for check in (check_schemes, check_fp8, check_any_bytes, check_gguf, check_gguf_written, check_gguf_source, check_refusals, check_memory):
        if len(sys.argv) > 2 and check.__name__ not in sys.argv[2:]:
            continue
        folder = pathlib.Path(name) / check.__name__
        folder.mkdir()
        check(folder)
