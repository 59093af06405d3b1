#!/usr/bin/python3
"""SmoothQuant, a Hadamard and GPTQ on one layer in double precision, without any library: usage gptq_reference.py JSON.

The file holds x [n][in], w [out][in], smooth (alpha, 0: none), hadamard (size, 0: none), order (activation, stored) and
damping; printed are the weights that the layer then has, in the basis of x, and those of rounding alone. GPTQ stands
here as Optimal Brain Quantization (2208.11580) with a fixed order: the full inverse of H, from which each rounded column
is eliminated, where the program walks down one Cholesky factor. Weights are MXFP4: blocks of 32 along the inputs, scale
2^(floor(log2 amax) - 2), values of E2M1, halfway cases to the even code.
"""
import json
import math
import sys

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def nearest(v, scale):
    a = abs(v) / scale
    best = min(range(8), key=lambda c: (abs(a - E2M1[c]), c % 2))
    return math.copysign(E2M1[best] * scale, v)


def inverse(m):
    n = len(m)
    rows = [list(r) + [float(i == j) for j in range(n)] for i, r in enumerate(m)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        d = rows[i][i]
        rows[i] = [v / d for v in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                f = rows[r][i]
                rows[r] = [v - f * p for v, p in zip(rows[r], rows[i])]
    return [r[n:] for r in rows]


def rotated(row, h):
    out = []
    for tile in range(0, len(row), h):
        part = row[tile:tile + h]
        out += [sum(v * (-1) ** bin(i & j).count("1") for i, v in enumerate(part)) / math.sqrt(h) for j in range(h)]
    return out


def main():
    case = json.load(open(sys.argv[1]))
    x, w = case["x"], case["w"]
    n = len(w[0])
    s = [1.0] * n
    if case["smooth"]:
        a = case["smooth"]
        s = [max(abs(r[k]) for r in x) ** a / max(abs(r[k]) for r in w) ** (1 - a) for k in range(n)]
    x = [[v / f for v, f in zip(r, s)] for r in x]
    w = [[v * f for v, f in zip(r, s)] for r in w]
    if case["hadamard"]:
        x, w = [rotated(r, case["hadamard"]) for r in x], [rotated(r, case["hadamard"]) for r in w]
    scales = [[2.0 ** (math.floor(math.log2(max(abs(v) for v in r[b:b + 32]))) - 2) for b in range(0, n, 32)] for r in w]
    plain = [[nearest(v, scales[i][k // 32]) for k, v in enumerate(r)] for i, r in enumerate(w)]

    h = [[sum(r[i] * r[j] for r in x) for j in range(n)] for i in range(n)]
    order = sorted(range(n), key=lambda k: -h[k][k]) if case["order"] == "activation" else list(range(n))
    damp = case["damping"] * sum(h[k][k] for k in range(n)) / n
    for k in range(n):
        h[k][k] += damp
    g = inverse(h)
    left, done = [list(r) for r in w], [[0.0] * n for _ in w]
    for step, k in enumerate(order):
        rest = order[step + 1:]
        for i, row in enumerate(left):
            done[i][k] = nearest(row[k], scales[i][k // 32])
            error = (row[k] - done[i][k]) / g[k][k]
            for j in rest:
                row[j] -= error * g[k][j]
        for i in rest:
            f = g[i][k] / g[k][k]
            for j in rest:
                g[i][j] -= f * g[k][j]

    def back(rows):
        if case["hadamard"]:
            rows = [rotated(r, case["hadamard"]) for r in rows]
        return [[v / f for v, f in zip(r, s)] for r in rows]

    print(json.dumps({"gptq": back(done), "nearest": back(plain)}))


main()
