"""Runs the tensor commands of the program as a user does and judges the files with numpy alone.

Usage: tensor_commands.py PROGRAM. Expected values are the worked examples of the definitions (by hand) and the shapes
that the command line promises; prints one line per failure and exits with 1.
"""
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

program = os.path.abspath(sys.argv[1])
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)


def run(*words, code=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=300)
    check(done.returncode == code, f"{' '.join(map(str, words))}: exit {done.returncode}, expected {code}\n{done.stderr}")
    return done


def refuse(*words, says=(), code=2):
    """Bad input: exit code 2, a message with these words, no output."""
    before = sorted(os.listdir("."))
    message = run(*words, code=code).stderr
    for word in says:
        check(word in message, f"{' '.join(map(str, words))}: message lacks '{word}': {message}")
    check(sorted(os.listdir(".")) == before, f"{' '.join(map(str, words))}: left files behind")


counter = 0


def quantize(x, spec, *words, name=None):
    global counter
    counter += 1
    file, out = name or f"in{counter}.npy", f"out{counter}"
    if name is None:
        np.save(file, x)
    run("quantize", file, "--spec", spec, "--out", out, *words)
    arrays = {f[:-4]: np.load(f"{out}/{f}") for f in os.listdir(out) if f.endswith(".npy")}
    with open(f"{out}/manifest.json", encoding="utf-8") as stream:
        manifest = json.load(stream)
    for file, entry in manifest["files"].items():
        with open(f"{out}/{file}", "rb") as stream:
            check(hashlib.sha256(stream.read()).hexdigest() == entry["sha256"], f"{spec}: sha256 of {file}")
        a = arrays[file[:-4]]
        check(list(a.shape) == entry["shape"] and str(a.dtype) == entry["dtype"], f"{spec}: manifest of {file}")
    check(sorted(manifest["files"]) == sorted(f for f in os.listdir(out) if f != "manifest.json"), f"{spec}: files")
    run("dequantize", out, "--out", f"back{counter}.npy")
    back = np.load(f"back{counter}.npy")
    check(back.tobytes() == arrays["dequantized"].tobytes() and back.shape == arrays["dequantized"].shape,
          f"{spec}: dequantize gives other bits")
    return arrays, manifest


def equal(got, wanted, what):
    check(np.array_equal(np.asarray(got), np.asarray(wanted)), f"{what}: {np.asarray(got).tolist()}, expected {wanted}")


