#!/usr/bin/env python3
"""Training steps of PyTorch in fp32, eager, one thread: the models of `fp4sim bench train`, by hand.

Prints one JSON object: {"torch": version, "seconds": {model: median seconds of a step}}. Exit 3 without PyTorch.
  bench_torch.py [--models mlp-128,mlp-256,lm] [--rounds 5] [--seconds 1]
Time is CPU time, which other programs do not stretch; the data is the same random numbers every step.
"""
import argparse
import json
import os
import statistics
import sys
import time

# Debian's PyTorch multiplies with OpenBLAS, which falls back to SSE on CPUs younger than itself, and some machines
# export another CPU's name: by flags it always has the widest kernels.
with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
    flags = info.read()
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
if "avx2" in flags:
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if "avx512bw" in flags else "Haswell"
os.environ["OMP_NUM_THREADS"] = "1"

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed", file=sys.stderr)
    sys.exit(3)


def mlp(width):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    x, labels = torch.randn(128, 64), torch.randint(0, 10, (128,))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()

    return step


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain


class Block(nn.Module):
    def __init__(self, width, heads, ffn, context):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = Norm(width), Norm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)
        half = width // heads // 2
        angle = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())
        self.register_buffer("future", torch.full((context, context), float("-inf")).triu(1))

    def rotated(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * self.cosine - b * self.sine, b * self.cosine + a * self.sine), -1)

    def forward(self, x):
        batch, context, width = x.shape
        h = self.attention_norm(x)
        q, k, v = (w(h).view(batch, context, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v))
        q, k = self.rotated(q), self.rotated(k)
        p = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.future).softmax(-1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(batch, context, width))
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def language_model(width=128, layers=2, heads=4, ffn=352, context=64, batch=16):
    blocks = [Block(width, heads, ffn, context) for _ in range(layers)]
    model = nn.Sequential(nn.Embedding(256, width), *blocks, Norm(width), nn.Linear(width, 256, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    tokens = torch.randint(0, 256, (batch, context + 1))

    def step():
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.reshape(-1, 256), tokens[:, 1:].reshape(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


MODELS = {"mlp-128": lambda: mlp(128), "mlp-256": lambda: mlp(256), "lm": language_model,
          "lm-256": lambda: language_model(256, 4, 8, 704, 128, 16)}


def seconds_of(step, rounds, budget):
    for _ in range(3):
        step()
    start = time.process_time()
    step()
    count = max(2, int(budget / rounds / max(time.process_time() - start, 1e-6)))
    samples = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(count):
            step()
        samples.append((time.process_time() - start) / count)
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time a model")
    args = parser.parse_args()
    unknown = set(args.models.split(",")) - set(MODELS)
    if unknown:
        parser.error(f"--models: unknown {', '.join(sorted(unknown))}; accepted: {', '.join(MODELS)}")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    result = {name: seconds_of(MODELS[name](), args.rounds, args.seconds) for name in args.models.split(",")}
    print(json.dumps({"torch": torch.__version__, "seconds": result}))


if __name__ == "__main__":
    main()
