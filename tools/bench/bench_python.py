"""What the Python package costs: a step of a converted MLP against torch's own fp32 step, and quantising a tensor of 64 MB
against the C call, one thread each, best of interleaved rounds. Prints ratios; exit code 1 where one is above its limit.

    PYTHONPATH=build/python python3 tools/bench/bench_python.py build/src/libfp4sim.so
"""
import ctypes
import sys
import time

import fp4sim as f4
import fp4sim.torch as ft
import numpy as np
import torch

STEP_LIMIT, CALL_LIMIT = 1.5, 1.3
RECIPES = ("mxfp4", "nvfp4", "nvfp4_te", "mxfp8", "mxfp4_sr")
SIZES = ((256, 128), (512, 256), (1024, 512))  # width, batch


def best(calls, rounds):
    """The least seconds of each of `calls`, in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[i] = min(least[i], time.perf_counter() - begin)
    return least


def stepper(model, x):
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)

    def step():
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    step()
    return step


def steps(width, batch, rounds):
    def mlp():
        layers = [layer for _ in range(3) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers[:-1])

    x = torch.randn(batch, width)
    calls = [stepper(mlp(), x)] + [stepper(ft.convert(mlp(), recipe, threads=1), x) for recipe in RECIPES]
    own, *ours = best(calls, rounds)
    return [(f"step {width}x{batch} {recipe}", t / own, STEP_LIMIT) for recipe, t in zip(RECIPES, ours)]


class Place(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("stream", ctypes.c_uint32), ("step", ctypes.c_uint32)]


def c_call(library, spec, x):
    quantize = ctypes.CDLL(library).fp4sim_quantize
    rows, cols = x.shape
    out = [np.empty(rows * cols // 2, np.uint8), np.empty(rows * cols // 16, np.uint8), np.empty(1, np.float32)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in out]
    words, data = spec.encode(), ctypes.c_void_p(x.data_ptr())
    return lambda: (quantize(words, data, ctypes.c_int64(rows), ctypes.c_int64(cols), Place(0, 0, 0), *pointers), out)


def calls(library, rounds):
    x = torch.randn(4096, 4096)
    rows = []
    for spec in ("mxfp4", "nvfp4", "nvfp4,rounding=stochastic"):
        c, python = best([c_call(library, spec, x), lambda: f4.quantize(x, spec, statistics=False)], rounds)
        rows.append((f"quantize 64 MB {spec}", python / c, CALL_LIMIT))
    return rows


def main():
    torch.set_num_threads(1)
    f4.set_num_threads(1)
    torch.manual_seed(0)
    rows = [row for width, batch in SIZES for row in steps(width, batch, 20)] + calls(sys.argv[1], 20)
    for name, ratio, limit in rows:
        print(f"{name:42} {ratio:5.2f} x   at most {limit}{'' if ratio <= limit else '   MISSED'}")
    return any(ratio > limit for _, ratio, limit in rows)


if __name__ == "__main__":
    sys.exit(main())