def worked_examples():
    x = np.array([[6.5, -3.5, 2.5, 1.5, 0.75, -0.25, 5, 0.5]], np.float32)
    for rule in ("floor", "even", "uos"):
        a, _ = quantize(x, f"mxfp4,block=8,scale_rule={rule}")
        equal(a["scales"], [[127]], rule)
        equal(a["codes"], [[0xE7, 0x34, 0x82, 0x16]], rule)
        equal(a["dequantized"], [[6, -4, 2, 1.5, 1, -0.0, 4, 0.5]], rule)
        check(bool(np.signbit(a["dequantized"][0, 5])), f"{rule}: the sign of -0 is lost")
    for rule in ("rceil", "ceil"):
        a, _ = quantize(x, f"mxfp4,block=8,scale_rule={rule}", "--unpacked")
        equal(a["scales"], [[128]], rule)
        equal(a["codes"], [[5, 12, 2, 2, 1, 8, 4, 0]], rule)
        equal(a["dequantized"], [[6, -4, 2, 2, 1, -0.0, 4, 0]], rule)

    row = np.zeros((1, 32), np.float32)
    row[0, 0], row[0, 16:21] = 21, [10, 4, -3, 1, 0.75]
    a, manifest = quantize(row, "nvfp4", "--unpacked")
    equal(a["tensor_scale"], [2.0**-7], "nvfp4")
    equal(a["scales"], [[0x7E, 0x75]], "nvfp4")
    equal(a["codes"][0, [0, 16, 17, 18, 19, 20]], [7, 7, 4, 12, 1, 1], "nvfp4")
    equal(a["dequantized"][0, 16:21], [9.75, 3.25, -3.25, 0.8125, 0.8125], "nvfp4")
    check(manifest["preset"] == "nvfp4" and manifest["spec"]["scale"] == "ue4m3", "nvfp4: manifest")

    a, _ = quantize(np.array([[10, 20, 30, 40]], np.float32), "nvfp4,scale_rule=four_over_six,tensor_scale=none")
    equal(a["scales"], [[0x52]], "four_over_six")
    equal(a["dequantized"], [[10, 20, 30, 40]], "four_over_six")

    x = np.zeros((1, 32), np.float32)
    x[0, :5] = [1.25, 2.0771484375, 0.125, -5.37890625, 6]  # 6 holds the scale at 1
    for rounding, wanted in (("stochastic", [1, 3, 0.5, -4]), ("stochastic_midpoint", [1, 3, 0.5, -6]),
                             ("stochastic_truncated", [1, 2, 0.5, -4])):
        a, _ = quantize(x, f"mxfp4,rounding={rounding}", "--seed", 5, "--stream", 3, "--step", 2)
        equal(a["dequantized"][0, :4], wanted, rounding)
    draws = json.loads(run("random", "--bits", 8, "--count", 4, "--seed", 5, "--stream", 3, "--step", 2, "--json").stdout)
    equal(draws["draws"], [0x2A, 0xEC, 0xC3, 0x4F], "random")

    # a kernel's own bits: r = 0 moves nothing up, r = 255 all of them (t = 128, 19.75, 64, 176.5 of 256)
    for r, wanted in ((0, [1, 2, 0, -4]), (255, [1.5, 3, 0.5, -6])):
        np.save("words.npy", np.full(32, r, np.uint8))
        np.save("words16.npy", np.full(16, r * 257, np.uint16))
        for words in ("words.npy", "words16.npy"):
            a, _ = quantize(x, "mxfp4,rounding=stochastic", "--random-words", words)
            equal(a["dequantized"][0, :4], wanted, f"{words} of {r}")
    np.save("words.npy", np.array([[0, 255, 0, 255] * 8], np.uint8))  # position i takes byte i
    a, _ = quantize(x, "mxfp4,rounding=stochastic", "--random-words", "words.npy")
    equal(a["dequantized"][0, :4], [1, 3, 0, -6], "words in order")
    np.save("words.npy", np.zeros(16, np.uint8))
    np.save("x.npy", x)
    refuse("quantize", "x.npy", "--spec", "mxfp4,rounding=stochastic", "--out", "short", "--random-words", "words.npy",
           says=("random words", "32 elements", "8 words"))
    refuse("quantize", "x.npy", "--spec", "mxfp4,rounding=stochastic", "--out", "short", "--random-words", "x.npy",
           says=("--random-words", "f32", "uint8"))

    a, b = np.zeros((1, 128), np.float32), np.zeros((1, 128), np.float32)
    a[0, [0, 32, 64]], b[0, [0, 32, 64]] = [2.0**22, 1.5, 1.5], [4, 1, 1]
    np.save("a.npy", a)
    np.save("b.npy", b)
    for accumulator, wanted in (("exact", 16777220), ("fp32_block", 16777220), ("k64_rz", 16777218), ("fused35_rz", 16777216)):
        run("gemm", "a.npy", "b.npy", "--spec", "mxfp4", "--accumulator", accumulator, "--out", f"{accumulator}.npy")
        c = np.load(f"{accumulator}.npy")
        check(c.shape == (1, 1) and c.dtype == np.float32 and c[0, 0] == wanted, f"gemm {accumulator}: {c}")


