#!/usr/bin/python3
"""Kinds of checkpoints that are read, carried over, refused or left, judged by numpy: usage
model_kinds.py PATH_OF_FP4SIM [check_crafted ..].

Every kind is one that public checkpoints have; the numbers in them are made up.
"""
import itertools
import os
import pathlib
import resource
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from checkpoint_files import *

G = np.float32(0.0021)


def codes_and_scales(*shape, block=16):
    """Packed codes [.., K/2] and scale bytes [.., K/block] of a weight [.., K]."""
    low, high = (1, 127) if block == 16 else (100, 140)
    return (rng.integers(0, 256, (*shape[:-1], shape[-1] // 2), dtype=np.uint8),
            rng.integers(low, high, (*shape[:-1], shape[-1] // block), dtype=np.uint8))


def nvfp4(codes, scales, g):
    return decode_modelopt(nibbles(codes), UE4M3[scales], g)


def mxfp4(codes, scales):
    return decode(nibbles(codes), E8M0[scales], 32, 1)


def bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def decoded(path, *words):
    """name -> float32 array of what dequantize makes of a file."""
    run("dequantize", path, "--out", path.parent / "decoded", "--force", "--no-sync", *words)
    return {k: floats(v) for k, v in load(path.parent / "decoded" / path.name).items() if v[0] in ("F32", "BF16")}


def check_types(folder):
    """The same bytes under other types, each a layer of one file."""
    path = folder / "m.safetensors"
    codes, scales = codes_and_scales(16, 64)
    factors = {"F32": (np.float32, G), "BF16": (np.uint16, bf16(np.float32([G]))[0]), "F16": (np.float16, np.float16(G))}
    tensors, expected = {}, {}
    for ctype, stype, ftype, shape in itertools.product(("U8", "I8", "F4"), ("F8_E4M3", "U8"), factors, ((), (1,), (1, 1))):
        kind, value = factors[ftype]
        layer = f"{ctype}.{stype}.{ftype}.{len(shape)}.weight"
        tensors |= {layer: (ctype, codes), layer + "_scale": (stype, scales), layer + "_scale_2": (ftype, np.full(shape, value, kind))}
        g = floats(("BF16", np.full(1, value))) if ftype == "BF16" else np.float32(value)
        expected[layer] = nvfp4(codes, scales, g)
    save(path, tensors)
    got = decoded(path)
    assert sorted(got) == sorted(expected) and len(got) == 54, sorted(got)
    for layer, x in expected.items():
        assert np.array_equal(bits(got[layer]), bits(x)), layer
    codes, scales = codes_and_scales(16, 64, block=32)
    for names in (("weight", "weight_scale"), ("weight_packed", "weight_scale"), ("weight", "scale")):
        kinds = list(itertools.product(("U8", "I8", "F4"), ("F8_E8M0", "U8")))
        save(path, {f"{ctype}.{stype}.{name}": value for ctype, stype in kinds
                    for name, value in ((names[0], (ctype, codes)), (names[1], (stype, scales)))})
        got = decoded(path)
        assert sorted(got) == sorted(f"{ctype}.{stype}.weight" for ctype, stype in kinds), sorted(got)
        for layer, x in got.items():
            assert np.array_equal(bits(x), bits(mxfp4(codes, scales))), (names, layer)


def check_stacks(folder):
    """Experts in one tensor, with a factor each, or one for gate and one for up; parts of a fused qkv matrix."""
    path = folder / "m.safetensors"
    e, n, k = 3, 8, 64
    codes, scales = codes_and_scales(e, n, k)
    each = np.float32([0.5, 0.3, 0.007])
    for name in ("m.experts.down_proj", "m.experts.gate_up_proj"):
        for shape in ((e,), (e, 1), (e, 1, 1)):
            save(path, {name: ("U8", codes), name + "_weight_scale": ("F8_E4M3", scales),
                        name + "_weight_scale_2": ("F32", each.reshape(shape))})
            assert np.array_equal(bits(decoded(path)[name]), bits(nvfp4(codes, scales, each.reshape(e, 1, 1)))), (name, shape)
    pair = (rng.random((e, 2)) + 0.1).astype(np.float32)
    stack = {"m.experts.gate_up_proj": ("U8", codes), "m.experts.gate_up_proj_weight_scale": ("F8_E4M3", scales),
             "m.experts.gate_up_proj_weight_scale_2": ("F32", pair)}
    save(path, stack)
    expected = nvfp4(codes, scales, np.repeat(pair, n // 2, 1)[..., None])
    assert np.array_equal(bits(decoded(path)["m.experts.gate_up_proj"]), bits(expected))
    # down_proj has no two parts: which rows a second factor is for is not known.
    save(path, {k.replace("gate_up", "down"): v for k, v in stack.items()})
    error = run("dequantize", path, "--out", folder / "no", code=2)
    assert "down_proj" in error and "6 factors" in error and not (folder / "no").exists(), error
    # Llama 4 and GPT-OSS as Model-Optimizer writes them: [E, in/2, out], two rows a byte, scales [E, in/16, out].
    codes, scales = codes_and_scales(e, 40, 64)
    for name, g in (("m.experts.down_proj", np.float32(0.3)), ("m.experts.gate_up_proj", each)):
        save(path, {name: ("U8", codes.transpose(0, 2, 1)), name + "_weight_scale": ("F8_E4M3", scales.transpose(0, 2, 1)),
                    name + "_weight_scale_2": ("F32", g)})
        expected = nvfp4(codes, scales, g.reshape(-1, 1, 1)).transpose(0, 2, 1)
        got = decoded(path)[name]
        assert got.shape == (e, 64, 40) and np.array_equal(bits(got), bits(expected)), name
    # Scales that are the transpose of what is expected have as many bytes.
    codes, scales = codes_and_scales(8, 128)
    save(path, {"a.weight": ("U8", codes), "a.weight_scale": ("F8_E4M3", np.zeros((4, 16), np.uint8)), "a.weight_scale_2": ("F32", G)})
    error = run("dequantize", path, "--out", folder / "no", code=2)
    assert "a.weight_scale" in error and "(4, 16)" in error, error
    # qkv: 4 heads and 2 of keys and values, 8 each: 32 + 16 + 16 rows.
    codes, scales = codes_and_scales(64, 64)
    qkv = {"l.qkv_proj.weight": ("U8", codes), "l.qkv_proj.weight_scale": ("F8_E4M3", scales),
           "l.qkv_proj.weight_scale_2": ("F32", each)}
    save(path, qkv)
    error = run("dequantize", path, "--out", folder / "no", code=2)
    assert "qkv_proj" in error and "config.json" in error, error
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}))
    rows = np.repeat(each, [32, 16, 16])[:, None]
    assert np.array_equal(bits(decoded(path)["l.qkv_proj.weight"]), bits(nvfp4(codes, scales, rows)))


def check_incomplete(folder):
    path = folder / "m.safetensors"
    codes, scales = codes_and_scales(16, 32)
    whole = {"a.weight": ("U8", codes), "a.weight_scale": ("F8_E4M3", scales), "a.weight_scale_2": ("F32", G)}
    cases = {
        "factor": ({"b.weight": ("U8", codes), "b.weight_scale": ("F8_E4M3", scales)}, "b.weight_scale_2 is missing"),
        "global": ({"b.weight_packed": ("U8", codes), "b.weight_scale": ("F8_E4M3", scales)}, "b.weight_global_scale is missing"),
        "scales": ({"b.weight_packed": ("U8", codes), "b.weight_global_scale": ("F32", G)}, "b.weight_scale is missing"),
        "blocks": ({"b_blocks": ("U8", codes.reshape(16, 1, 16))}, "b_scales is missing"),
        "shape": ({"b.weight": ("U8", codes), "b.weight_scale": ("F8_E4M3", scales[:8]), "b.weight_scale_2": ("F32", G)}, "(8, 2)"),
        "block": ({"b.weight": ("U8", codes[:, :12]), "b.weight_scale": ("F8_E4M3", scales), "b.weight_scale_2": ("F32", G)}, "24 columns"),
    }
    for value in (0, np.inf, np.nan, -1):
        cases[f"{value}"] = ({"b.weight": ("U8", codes), "b.weight_scale": ("F8_E4M3", scales),
                              "b.weight_scale_2": ("F32", np.float32(value))}, "b.weight_scale_2")
    for name, (tensors, word) in cases.items():
        save(path, whole | tensors)
        layer = next(iter(tensors))
        for words in (("dequantize", path), ("quantize", path, "--scheme", "compressed_tensors_nvfp4")):
            error = run(*words, "--out", folder / "no", code=2)
            assert layer in error and word in error and not (folder / "no").exists(), (name, words, error)
        run("dequantize", path, "--tensors", "a.weight", "--out", folder / name, "--no-sync")
        got = load(folder / name / "m.safetensors")
        assert got["a.weight"][0] == "F32" and np.array_equal(got[layer][1], tensors[layer][1]), name


def check_not_finite(folder):
    path = folder / "m.safetensors"
    codes, scales = codes_and_scales(16, 32)
    scales[3, 1] = 0x7F
    save(path, {"a.weight": ("U8", codes), "a.weight_scale": ("F8_E4M3", scales), "a.weight_scale_2": ("F32", G)})
    for words in (("dequantize", path), ("quantize", path, "--scheme", "compressed_tensors_nvfp4")):
        rows = json.loads(run(*words, "--json", "--out", folder / words[0], "--no-sync"))["rows"]
        assert rows[0]["nonfinite"] == 16, rows
    x = rng.standard_normal((32, 64)).astype(np.float32)
    x[1, 2], x[5, 3] = np.nan, np.inf
    save(path, {"a.weight": ("BF16", bf16(x) | (np.isnan(x).astype(np.uint16) << 6))})
    rows = json.loads(run("quantize", path, "--scheme", "modelopt_nvfp4", "--json", "--out", folder / "n", "--no-sync"))["rows"]
    assert rows[0]["nonfinite"] >= 2 and rows[0]["nmse"] < 0.02, rows
    save(path, {"a.weight": ("F32", np.full((32, 64), np.nan, np.float32))})
    row = json.loads(run("quantize", path, "--scheme", "modelopt_nvfp4", "--json", "--out", folder / "all", "--no-sync"))["rows"][0]
    assert row["nmse"] is None and row["nonfinite"] == 2048, row
    text = run("compare", path, "--specs", "mxfp4", "nvfp4")
    assert "inf" not in text and "*" not in text, text


def check_left(folder):
    """What looks quantised and is not understood: exit code 1, named, nothing written; --allow-left keeps the bytes."""
    path = folder / "m.safetensors"
    codes, scales = codes_and_scales(16, 32)
    x = bf16(rng.standard_normal((16, 64)).astype(np.float32))
    whole = {"a.weight": ("U8", codes), "a.weight_scale": ("F8_E4M3", scales), "a.weight_scale_2": ("F32", G),
             "c.weight": ("BF16", x), "layer_norm.weight": ("BF16", x[0]), "logit_scale": ("BF16", x[0, :1])}
    f32 = lambda *shape: ("F32", np.ones(shape, np.float32))
    cases = {"bytes": {"b.weight": ("U8", codes)}, "fp8": {"b.weight": ("F8_E4M3", codes)}, "f4": {"b.weight": ("F4", codes)},
             "int8": {"b.weight": ("I8", codes), "b.weight_scale": f32(16, 1)}, "awq": {"b.qweight": ("I32", codes.astype(np.int32))},
             "scale": {"c.weight_scale": f32(1)}, "beside": {"c.weight_scale_2": f32(1)}, "e8m0": {"b.other": ("F8_E8M0", scales)},
             "words": {"b.weight": ("I32", codes.astype(np.int32))}}
    for name, tensors in cases.items():
        save(path, whole | tensors)
        for words in (("dequantize", path), ("quantize", path, "--scheme", "compressed_tensors_nvfp4")):
            error = run(*words, "--out", folder / "no", code=1)
            assert all(f"\n  {t}: " in error for t in tensors) and "x0a" not in error and "--allow-left" in error and "logit_scale" not in error, (name, error)
            assert not (folder / "no").exists(), name
            if words[0] == "quantize":
                words += ("--keep", "c.weight")  # it would write a c.weight_scale of its own
            told = json.loads(run(*words, "--allow-left", "--json", "--out", folder / "left", "--no-sync", "--force"))
            assert told["outcomes"]["not understood"] == len(tensors), (name, told["outcomes"])
            got = load(folder / "left/m.safetensors")
            for t, (kind, array) in tensors.items():
                assert got[t][0] == kind and got[t][1].tobytes() == np.asarray(array).tobytes(), (name, t)
        run("compare", path, "--specs", "mxfp4", code=1)
        run("compare", path, "--specs", "mxfp4", "--allow-left")
        listed = json.loads(run("inspect", path, "--json"))
        assert listed["not_understood"] == len(tensors), name
    save(path, {"c.weight": ("BF16", x)})
    error = run("dequantize", path, "--out", folder / "no", code=2)
    assert "nothing to decode" in error and not (folder / "no").exists(), error


def check_fp8(folder):
    path = folder / "m.safetensors"
    n, k = 130, 200
    table = {"F8_E4M3": np.array([(-1 if c & 128 else 1) * UE4M3[c & 127] for c in range(256)], np.float32)}
    e5 = [(-1 if c & 128 else 1) * ((c & 3) * 2.0**-16 if (c & 127) < 4 else (1 + (c & 3) / 4) * 2.0 ** ((c >> 2 & 31) - 15)) for c in range(256)]
    table["F8_E5M2"] = np.array(e5, np.float32)
    w = rng.integers(0, 0x7B, (n, k), dtype=np.uint8) | (rng.integers(0, 2, (n, k), dtype=np.uint8) << 7)
    f = (rng.random((n, 1)) * 2.0**-9 + 2.0**-12).astype(np.float32)
    blocks = (rng.random((2, 2)) * 2.0**-9 + 2.0**-12).astype(np.float32)
    spread = np.repeat(np.repeat(blocks, 128, 0), 128, 1)[:n, :k]
    narrow = bf16(f)
    e8 = rng.integers(110, 120, (2, 2), dtype=np.uint8)
    cases = {
        "tensor": ("b.weight_scale", ("F32", np.float32(0.003)), np.float32(0.003)),
        "one": ("b.weight_scale", ("F32", np.float32([0.003])), np.float32(0.003)),
        "rows": ("b.weight_scale", ("BF16", narrow), floats(("BF16", narrow))),
        "row": ("b.weight_scale", ("F32", f[:, 0]), f),
        "blocks": ("b.weight_scale_inv", ("F32", blocks), spread),
        "e8m0": ("b.scale", ("F8_E8M0", e8), np.repeat(np.repeat(E8M0[e8], 128, 0), 128, 1)[:n, :k]),
        "comfy": ("b.scale_weight", ("F32", np.float32([0.5])), np.float32(0.5)),
    }
    codes, scales = codes_and_scales(16, 64)
    for kind in table:
        for name, (scale_name, scale, factor) in cases.items():
            expected = (table[kind][w] * factor).astype(np.float32)
            save(path, {"a.weight_packed": ("U8", codes), "a.weight_scale": ("F8_E4M3", scales),
                        "a.weight_global_scale": ("F32", np.float32([500])), "b.weight": (kind, w), scale_name: scale})
            got = decoded(path)
            assert np.array_equal(bits(got["b.weight"]), bits(expected)), (kind, name)
            assert scale_name not in got, name
            assert np.array_equal(bits(got["a.weight"]), bits(decode_compressed_tensors(nibbles(codes), UE4M3[scales], 500))), name
    # Alone, and as a source: 192 columns, so that the scheme holds them.
    w = np.ascontiguousarray(w[:, :192])
    save(path, {"b.weight": ("F8_E4M3", w), "b.weight_scale_inv": ("F32", blocks)})
    x = (table["F8_E4M3"][w] * spread[:, :192]).astype(np.float32)
    assert np.array_equal(bits(decoded(path)["b.weight"]), bits(x))
    run("quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "q", "--no-sync")
    got = load(folder / "q/m.safetensors")
    assert sorted(got) == ["b.weight", "b.weight_scale", "b.weight_scale_2"] and got["b.weight"][0] == "U8", sorted(got)
    y = nvfp4(got["b.weight"][1], got["b.weight_scale"][1], floats(got["b.weight_scale_2"]))
    assert ((y - x) ** 2).sum() < 0.02 * (x.astype(np.float64) ** 2).sum()
    # A stack, one scale an expert.
    stack = rng.integers(0, 0x7B, (3, 8, 64), dtype=np.uint8)
    each = np.float32([0.5, 0.25, 0.125]).reshape(3, 1, 1)
    save(path, {"e.down_proj": ("F8_E4M3", stack), "e.down_proj_scale": ("F32", each)})
    assert np.array_equal(bits(decoded(path)["e.down_proj"]), bits(table["F8_E4M3"][stack] * each))
    save(path, {"b.weight": ("F8_E4M3", w), "b.weight_scale": ("F32", np.ones((3, 5), np.float32))})
    error = run("dequantize", path, "--out", folder / "no", code=2)
    assert "b.weight" in error and "(3, 5)" in error, error


def tiles(scales):  # cuBLAS: tiles of 128 x 4, rows r, r + 32, .. beside each other
    rows, cols = -(-scales.shape[0] // 128) * 128, -(-scales.shape[1] // 4) * 4
    padded = np.zeros((rows, cols), np.uint8)
    padded[:scales.shape[0], :scales.shape[1]] = scales
    return padded.reshape(rows // 128, 4, 32, cols // 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows, cols)


def check_comfy(folder):
    """ComfyUI and Black Forest Labs: comfy_kitchen packs the even column in the high nibble, scales in tiles."""
    path = folder / "m.safetensors"
    for rows in (128, 96):
        codes, scales = codes_and_scales(rows, 96)
        swapped = codes >> 4 | codes << 4
        expected = nvfp4(codes, scales, G)
        weight = {"b.weight": ("U8", swapped), "b.weight_scale": ("F8_E4M3", tiles(scales)), "b.weight_scale_2": ("F32", G)}
        mark = np.frombuffer(b'{"format": "nvfp4"}', np.uint8)
        meta = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {"b": {"format": "nvfp4"}}})}
        for tensors, metadata in ((weight | {"b.comfy_quant": ("U8", mark)}, None), (weight, meta)):
            save(path, tensors, metadata)
            got = decoded(path)
            assert np.array_equal(bits(got["b.weight"]), bits(expected)), rows
            assert "b.comfy_quant" not in load(folder / "decoded/m.safetensors")
            rows_told = json.loads(run("dequantize", path, "--json", "--out", folder / "j", "--no-sync", "--force"))["rows"]
            assert rows_told[0]["read_as"] == "nibbles high_first, scale layout 128x4", rows_told
            run("quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "plain", "--no-sync", "--force")
            plain = load(folder / "plain/m.safetensors")
            assert np.array_equal(plain["b.weight"][1], codes) and np.array_equal(plain["b.weight_scale"][1], scales)
        # Words instead of marks, and against them.
        save(path, weight)
        error = run("dequantize", path, "--out", folder / "no", code=2)
        assert "b.weight_scale" in error and "--scale-layout 128x4" in error, error
        words = ("--nibbles", "high_first", "--scale-layout", "128x4")
        assert np.array_equal(bits(decoded(path, *words)["b.weight"]), bits(expected))
        save(path, weight | {"b.weight": ("U8", codes), "b.comfy_quant": ("U8", mark)})
        assert np.array_equal(bits(decoded(path, "--nibbles", "low_first")["b.weight"]), bits(expected))
        # Written so.
        run("quantize", folder / "plain", "--scheme", "modelopt_nvfp4", *words, "--out", folder / "t", "--no-sync", "--force")
        got = load(folder / "t/m.safetensors")
        assert np.array_equal(got["b.weight"][1], swapped) and np.array_equal(got["b.weight_scale"][1], tiles(scales))


def check_carried(folder):
    """From scheme to scheme codes and scales stay, whatever rule made them; the factor alone is said anew."""
    codes, scales = codes_and_scales(6, 128)
    scales[0, 0] = 0
    save(folder / "m.safetensors", {"l.up.weight": ("U8", codes), "l.up.weight_scale": ("F8_E4M3", scales),
                                    "l.up.weight_scale_2": ("F32", G), "l.up.input_scale": ("F32", np.float32(1))})
    blocks = np.concatenate([scales.reshape(6, 2, 4), split_halves(nibbles(codes).reshape(6, 2, 4, 16)).reshape(6, 2, 32)], -1)
    gguf(folder / "m.gguf", {"l.up.weight": (40, (6, 128), blocks.tobytes()), "l.up.scale": (0, (1,), G.tobytes())})
    for first, scheme in (("m.gguf", "ggml_nvfp4"), (None, "compressed_tensors_nvfp4"), ("m.safetensors", "compressed_tensors_nvfp4"),
                          (None, "modelopt_nvfp4"), (None, "compressed_tensors_nvfp4")):
        before = folder / first if first else before
        out = folder / f"{before.parent.name}{before.suffix}-{scheme}"
        told = json.loads(run("quantize", before, "--scheme", scheme, "--out", out, "--no-sync", "--json"))
        assert told["outcomes"]["carried"] == 1 and told["outcomes"]["quantised"] == 0, told
        before = out / ("m.gguf" if scheme.startswith("ggml") else "m.safetensors")
        if scheme == "ggml_nvfp4":
            tensors = load_gguf(before)[0]
            blocks = np.frombuffer(tensors["l.up.weight"][2], np.uint8).reshape(6, 2, 36)
            assert np.array_equal(blocks[..., :4].reshape(6, 8), scales), scheme
            assert np.array_equal(halves(blocks[..., 4:].reshape(6, 2, 4, 8)).reshape(6, 128), nibbles(codes)), scheme
            factor = np.frombuffer(tensors["l.up.scale"][2], np.float32)[0]
        else:
            tensors = load(before)
            packed = "l.up.weight_packed" if scheme[0] == "c" else "l.up.weight"
            assert np.array_equal(tensors[packed][1], codes) and np.array_equal(tensors["l.up.weight_scale"][1], scales), scheme
            stored = floats(tensors["l.up.weight_global_scale" if scheme[0] == "c" else "l.up.weight_scale_2"]).reshape(-1)[0]
            factor = np.float32(1) / stored if scheme[0] == "c" else stored
        assert abs(factor / G - 1) < 3e-7, (scheme, factor)
    # --spec says that the values are quantised anew.
    told = json.loads(run("quantize", before, "--scheme", "modelopt_nvfp4", "--spec", "nvfp4", "--out", folder / "anew", "--no-sync", "--json"))
    assert told["outcomes"]["quantised"] == 1, told
    codes, scales = codes_and_scales(2, 6, 128, block=32)
    save(folder / "x.safetensors", {"e.experts.up.weight": ("I8", codes), "e.experts.up.scale": ("F8_E8M0", scales)})
    before = folder / "x.safetensors"
    for scheme, names in (("compressed_tensors_mxfp4", ("weight_packed", "weight_scale")), ("modelopt_mxfp4", ("weight", "weight_scale")),
                          ("deepseek_mxfp4", ("weight", "scale"))):
        out = folder / ("x" + scheme)
        run("quantize", before, "--scheme", scheme, "--out", out, "--no-sync")
        before = out / "x.safetensors"
        tensors = load(before)
        assert np.array_equal(tensors["e.experts.up." + names[0]][1], codes) and np.array_equal(tensors["e.experts.up." + names[1]][1], scales), scheme


def check_gguf_kinds(folder):
    path = folder / "m.gguf"
    mx = rng.integers(0, 200, (4, 8, 17), dtype=np.uint8)
    sizes = {"IQ2_XXS": (16, 66), "IQ2_XS": (17, 74), "IQ3_XXS": (18, 98), "IQ1_S": (19, 50), "IQ4_NL": (20, 144), "IQ3_S": (21, 110),
             "IQ2_S": (22, 82), "IQ4_XS": (23, 136), "IQ1_M": (29, 56), "TQ1_0": (34, 54), "TQ2_0": (35, 66), "Q8_K": (15, 292), "Q1_0": (41, 36)}
    for name, (kind, size) in sizes.items():
        gguf(path, {"blk.0.up.weight": (39, (4, 256), mx.tobytes()), "blk.0.down.weight": (kind, (4, 256), bytes(4 * size))})
        rows = json.loads(run("inspect", path, "--json"))["rows"]
        assert rows[1]["dtype"] == name and rows[1]["note"] == "values not known", rows
        run("quantize", path, "--scheme", "ggml_nvfp4", "--tensors", "blk.0.up.weight", "--out", folder / "kept", "--no-sync", "--force")
        got = (folder / "kept/m.gguf").read_bytes()
        assert bytes(4 * size) in got, name
    x = rng.standard_normal((6, 128)).astype(np.float32)
    f32 = lambda *shape: (0, shape, np.ones(shape, np.float32).tobytes())
    for name, shape, word in (("n" * 57 + ".weight", (6, 128), "63"), ("five.weight", (1, 1, 1, 6, 128), "5 axes")):
        gguf(path, {name: (0, shape, x.tobytes())})
        error = run("quantize", path, "--scheme", "ggml_mxfp4", "--tensors", name, "--out", folder / "no", code=2)
        assert name in error and word in error, error
    # Experts of a stack have a factor each, also where they share one; general.file_type is that of NVFP4 or MXFP4.
    gguf(path, {"blk.0.ffn_up_exps.weight": (0, (3, 6, 128), np.concatenate([x, 2 * x, 3 * x]).tobytes())})
    for spec, kind, value in (("ggml_nvfp4", 40, 39), ("ggml_mxfp4", 39, 38)):
        words = ("--spec", "nvfp4") if kind == 40 else ()
        run("quantize", path, "--scheme", spec, *words, "--out", folder / spec, "--no-sync")
        got, head = load_gguf(folder / spec / "m.gguf")
        assert got["blk.0.ffn_up_exps.weight"][0] == kind
        assert b"general.file_type" + struct.pack("<II", 4, value) in head, spec
        if kind == 40:
            assert got["blk.0.ffn_up_exps.scale"][1] == (3,), got["blk.0.ffn_up_exps.scale"]
    # A factor under another spelling is used; one that fits nothing is an error, also beside types without factors.
    nv = rng.integers(0, 120, (6, 2, 36), dtype=np.uint8)
    y = (E2M1[halves(nv[..., 4:].reshape(6, 2, 4, 8))] * UE4M3[nv[..., :4]][..., None]).reshape(6, 128).astype(np.float32)
    for name in ("blk.0.up.scale", "blk.0.up.weight.scale", "blk.0.up.weight_scale"):
        gguf(path, {"blk.0.up.weight": (40, (6, 128), nv.tobytes()), name: (0, (1,), np.float32(0.3).tobytes())})
        run("dequantize", path, "--out", folder / "f", "--no-sync", "--force")
        assert np.array_equal(bits(floats(load(folder / "f/m.safetensors")["blk.0.up.weight"])), bits(y * np.float32(0.3))), name
    gguf(path, {"blk.0.up.weight": (40, (6, 128), nv.tobytes()), "blk.0.up.scale": f32(4)})
    assert "4 factors" in run("dequantize", path, "--out", folder / "no", code=2)
    gguf(path, {"blk.0.up.weight": (0, (6, 128), x.tobytes()), "blk.0.up.scale": f32(1)})
    assert "blk.0.up.scale" in run("quantize", path, "--scheme", "ggml_mxfp4", "--out", folder / "no", code=1)
    # Two tensors over the same bytes.
    gguf(path, {"a.weight": (0, (6, 128), x.tobytes()), "b.weight": (0, (6, 128), x.tobytes())})
    raw = bytearray(path.read_bytes())
    at = raw.index(b"b.weight") + 8 + 4 + 16 + 4
    assert struct.unpack("<Q", raw[at:at + 8])[0] == x.nbytes
    raw[at:at + 8] = struct.pack("<Q", 64)
    path.write_bytes(raw)
    error = run("inspect", path, code=2)
    assert "'b.weight' lies at" in error and "overlap" in error, error


def check_index(folder):
    """Shards lie in the folder of their index."""
    x = rng.standard_normal((16, 64)).astype(np.float32)
    (folder / "m").mkdir()
    save(folder / "out.safetensors", {"a.weight": ("F32", x)})
    for place in ("../out.safetensors", str(folder / "out.safetensors"), "x/../../out.safetensors"):
        (folder / "m/model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a.weight": place}}))
        error = run("inspect", folder / "m", code=2)
        assert "a.weight" in error and "folder" in error, error


def check_hashes(folder):
    """A shard whose bits flipped since it was written is refused; --changed reads it."""
    x = rng.standard_normal((32, 64)).astype(np.float32)
    save(folder / "m.safetensors", {"a.weight": ("F32", x)})
    run("quantize", folder / "m.safetensors", "--scheme", "modelopt_nvfp4", "--out", folder / "q", "--no-sync")
    path = folder / "q/m.safetensors"
    raw = path.read_bytes()
    for at in rng.integers(300, len(raw), 12):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << int(rng.integers(8))]) + raw[at + 1:])
        for words in (("dequantize", path), ("dequantize", folder / "q"), ("quantize", folder / "q", "--scheme", "compressed_tensors_nvfp4")):
            error = run(*words, "--out", folder / "no", code=1)
            assert "m.safetensors" in error and "SHA-256" in error and not (folder / "no").exists(), error
        run("compare", folder / "q", "--specs", "mxfp4", code=1)
    path.write_bytes(raw)
    run("dequantize", folder / "q", "--out", folder / "d", "--no-sync")
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    run("dequantize", folder / "q", "--changed", "--out", folder / "d", "--no-sync", "--force")


