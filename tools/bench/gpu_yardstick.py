#!/usr/bin/env python3
"""What a device's vendor library and memory reach, by PyTorch: products of random matrices, and a copy.

Prints one JSON object a line as it goes, with the fields of `fp4sim bench --json`; rates of products in GMAC/s.
  gpu_yardstick.py [--size 8192] [--rounds 20]
Without PyTorch or a device it prints "[test skipped]" and the reason.
"""
import argparse
import json
import statistics
import sys

try:
    import torch
except ImportError as error:
    print(f"[test skipped] no PyTorch: {error}")
    sys.exit(0)
if not torch.cuda.is_available():
    print(f"[test skipped] PyTorch {torch.__version__} sees no device")
    sys.exit(0)

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=8192, help="n of the square products")
parser.add_argument("--rounds", type=int, default=20, help="the median counts")
arguments = parser.parse_args()
n = arguments.size
torch.manual_seed(1)
torch.set_float32_matmul_precision("highest")  # fp32 products without TF32


def median_seconds(work):
    for _ in range(3):
        work()
    times = []
    for _ in range(arguments.rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def random(dtype):
    return torch.randn(n, n, device="cuda").to(dtype)


def product(dtype):
    a, b = random(dtype), random(dtype)
    return lambda: a @ b.t()


def scaled_product(dtype):
    a, b, one = random(dtype), random(dtype), torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def integer_product():
    a, b = (torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b.t())


def copy():
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


print(json.dumps({"device": torch.cuda.get_device_name(0), "torch": torch.__version__,
                  "runtime": torch.version.cuda or torch.version.hip}), flush=True)
products = {
    "torch bf16 gemm": lambda: product(torch.bfloat16),
    "torch fp8 gemm": lambda: scaled_product(torch.float8_e4m3fn),
    "torch int8 gemm": integer_product,
    "torch fp32 gemm": lambda: product(torch.float32),
}
failed = False
for name, make in {**products, "torch copy": copy}.items():
    row = {"bench": name, "size": f"{n}x{n}x{n}" if name in products else "2^28 floats"}
    try:
        seconds = median_seconds(make())
        work, unit = (n**3, "GMAC/s") if name in products else (8 << 28, "GB/s")
        row.update(seconds=seconds, rate=1e-9 * work / seconds, unit=unit)
    except Exception as error:  # a type that this device or version lacks
        failed = True
        row["error"] = str(error).splitlines()[0] if str(error) else type(error).__name__
    print(json.dumps(row), flush=True)
sys.exit(1 if failed else 0)