def shapes():
    """Every layout that the contract names, at K = 70 (no multiple of a block) with an odd number of rows."""
    x = (np.random.default_rng(1).standard_normal((5, 70)) * 3).astype(np.float32)
    for spec, codes, dtype, scales, scale_dtype, tensor in (
            ("mxfp4", (5, 48), "uint8", (5, 3), "uint8", (1,)),
            ("nvfp4", (5, 40), "uint8", (5, 5), "uint8", (1,)),
            ("mxfp8", (5, 96), "uint8", (5, 3), "uint8", (1,)),
            ("mxfp4,block=32x32", (5, 48), "uint8", (1, 3), "uint8", (1,)),
            ("mxfp4,block=row", (5, 35), "uint8", (5, 1), "uint8", (1,)),
            ("mxfp4,block=tensor", (5, 35), "uint8", (1, 1), "uint8", (1,)),
            ("nvfp4,tensor_scale=outer128", (5, 40), "uint8", (5, 5), "uint8", (5, 1)),
            ("nvfp4,scale=fp32", (5, 40), "uint8", (5, 5), "float32", (1,)),
            ("bf16", (5, 70), "uint16", None, None, (1,)),
            ("fp32", (5, 70), "uint32", None, None, (1,)),
            ("mxfp4,scale=none", (5, 35), "uint8", None, None, (1,))):
        a, _ = quantize(x, spec)
        check(a["codes"].shape == codes and a["codes"].dtype == dtype, f"{spec}: codes {a['codes'].shape} {a['codes'].dtype}")
        if scales is None:
            check("scales" not in a, f"{spec}: scales are written")
        else:
            check(a["scales"].shape == scales and a["scales"].dtype == scale_dtype, f"{spec}: scales {a['scales'].shape}")
        check(a["tensor_scale"].shape == tensor and a["tensor_scale"].dtype == np.float32, f"{spec}: tensor scale")
        check(a["dequantized"].shape == (5, 70) and a["dequantized"].dtype == np.float32, f"{spec}: dequantized")
        if codes[1] in (35, 40, 48) and dtype == "uint8":
            wide, _ = quantize(x, spec, "--unpacked")
            low, high = a["codes"] & 15, a["codes"] >> 4
            both = np.stack([low, high], -1).reshape(5, -1)[:, :wide["codes"].shape[1]]
            equal(wide["codes"], both, f"{spec}: --unpacked")
    equal(quantize(x, "fp32")[0]["codes"], x.view(np.uint32), "fp32 codes are the bits")


def inputs():
    """Ranks, element types, orders and containers: the same matrix gives the same codes."""
    x = np.round(np.random.default_rng(2).standard_normal((6, 4, 64)) * 4).astype(np.float32) / 4  # exact in every type
    wanted, _ = quantize(x.reshape(24, 64), "nvfp4")
    cases = [(x, ()), (x.astype(np.float16), ()), (x.astype(np.float64), ()), (np.asfortranarray(x), ()),
             (x.astype(">f4"), ()), ((x.view(np.uint32) >> 16).astype(np.uint16), ("--bf16",))]
    for i, (variant, words) in enumerate(cases):
        a, _ = quantize(variant, "nvfp4", *words)
        equal(a["codes"], wanted["codes"], f"input variant {i}")
        check(a["dequantized"].shape == (6, 4, 64), f"input variant {i}: shape {a['dequantized'].shape}")
    turned, _ = quantize(np.ascontiguousarray(x.reshape(24, 64).T), "nvfp4", "--transpose")
    for name in wanted:
        equal(turned[name], wanted[name], f"--transpose {name}")
    np.savez("two.npz", first=x, second=x * 2)
    np.savez_compressed("small.npz", x=x)
    x.tofile("x.bin")
    for name, words in (("two.npz:first", ()), ("small.npz", ()), ("x.bin", ("--dtype", "f32", "--shape", "6x4x64"))):
        equal(quantize(None, "nvfp4", *words, name=name)[0]["codes"], wanted["codes"], name)
    one, _ = quantize(np.float32(1.5), "mxfp4,block=8")
    check(one["codes"].shape == (1, 4) and one["dequantized"].shape == (), f"a scalar: {one['codes'].shape}")
    none, _ = quantize(np.zeros((0, 64), np.float32), "nvfp4")
    check(none["codes"].shape == (0, 32) and none["dequantized"].shape == (0, 64), f"no rows: {none['codes'].shape}")
    flat, _ = quantize(np.zeros((3, 0), np.float32), "mxfp4")
    check(flat["codes"].shape == (3, 0) and flat["dequantized"].shape == (3, 0), f"no columns: {flat['codes'].shape}")
    odd = np.array([[np.nan, np.inf, 1.5] + [0] * 29], np.float32)
    a, _ = quantize(odd, "mxfp4")
    check(a["scales"][0, 0] == 0xFF and np.isnan(a["dequantized"]).all(), "block_nan")
    a, _ = quantize(odd, "mxfp4,nonfinite=saturate,block=8")
    equal(a["dequantized"][0, :3], [0, 1.5, 1.5], "saturate")  # scale 2^-2: 6 * 2^-2


