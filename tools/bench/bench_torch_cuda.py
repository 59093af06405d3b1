"""Training steps of Llama-like models under a recipe, over torch's compiled bf16 in the same run, on a CUDA device.

    PYTHONPATH=build/python python3 tools/bench/bench_torch_cuda.py [125m|1b] [RECIPE ..]      (default: 125m mxfp4 nvfp4_te)

A JSON line each: seconds of a step (forward, backward and AdamW; median of 10), the ratio to bf16, the most memory, the time
of the host before the device is waited for, and where the products ran.
"""
import json
import statistics
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import fp4sim.torch as ft

SIZES = {"tiny": (2, 64, 2, 96, 2, 16), "125m": (12, 768, 12, 2048, 16, 2048), "1b": (16, 2048, 32, 5632, 8, 2048)}


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def measured(size, recipe, device, words=32000, steps=10):
    layers, width, heads, inner, batch, length = SIZES[size]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(words, width), *(Block(width, heads, inner) for _ in range(layers)),
                          nn.LayerNorm(width)).to(device)
    head = nn.Linear(width, words, bias=False).to(device)
    if recipe != "bf16 of torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ft.convert(model, recipe)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], 1e-4, fused=device == "cuda")
    run, data = torch.compile(model), torch.randint(words, (batch, length + 1), device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times, host = [], []
    for step in range(steps + 3):
        wait()
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            F.cross_entropy(head(run(data[:, :-1])).flatten(0, 1), data[:, 1:].flatten()).backward()
        optimizer.step()
        host.append(time.perf_counter() - begin)
        wait()
        times.append(time.perf_counter() - begin)
    where = sorted({row["where"] for row in ft.report(model).rows()}) if recipe != "bf16 of torch" else []
    return {"size": size, "recipe": recipe, "seconds": statistics.median(times[3:]), "host_seconds": statistics.median(host[3:]),
            "memory": torch.cuda.max_memory_allocated() if device == "cuda" else None, "where": where}


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = sys.argv[1] if len(sys.argv) > 1 else "125m"
    if size not in SIZES:
        sys.exit(f"bench_torch_cuda.py: unknown word '{size}'; accepted: {', '.join(SIZES)}")
    if device == "cpu" and size != "tiny":
        sys.exit("bench_torch_cuda.py: torch sees no CUDA device; accepted there: tiny")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    base = None
    for recipe in ("bf16 of torch", *(sys.argv[2:] or ("mxfp4", "nvfp4_te"))):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        row = measured(size, recipe, device)
        base = base or row["seconds"]
        print(json.dumps({"device": name, "torch": torch.__version__, **row, "over_bf16": row["seconds"] / base}), flush=True)


if __name__ == "__main__":
    main()