def check_killed(folder):
    """--force killed at any moment leaves the old model or the new one, whole; other files of the folder stay."""
    import time
    for kind in range(2):
        (folder / f"s{kind}").mkdir()
        for i in range(12):
            x = rng.standard_normal((64, 256)).astype(np.float32)
            save(folder / f"s{kind}/model-{i:02}.safetensors", {f"l.{i}.weight": ("F32", x)})
    words = ["--scheme", "modelopt_nvfp4", "--out", str(folder / "out"), "--force", "--no-sync", "--threads", "1"]
    start = time.monotonic()
    run("quantize", folder / "s0", *words)
    seconds = time.monotonic() - start
    (folder / "out/notes.txt").write_text("mine")
    sums = {}
    for kind in (0, 1):
        run("quantize", folder / f"s{kind}", *words)
        sums[json.loads((folder / "out/fp4sim.json").read_text())["files"]["model-00.safetensors"]["sha256"]] = kind
    assert len(sums) == 2
    seen = set()
    for trial in range(30):
        child = subprocess.Popen([FP4SIM, "quantize", folder / f"s{trial % 2}", *words], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        if trial < 28:  # the last two, one of each model, are left to end
            time.sleep(seconds * trial / 24)
            child.kill()
        child.wait()
        run("dequantize", folder / "out", "--out", folder / "d", "--no-sync", "--force")  # compares every hash
        assert (folder / "out/notes.txt").read_text() == "mine", trial
        seen.add(sums[json.loads((folder / "out/fp4sim.json").read_text())["files"]["model-00.safetensors"]["sha256"]])
    assert seen == {0, 1}, seen
    run("quantize", folder / "s0", *words)
    assert sorted(p.name for p in folder.iterdir()) == ["d", "out", "s0", "s1"], list(folder.iterdir())


def check_crafted(folder):
    """Configurations and shapes that nobody's program writes: one line of reason, and nothing is written."""
    source, out = folder / "s", folder / "out"
    source.mkdir()
    x = rng.standard_normal((32, 64)).astype(np.float32)
    bf = lambda rows, cols: ("BF16", bf16(np.resize(x, (rows, cols))))
    layer = "model.layers.0."
    save(source / "model.safetensors", {
        "model.embed_tokens.weight": bf(4, 64), "lm_head.weight": bf(4, 64), "model.norm.weight": ("F32", x[0]),
        **{layer + name + ".weight": ("F32", x[0]) for name in ("input_layernorm", "post_attention_layernorm")},
        **{layer + f"self_attn.{name}_proj.weight": bf(64, 64) for name in "qkvo"},
        **{layer + f"mlp.{name}_proj.weight": bf(64, 64) for name in ("gate", "up", "down")}})
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 1}

    def trial(words, config):
        (source / "config.json").write_text(json.dumps(config))
        error = run("quantize", source, "--scheme", "modelopt_nvfp4", "--out", out, "--no-sync", code=2)
        assert words in error and "exception" not in error and "basic_string" not in error, (words, error)
        assert not out.exists(), words

    (source / "config.json").write_text(json.dumps(config))
    run("quantize", source, "--scheme", "modelopt_nvfp4", "--out", folder / "good", "--no-sync")
    trial("config.json", [])
    trial("quantization_config", config | {"quantization_config": "fp8"})
    # Weights without rows or columns.
    empty = np.zeros(0, np.uint8)
    for name, tensors in {
            "rows": {"a.weight": ("F8_E4M3", empty.reshape(0, 4, 4)), "a.weight_scale": ("F32", np.ones(3, np.float32))},
            "cols": {"a.weight": ("F8_E4M3", empty.reshape(4, 0)), "a.weight_scale": ("F32", np.ones((), np.float32))},
            "stack": {"a.experts.down_proj": ("U8", empty.reshape(0, 4, 8)), "a.experts.down_proj_weight_scale": ("F8_E4M3", empty.reshape(0, 4, 1)),
                      "a.experts.down_proj_weight_scale_2": ("F32", np.zeros(0, np.float32))}}.items():
        save(folder / f"{name}.safetensors", tensors | {"b.weight": bf(32, 64)})
        for words in (("inspect", folder / f"{name}.safetensors"), ("dequantize", folder / f"{name}.safetensors", "--out", folder / f"d{name}"),
                      ("quantize", folder / f"{name}.safetensors", "--scheme", "modelopt_nvfp4", "--out", folder / f"q{name}"),
                      ("quantize", folder / f"{name}.safetensors", "--scheme", "modelopt_nvfp4", "--allow-left", "--out", folder / f"l{name}")):
            code = subprocess.run([FP4SIM, *words], capture_output=True).returncode
            assert code in (0, 1, 2), (name, words, code)