def given_codes():
    """gemm on folders of quantize in any layout, and its epilogue in numpy's float32."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((5, 96)).astype(np.float32), rng.standard_normal((7, 96)).astype(np.float32)
    old, bias = rng.standard_normal((5, 7)).astype(np.float32), rng.standard_normal(7).astype(np.float32)
    for name, x in (("ga", a), ("gb", b), ("old", old), ("bias", bias)):
        np.save(f"{name}.npy", x)
    run("quantize", "ga.npy", "--spec", "nvfp4", "--nibbles", "marlin_uint32", "--scale-layout", "128x4", "--out", "ga")
    run("quantize", "gb.npy", "--spec", "mxfp4", "--out", "gb")
    run("gemm", "ga.npy", "gb.npy", "--spec", "nvfp4", "--spec-b", "mxfp4", "--accumulator", "k64_rz", "--out", "given_p.npy")
    product = np.load("given_p.npy")
    run("gemm", "ga", "gb", "--accumulator", "k64_rz", "--out", "given_q.npy")
    equal(np.load("given_q.npy"), product, "gemm of folders")
    run("gemm", "ga", "gb.npy", "--spec", "mxfp4", "--accumulator", "k64_rz", "--out", "given_q.npy", "--force")
    equal(np.load("given_q.npy"), product, "gemm of a folder and numbers")
    term = ["--alpha", "0.3", "--beta", "-1.5", "--c", "old.npy", "--bias", "bias.npy"]
    whole = (np.float32(0.3) * product + np.float32(-1.5) * old) + bias
    run("gemm", "ga", "gb", "--accumulator", "k64_rz", *term, "--out", "given_d.npy")
    equal(np.load("given_d.npy"), whole, "epilogue")
    run("gemm", "ga", "gb", "--accumulator", "k64_rz", *term, "--output-type", "fp16", "--out", "given_h.npy")
    equal(np.load("given_h.npy"), whole.astype(np.float16), "fp16 output")
    bits = whole.view(np.uint32).astype(np.uint64)
    run("gemm", "ga", "gb", "--accumulator", "k64_rz", *term, "--output-type", "bf16", "--out", "given_t.npy")
    equal(np.load("given_t.npy"), ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16), "bf16 output")
    refuse("gemm", "ga", "gb.npy", "--out", "given_r.npy", says=("gb.npy", "--spec"))
    refuse("gemm", "ga", "gb", "--bias", "old.npy", "--out", "given_r.npy", says=("--bias", "35", "7"))
    refuse("gemm", "ga", "gb", "--output-type", "fp8", "--out", "given_r.npy", says=("fp8", "bf16"))


def errors_of_products():
    """What gemm --error prints, in numpy's float64."""
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((9, 80)).astype(np.float32), rng.standard_normal((11, 80)).astype(np.float32)
    np.save("ea.npy", a), np.save("eb.npy", b)
    for words in ((), ("--hadamard", "16")):
        told = run("gemm", "ea.npy", "eb.npy", "--spec", "nvfp4", *words, "--error", "--out", "e.npy", "--force").stdout.split()
        wanted = a.astype(np.float64) @ b.T.astype(np.float64)
        off = np.load("e.npy") - wanted
        nmse = (off**2).sum() / (wanted**2).sum()
        check(abs(float(told[2]) / nmse - 1) < 1e-3, f"gemm --error: {told}, NMSE is {nmse}")
        check(abs(float(told[3][1:]) + 10 * np.log10(nmse)) < 0.006, f"gemm --error: {told}")
        check(abs(float(told[7][:-1]) / abs(off).max() - 1) < 6e-3, f"gemm --error: {told}, at most {abs(off).max()}")
    run("quantize", "ea.npy", "--spec", "nvfp4", "--out", "ea")
    refuse("gemm", "ea", "eb.npy", "--spec", "nvfp4", "--error", "--out", "e2.npy", says=("--error", "numbers"))


