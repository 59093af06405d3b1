"""What the tests of the Python package share: the package or a skip, the command line, and operands."""
import os
import subprocess
import sys
import tempfile

if not os.environ.get("PYTHONPATH"):
    print("[test skipped] the Python package was not built: a build with sanitizers or fuzzers")
    sys.exit(0)
import numpy as np  # noqa: E402
import fp4sim as f4  # noqa: E402

PROGRAM = os.environ["FP4SIM"]


def __getattr__(name):
    """torch, or None where it is not installed: half a second for those who ask."""
    if name != "torch":
        raise AttributeError(name)
    try:
        import torch
    except ImportError:
        return None
    return torch


def command(*words):
    """What the command line prints; stderr where it refuses."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr


def files_of(x, *words):
    """{name: array} of `fp4sim quantize` on x."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)
        told = command("quantize", f"{folder}/x.npy", "--out", f"{folder}/out", "--no-sync", *words)
        names = [name for name in os.listdir(f"{folder}/out") if name.endswith(".npy")] if "NMSE" in told else []
        return {name[:-4]: np.load(f"{folder}/out/{name}") for name in names}


def result_of(name, arrays, *words):
    """The file that a command writes, from arrays saved as a.npy, b.npy, ..."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{letter}.npy" for letter in "ab"[: len(arrays)]]
        for path, array in zip(paths, arrays):
            np.save(path, array)
        told = command(name, *paths, "--out", f"{folder}/out.npy", *words)
        if not os.path.exists(f"{folder}/out.npy"):
            raise AssertionError(told)
        return np.load(f"{folder}/out.npy")


def numbers(*shape, seed=0):
    """Normal numbers of many sizes, with zeros and a block of zeros."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal(shape) * np.exp2(draw.integers(-8, 8, shape))
    x.reshape(-1)[::7] = 0
    x.reshape(-1)[:40] = 0
    return x.astype(np.float32)


def same(a, b):
    """Equal type, shape and bits."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