def check_names(folder):
    """Names that are no UTF-8 are refused by name before anything is written; a folder's name may be any bytes."""
    x = rng.standard_normal((4, 32)).astype(np.float32)
    shards, odd = folder / "shards", folder / os.fsdecode(b"odd\xff")
    shards.mkdir()
    save(shards / os.fsdecode(b"a\xff.safetensors"), {"x.weight": ("F32", x)})
    save(shards / "b.safetensors", {"y.weight": ("F32", x)})
    text = run("quantize", shards, "--scheme", "modelopt_nvfp4", "--out", folder / "q", code=2)
    assert "safetensors: the name of the file is not UTF-8" in text, text
    path = folder / "m.gguf"
    gguf(path, {"blk.0.ffn_up.weight": (0, (4, 32), x.tobytes())})
    path.write_bytes(path.read_bytes().replace(b"ffn_up", b"ffn\xffup"))
    for scheme in ("ggml_mxfp4", "modelopt_nvfp4"):
        text = run("quantize", path, "--scheme", scheme, "--out", folder / "q", code=2)
        assert "m.gguf: the name of tensor 'blk.0.ffn" in text and "is not UTF-8" in text, text
    assert not (folder / "q").exists()
    save(folder / "m.safetensors", {"x.weight": ("F32", x)})
    run("quantize", folder / "m.safetensors", "--scheme", "modelopt_nvfp4", "--out", odd, "--no-sync")
    assert "odd\ufffd" in json.loads((odd / "fp4sim.json").read_text())["command"]
    run("dequantize", odd, "--out", folder / "d", "--no-sync")