def rotated_comparisons():
    """compare --hadamard beside compare of what `hadamard` wrote."""
    x = np.random.default_rng(7).standard_t(3, (9, 96)).astype(np.float32)
    np.save("cx.npy", x)
    run("hadamard", "cx.npy", "--size", 32, "--out", "ch.npy")
    rows = json.loads(run("compare", "cx.npy", "--specs", "mxfp4", "nvfp4", "--hadamard", "0", "32", "--json").stdout)["rows"]
    apart = [row for file in ("cx.npy", "ch.npy")
             for row in json.loads(run("compare", file, "--specs", "mxfp4", "nvfp4", "--json").stdout)["rows"]]
    check([row.get("hadamard", 0) for row in rows] == [0, 0, 32, 32], f"compare --hadamard: {rows}")
    for mine, other in zip(rows, apart):
        for word in ("spec", "elements", "nmse", "largest_error", "clipped", "zeros"):
            check(mine[word] == other[word], f"compare --hadamard: {word} {mine[word]}, {other[word]}")
    check(sum(row["best"] for row in rows) == 1, "one setting is the best")
    check(", H32" in run("compare", "cx.npy", "--specs", "mxfp4", "--hadamard", "32").stdout, "the table says which rotation")
    refuse("compare", "cx.npy", "--specs", "mxfp4", "--hadamard", "48", says=("--hadamard", "48"))
    refuse("compare", "cx.npy", "--specs", "mxfp4", "--hadamard", "16", "--sparse", "2:4", says=("--hadamard", "--sparse"))


def hadamards():
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    np.save("h.npy", x)
    run("hadamard", "h.npy", "--size", 16, "--out", "hx.npy")
    run("hadamard", "hx.npy", "--size", 16, "--inverse", "--out", "hh.npy")
    turned, back = np.load("hx.npy"), np.load("hh.npy")
    check(turned.shape == (2, 32) and turned.dtype == np.float32, f"hadamard: {turned.shape}")
    h = np.array([[1.0]])
    while len(h) < 16:
        h = np.block([[h, h], [h, -h]])
    padded = np.zeros((2, 2, 16))
    padded.reshape(2, 32)[:, :20] = x
    equal(turned, (padded @ h / 4).reshape(2, 32), "hadamard")  # small integers: exact
    equal(back[:, :20], x, "hadamard --inverse")


