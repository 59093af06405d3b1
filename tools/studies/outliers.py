"""Traces of trainings to tails by kind of operand:  outliers.py OUT.csv build/studies/outliers.RECIPE.SEED.csv ...

A row for each recipe, kind of operand and traced step: kurtosis, amax / rms and nmse, each the geometric mean over the
layers of that kind and the seeds. The kurtosis of a Gaussian is 3.
"""
import math
import pathlib
import sys

import study_tables

# kind of operand: product, operand, ends of the layers' names
KINDS = {
    "X of down": ("fprop", "a", ("down",)),
    "X of the others": ("fprop", "a", ("q", "k", "v", "o", "gate", "up")),
    "W": ("fprop", "b", ("q", "k", "v", "o", "gate", "up", "down")),
    "dY of q and k": ("dgrad", "a", ("q", "k")),
    "dY of gate and up": ("dgrad", "a", ("gate", "up")),
    "dY of v, o and down": ("dgrad", "a", ("v", "o", "down")),
}
QUANTITIES = ("kurtosis", "amax_over_rms", "nmse")

logs = {}
for path in sys.argv[2:]:
    recipe = pathlib.Path(path).name.split(".")[1]
    for row in study_tables.read(path):
        if row["quantity"] not in QUANTITIES or float(row["value"]) <= 0:
            continue
        for kind, (gemm, operand, ends) in KINDS.items():
            if (row["gemm"], row["operand"]) == (gemm, operand) and row["layer"].split(".")[-1] in ends:
                key = (recipe, kind, int(row["step"]), row["quantity"])
                logs.setdefault(key, []).append(math.log(float(row["value"])))

rows, order = [], {kind: i for i, kind in enumerate(KINDS)}
for recipe, kind, step in sorted({key[:3] for key in logs}, key=lambda k: (k[0], order[k[1]], k[2])):
    found = [logs.get((recipe, kind, step, quantity)) for quantity in QUANTITIES]
    rows.append([recipe, kind, step] + [f"{math.exp(sum(v) / len(v)):.4g}" if v else "" for v in found])
study_tables.write(sys.argv[1], ("recipe", "operand", "step") + QUANTITIES, rows)
