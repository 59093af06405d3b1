"""Gaps that a ladder foretold beside those of each seed:  ladder_fixed.py law.json held_out.csv OUT.csv

law.json: `fp4sim law --held-out N --json` of both tables. OUT.csv is what `fp4sim effects --figure` draws.
"""
import json
import math
import sys

import study_tables
from ladder import read

law, held_out, out = sys.argv[1:]
losses = read(held_out)
rows = []
for cell in json.load(open(law, encoding="utf-8"))["held_out_gaps"]:
    recipe, n = cell["recipe"], cell["n"]
    if recipe == "fp32":
        continue
    gaps = [losses[recipe, n][key] / losses["bf16", n][key] - 1 for key in sorted(losses[recipe, n])]
    foretold = [math.expm1(value) for value in (cell["predicted"], *cell["interval"])]
    measured = [math.expm1(cell["measured"]), min(gaps), max(gaps)]
    for kind, values in (("foretold", foretold), ("measured, two seeds", measured)):
        rows.append([f"{recipe}: gap to bf16, %", kind, f"{n / 1e3:.0f} thousand weights", len(gaps),
                     *(f"{100 * value:.2f}" for value in values), 0])
study_tables.write(out, "group,name,task,n,mean,low,high,delta".split(","), sorted(rows, key=lambda row: row[:3]))