def bad_words():
    x = np.ones((2, 40), np.float32)
    np.save("ok.npy", x)
    np.save("k48.npy", np.ones((2, 48), np.float32))
    np.save("text.npy", np.array(["a"]))
    with open("cut.npy", "wb") as f:
        f.write(open("ok.npy", "rb").read()[:100])
    # torch.save: a ZIP archive with NAME/data.pkl; before 1.6 a bare pickle that begins with this number.
    for file in ("model.pt", "model.bin", "renamed.npz"):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({}, protocol=2))
            archive.writestr("model/data/0", bytes(16))
    with open("legacy.pth", "wb") as f:
        f.write(pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2))
    np.save("bf16.npy", np.zeros((2, 32), "V2"))
    np.save("fp8.npy", np.zeros((2, 32), "V1"))
    os.mkfifo("pipe.npy")
    with open("bad.json", "w", encoding="ascii") as f:
        f.write('{"scale_rul": "floor"}')
    with open("broken.json", "w", encoding="ascii") as f:
        f.write("{")
    q = ("quantize", "ok.npy", "--out", "never", "--spec")
    refuse(*q, "mxfp5", says=("'mxfp5'", "did you mean 'mxfp4'"))
    refuse(*q, "nvfp4_te", says=("'nvfp4_te'", "`fp4sim list recipes`"))
    refuse(*q, "mxfp4,rounding=stochastik", says=("'stochastik'", "did you mean 'stochastic'", "rounding"))
    refuse(*q, "mxfp4,scale_rul=floor", says=("'scale_rul'", "did you mean 'scale_rule'"))
    refuse(*q, "mxfp4,random_bits=7", says=("random_bits",))
    refuse(*q, "mxfp4,block=33", says=("block",))
    refuse(*q, "bad.json", says=("bad.json", "'scale_rul'"))
    refuse(*q, "broken.json", says=("broken.json",))
    refuse(*q, "absent.json", says=("absent.json",))
    refuse(*q, "nvfp4,ragged=refuse", says=("ragged", "40", "16"))
    refuse(*q, "mxfp4", "--backend", "avx1024", says=("avx1024", "accepted"))
    refuse(*q, "mxfp4", "--threads", "0")
    refuse(*q, "mxfp4", "--seed", "x")
    refuse(*q, "mxfp4", "--sed", "1", says=("'--sed'", "--seed"))
    refuse("quantize", "cut.npy", "--spec", "mxfp4", "--out", "never", says=("cut.npy",))
    refuse("quantize", "text.npy", "--spec", "mxfp4", "--out", "never", says=("text.npy",))
    for file in ("model.pt", "legacy.pth", "model.bin", "renamed.npz"):
        refuse("quantize", file, "--spec", "mxfp4", "--out", "never", says=(file, "torch pickle", ".safetensors"))
    refuse("quantize", "bf16.npy", "--spec", "mxfp4", "--out", "never", says=("'|V2'", "--bf16", "--dtype f16"))
    refuse("quantize", "fp8.npy", "--spec", "mxfp4", "--out", "never", says=("'|V1'", "--dtype f8_e4m3"))
    refuse("gemm", "ok.npy", "pipe.npy", "--spec", "mxfp4", "--out", "c.npy", says=("pipe.npy", "not a regular file"))
    refuse("quantize", "absent.npy", "--spec", "mxfp4", "--out", "never", says=("absent.npy",))
    refuse("quantize", "ok.npy", "--spec", "mxfp4", "--out", "/proc/nowhere/out", says=("/proc/nowhere",))
    refuse("gemm", "ok.npy", "k48.npy", "--spec", "mxfp4", "--out", "c.npy", says=("40", "48"))
    refuse("gemm", "ok.npy", "ok.npy", "--spec", "mxfp4", "--accumulator", "k64rz", "--out", "c.npy", says=("did you mean 'k64_rz'",))
    refuse("hadamard", "ok.npy", "--size", "48", "--out", "h48.npy", says=("48", "32"))
    refuse("random", "--bits", "5", "--count", "1", says=("5", "8"))
    refuse("list", "format", says=("did you mean 'formats'",))
    refuse("show", "nvfp5", says=("did you mean 'nvfp4'",))
    os.mkdir("full")
    open("full/notes.txt", "w").close()
    refuse("quantize", "ok.npy", "--spec", "mxfp4", "--out", "full", says=("--force",))
    run("quantize", "ok.npy", "--spec", "mxfp4", "--out", "full", "--force")
    check(os.path.exists("full/notes.txt") and os.path.exists("full/codes.npy"), "--force keeps other files")
    refuse("dequantize", "absent", "--out", "d.npy", says=("manifest.json",))
    os.remove("full/scales.npy")
    refuse("dequantize", "full", "--out", "d.npy", says=("scales.npy",))
    np.save("full/scales.npy", np.zeros((2, 3), np.uint8))
    refuse("dequantize", "full", "--out", "d.npy", code=1, says=("scales.npy", "SHA-256"))
    refuse("dequantize", "full", "--changed", "--out", "d.npy", says=("scales.npy", "(2, 3)", "(2, 2)"))
    os.mkdir("pipes")
    os.mkfifo("pipes/manifest.json")
    refuse("dequantize", "pipes", "--out", "d.npy", says=("manifest.json", "not a regular file"))
    refuse("verify", "--golden", "pipes", "--candidate", "ok.npy", says=("manifest.json", "not a regular file"))


