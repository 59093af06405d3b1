"""Prints as JSON what a version writes and says of it, for tests/old: PYTHONPATH=PACKAGE keep_version.py PROGRAM.

Once for each version that is published. The package needs numpy and torch; tensors are small, so that texts are.
"""
import base64
import hashlib
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from old_version import decoded_hash

GRID = {"name": "old", "task": "regression", "base": "mxfp4", "seeds": 1, "references": ["fp32"],
        "train": {"steps": 2, "curve_points": 1, "batch": 8}, "axes": {"wgrad.hadamard.size": [0]}}
SMALL = "train --task regression --recipe mxfp4 --steps 4 --set inputs=16 --set width=16 --set outputs=4 --set batch=8 --quiet"
SHAPES = {"q_proj": (4, 64), "down_proj": (4, 64), "norm": (8,)}
SCHEMES = ("modelopt_nvfp4", "modelopt_mxfp4", "compressed_tensors_nvfp4", "compressed_tensors_mxfp4", "deepseek_mxfp4",
           "gpt_oss_mxfp4", "ggml_mxfp4", "ggml_nvfp4")


def bf16(shape):
    """Numbers of both signs and eleven powers of two, from a counter."""
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    return struct.pack(f"<{count}H", *((i * 40503 % 2 << 15) | 0x3F80 - 0x80 * (i * 7 % 11) | i * 37 % 128 for i in range(count)))


def write_model():
    header, data = {}, b""
    for name, shape in SHAPES.items():
        begin, data = len(data), data + bf16(shape)
        header[f"model.layers.0.{name}.weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open("m.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_gguf():
    """The same weights under llama.cpp's names."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    tensors, data = b"", b""
    for name, words in (("q_proj", "blk.0.attn_q"), ("down_proj", "blk.0.ffn_down"), ("norm", "output_norm")):
        axes = SHAPES[name][::-1]
        tensors += text(words + ".weight") + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, 30, len(data))
        data += bf16(SHAPES[name])
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 3, 1) + text("general.architecture") + struct.pack("<I", 8) + text("llama") + tensors
    with open("m.gguf", "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def write_x():
    values = struct.pack("<64f", *((i * 7 % 23 - 11) / 4 for i in range(64)))
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 32), }".ljust(117) + "\n"
    with open("x.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values)


def kept_file(path):
    with open(path, "rb") as f:
        data = f.read()
    try:
        return {"text": data.decode()} if b"\0" not in data else {"zlib": base64.b64encode(zlib.compress(data, 9)).decode()}
    except UnicodeDecodeError:
        return {"zlib": base64.b64encode(zlib.compress(data, 9)).decode()}


def kept_store(path):
    store = sqlite3.connect(path)
    pragmas = [f"PRAGMA {name}={store.execute('PRAGMA ' + name).fetchone()[0]};" for name in ("application_id", "user_version")]
    return pragmas + [line for statement in store.iterdump() for line in statement.split("\n")]


def from_command_line(program):
    def run(words):
        done = subprocess.run([program, *words.split()], capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
        if done.returncode:
            print(f"{words}: {done.returncode} {done.stderr}", file=sys.stderr)
        return done.stdout if done.returncode == 0 else None

    def said(words, pattern):
        return re.search(pattern, run(words)).group(1)

    reads = []
    with open("grid.json", "w") as f:
        json.dump(GRID, f)
    run("sweep run grid.json --out s --quiet")
    run("sweep export s --out runs.csv")
    reads += [["sweep check s", "sound"], ["sweep status s --complete", "complete (2 runs)"],
              ["sweep run grid.json --out s --quiet", "2 here before, 0 done now"], ["sweep merge s --out merged", "2 runs from 1 stores"],
              ["table s --references --columns digest",
               json.loads(run("table s --json"))["rows"][0]["digest"]],
              ["sweep import runs.csv --out imported", "2 of them new"]]
    digest = said(SMALL + " --checkpoint c --json", '"digest": ?"([0-9a-f]{16})"')
    reads += [[SMALL + " --json --resume c", digest],
              ["eval c --recipes nvfp4 --json", said("eval c --recipes nvfp4 --json", '"loss": ?([0-9.]+)')]]
    run("golden make --spec nvfp4 --shape 2x32 --out b")
    reads += [["golden check b", "equal: 1 case"], ["verify --golden b --candidate b", "equal"]]
    run("quantize x.npy --spec nvfp4 --out q")
    reads += [["dequantize q --out y.npy", ""], ["verify --input x.npy --spec nvfp4 --candidate q", "equal"]]
    for scheme in SCHEMES:
        for model in ("m.safetensors", "m.gguf"):
            few = " --tensors model.layers.0.q_proj.weight" if scheme in ("deepseek_mxfp4", "gpt_oss_mxfp4") else ""
            if os.path.exists(scheme) or run(f"quantize {model} --scheme {scheme}{few} --out {scheme}") is None:
                continue
            run(f"dequantize {scheme} --out decoded --force")
            reads += [[f"inspect {scheme} --as csv", scheme], [f"dequantize {scheme} --out decoded --force", "", decoded_hash("decoded")]]
    return reads


def from_python(out):
    """What people save: pickles of tensors and words, a state beside a state_dict, a whole model."""
    import pickle

    import numpy
    import torch

    import fp4sim
    import fp4sim.torch as ft

    x = numpy.load("x.npy")
    q = fp4sim.quantize(x, "nvfp4")
    for name, thing in (("tensor", q), ("spec", fp4sim.Spec("nvfp4", rounding="stochastic")), ("word", fp4sim.Rounding.stochastic)):
        with open(os.path.join(out, name + ".pickle"), "wb") as f:
            pickle.dump(thing, f, protocol=4)
    torch.manual_seed(1)
    model = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 8, bias=False)), "nvfp4_te")
    from old_version import step
    for _ in range(3):
        step(model)
    torch.save({"model": model.state_dict(), "fp4sim": ft.state(model)}, os.path.join(out, "state.pt"))
    torch.save(model, os.path.join(out, "model.pt"))
    for _ in range(2):
        step(model)
    return {"refused": {}, "values": numpy.asarray(fp4sim.dequantize(q)).tobytes().hex(),
            "weights": model[0].weight.detach().numpy().tobytes().hex()}


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_model()
        write_gguf()
        write_x()
        version, _, signature = (subprocess.run([program, word], capture_output=True, text=True).stdout for word in
                                 ("--version", "version", "signature"))
        reads = from_command_line(program)
        os.mkdir("python")
        python = from_python("python")
        subprocess.run("rm -rf m.* merged imported y.npy decoded s/*-wal s/*-shm s/*.lock", shell=True, check=True)
        files = sorted(os.path.join(place, name)[2:] for place, _, names in os.walk(".") for name in names)
        stores = {path: kept_store(path) for path in files if path.endswith(".sqlite")}
        kept = {path: kept_file(path) for path in files if not path.startswith("s/")}
        os.chdir("/")
    print(json.dumps({"version": version.split()[-1], "signature": signature.split()[0], "reads": reads, "python": python,
                      "stores": stores, "files": kept}, indent=1))


if __name__ == "__main__":
    main()
