"""What the Python package costs, one thread each, best of interleaved rounds: a step of a converted MLP, and a layer forward and
backward, against torch's own in fp32; quantising a tensor of 64 MB against the C call; a call for each row of a matrix against
one call. Prints ratios; exit code 1 where one is above its limit.

    PYTHONPATH=build/python python3 tools/bench/bench_python.py build/src/libfp4sim.so [ROUNDS]     (default 20)
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


def layer(width, batch, rounds):
    """Forward and backward of one layer, apart."""
    def halves(model):
        y, gradient = model(x), torch.ones(batch, width)
        return lambda: model(x), lambda: y.backward(gradient, retain_graph=True)

    x = torch.randn(batch, width, requires_grad=True)
    plain = torch.nn.Linear(width, width)
    rows = []
    for recipe in RECIPES:
        mine = ft.convert(torch.nn.Linear(width, width), recipe, threads=1)
        times = best([*halves(plain), *halves(mine)], rounds)
        rows += [(f"{part} {width}x{batch} {recipe}", times[2 + i] / times[i], STEP_LIMIT)
                 for i, part in enumerate(("forward", "backward"))]
    return rows


def rate_of_torch(rounds):
    """The ratios to torch hang on the BLAS that it is built with."""
    a = torch.randn(1024, 1024)
    print(f"torch {torch.__version__} multiplies fp32 at {2 * 1024**3 / best([lambda: a @ a], rounds)[0] / 1e9:.0f} GFLOP/s a core")


def call_by_call(rounds):
    """256 rows of 4,096: what 255 calls more cost."""
    x = np.random.default_rng(0).standard_normal((256, 4096)).astype(np.float32)
    one, many = best([lambda: f4.quantize(x, "mxfp4", statistics=False),
                      lambda: [f4.quantize(row, "mxfp4", statistics=False) for row in x]], rounds)
    print(f"a call takes {(many - one) / 255 * 1e6:.0f} us beside its work: 256 calls of a row take {many / one:.1f} x one call")


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
    rounds, missed = int(sys.argv[2]) if len(sys.argv) > 2 else 20, False
    parts = [lambda size=size: steps(*size, rounds) for size in SIZES] + [
        lambda: layer(*SIZES[-1], rounds), lambda: calls(sys.argv[1], rounds)]
    for part in parts:
        for name, ratio, limit in part():
            missed |= ratio > limit
            print(f"{name:42} {ratio:5.2f} x   at most {limit}{'' if ratio <= limit else '   MISSED'}", flush=True)
    rate_of_torch(rounds)
    call_by_call(rounds)
    return missed


if __name__ == "__main__":
    sys.exit(main())