def damage():
    """Every bit of 400 spread over a quantised folder: dequantize notices, names the file and writes nothing."""
    np.save("flip.npy", np.random.default_rng(5).standard_normal((8, 64)).astype(np.float32))
    run("quantize", "flip.npy", "--spec", "nvfp4", "--out", "flip")
    run("dequantize", "flip", "--out", "whole.npy")
    for file in ("codes.npy", "scales.npy", "tensor_scale.npy", "manifest.json"):
        with open(f"flip/{file}", "rb") as f:
            whole = f.read()
        for i in range(100):
            at = (i * 7919 + i) % (8 * len(whole))
            bad = bytearray(whole)
            bad[at // 8] ^= 1 << at % 8
            with open(f"flip/{file}", "wb") as f:
                f.write(bad)
            done = subprocess.run([program, "dequantize", "flip", "--out", "d.npy"], capture_output=True, text=True)
            check(done.returncode == 1 and file in done.stderr and not os.path.exists("d.npy"),
                  f"bit {at} of {file}: exit {done.returncode}: {done.stderr}")
        with open(f"flip/{file}", "wb") as f:
            f.write(whole)
    run("dequantize", "flip", "--out", "again.npy")


def full_disk():
    """A device of 64 KiB: the work fails with 1 and leaves nothing. Needs the right to mount; skipped without it."""
    os.mkdir("tiny")
    if shutil.which("mount") is None or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "tiny"], capture_output=True).returncode != 0:
        print("full disk: skipped, no right to mount")
        return
    try:
        np.save("large.npy", np.ones((512, 512), np.float32))
        run("quantize", "large.npy", "--spec", "mxfp4", "--out", "tiny/out", code=1)
        check(os.listdir("tiny") == [], f"full disk: left {os.listdir('tiny')}")
        run("gemm", "large.npy", "large.npy", "--spec", "mxfp4", "--out", "tiny/c.npy", code=1)
        check(os.listdir("tiny") == [], f"full disk: left {os.listdir('tiny')}")
    finally:
        subprocess.run(["umount", "tiny"], check=True)


def lists():
    rows = json.loads(run("list", "scale-rules", "--json").stdout)["rows"]
    check([r["name"] for r in rows][:3] == ["floor", "ceil", "rceil"] and all({"name", "doc", "source"} <= set(r) for r in rows),
          "list --json")
    for line in run("list").stdout.splitlines():
        check(len(line) <= 100, f"list: wider than 100 columns: {line}")
    with open("spec.json", "w", encoding="utf-8") as f:
        f.write(run("show", "te_nvfp4").stdout)
    np.save("s.npy", np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32))
    a, _ = quantize(None, "te_nvfp4", name="s.npy")
    b, _ = quantize(None, "spec.json", name="s.npy")
    equal(a["codes"], b["codes"], "a shown preset is a spec")
    c, _ = quantize(None, "out1/manifest.json", name="s.npy")
    equal(c["codes"].shape, (4, 32), "a manifest is a spec")
    signature = run("signature").stdout.strip()
    check(len(signature) == 16 and int(signature, 16) >= 0, f"signature {signature}")
    with open("out1/manifest.json", encoding="utf-8") as f:
        manifest = json.load(f)
    check(manifest["signature"] == signature and manifest["command"].startswith("fp4sim quantize in1.npy"), "manifest")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in (worked_examples, shapes, inputs, given_codes, errors_of_products, rotated_comparisons, hadamards, bad_words, damage, full_disk, lists):
        part()
    os.chdir("/")
print("\n".join(failures) or "all equal")
sys.exit(1 if failures else 0)