def check_many(folder):
    """Processor time grows with the number of tensors, not with its square: 8 times as many take less than 24 times as long."""
    x = rng.standard_normal((2, 32)).astype(np.float32)

    def safetensors(path, count):
        header = {f"model.layers.{i}.mlp.up_proj.weight": {"dtype": "BF16", "shape": [2, 32], "data_offsets": [128 * i, 128 * i + 128]}
                  for i in range(count)}
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bf16(x).tobytes() * count)

    def npz(path, count):
        np.savez(path, **{f"layer.{i}": x for i in range(count)})

    def model(scheme):
        return (("inspect", "IN"), ("quantize", "IN", "--scheme", scheme, "--out", "Q", "--no-sync"), ("dequantize", "Q", "--out", "D", "--no-sync"))

    compare = ("compare", "IN", "--specs", "nvfp4", "--json")
    kinds = {"safetensors": (safetensors, model("modelopt_nvfp4")), "npz": (npz, (("inspect", "IN"), compare)),
             "gguf": (lambda path, count: gguf(path, {f"blk.{i}.ffn_up.weight": (0, (2, 32), x.tobytes()) for i in range(count)}),
                      (*model("ggml_mxfp4"), compare))}
    for kind, (write, commands) in kinds.items():
        took = {}
        for count in (1250, 10000):
            names = {"IN": folder / f"{count}.{kind}", "Q": folder / f"q{count}{kind}", "D": folder / f"d{count}{kind}"}
            write(names["IN"], count)
            for words in commands:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                run(*(names.get(word, word) for word in words))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took[words[0], count] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for command, *_ in commands:
            assert took[command, 10000] < 24 * took[command, 1250] + 0.25, (kind, took)


with tempfile.TemporaryDirectory() as name:
    for check in (check_types, check_stacks, check_incomplete, check_not_finite, check_left, check_fp8, check_comfy, check_carried,
                  check_gguf_kinds, check_index, check_hashes, check_killed, check_crafted, check_names, check_many):
        if sys.argv[2:] and check.__name__ not in sys.argv[2:]:
            continue
        folder = pathlib.Path(name) / check.__name__
        folder.mkdir()
        check(folder)
