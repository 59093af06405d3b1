"""Training steps of Llama-like models under a recipe, over torch's compiled bf16 in the same run, on a CUDA device.

    PYTHONPATH=build/python python3 tools/bench/bench_torch_cuda.py [125m|1b] [RECIPE ..]      (default: 125m mxfp4 nvfp4_te)

A JSON line each: seconds of a step (forward, backward and AdamW; median of 10), the ratio to bf16, seconds of the host before the
device is waited for, the most memory, and where the products ran. Size tiny runs on a CPU, too.
"""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import fp4sim.torch as ft

SIZES = {"tiny": (2, 64, 2, 96, 2, 16), "125m": (12, 768, 12, 2048, 16, 2048), "1b": (16, 2048, 32, 5632, 8, 2048)}
WORDS, CUDA = 32000, torch.cuda.is_available()


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o, self.up, self.down = (nn.Linear(*size, bias=False) for size in (
            (width, 3 * width), (width, width), (width, 2 * inner), (inner, width)))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def measured(layers, width, heads, inner, batch, length, recipe, device):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Embedding(WORDS, width), *(Block(width, heads, inner) for _ in range(layers))).to(device)
    head, where = nn.Linear(width, WORDS, bias=False).to(device), []
    if recipe != "bf16 of torch":
        where = sorted({row["where"] for row in ft.report(ft.convert(body, recipe)).rows()} - {""})
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], 1e-4, fused=CUDA)
    run, data, times = torch.compile(body), torch.randint(WORDS, (batch, length + 1), device=device), []
    wait = torch.cuda.synchronize if CUDA else lambda: None
    for _ in range(13):
        wait()
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            F.cross_entropy(head(run(data[:, :-1])).flatten(0, 1), data[:, 1:].flatten()).backward()
        optimizer.step()
        host = time.perf_counter() - begin
        wait()
        times.append((time.perf_counter() - begin, host))
    seconds, host = (statistics.median(column) for column in zip(*times[3:]))
    return {"seconds": seconds, "host_seconds": host, "memory": torch.cuda.max_memory_allocated() if CUDA else 0, "where": where}


size, base = (sys.argv[1:] or ["125m"])[0], None
if size not in SIZES or not (CUDA or size == "tiny"):
    sys.exit(f"bench_torch_cuda.py: '{size}'; accepted: {', '.join(SIZES)}, where torch sees no CUDA device tiny alone")
for recipe in ("bf16 of torch", *(sys.argv[2:] or ("mxfp4", "nvfp4_te"))):
    torch.cuda.reset_peak_memory_stats() if CUDA else None
    row = measured(*SIZES[size], recipe, "cuda" if CUDA else "cpu")
    base = base or row["seconds"]
    print(json.dumps({"device": torch.cuda.get_device_name() if CUDA else "cpu", "torch": torch.__version__, "size": size,
                      "recipe": recipe, **row, "over_bf16": row["seconds"] / base}), flush=True)
