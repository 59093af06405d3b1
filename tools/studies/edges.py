#!/usr/bin/env python3
"""Stability edges as tables: edges.py EDGES.json OUT, what `fp4sim edge GRID --json` printed.

OUT/edges.csv: a row for each setting: largest rate at which nine of ten seeds finish, as a number and as a multiple of
bf16's, with 95 % intervals. OUT/effects.csv: log2 of the multiple for fp4sim effects --figure; delta is one rung.
"""
import json
import math
import sys

import study_tables


def main(source, out):
    with open(source, encoding="utf-8") as file:
        edges = json.load(file)
    rows, effects = [], []
    for context in edges["contexts"]:
        for s in context["settings"]:
            shown = {key: "" if s.get(key) is None else s[key]
                     for key in ("edge", "beyond", "low", "high", "ratio", "ratio_low", "ratio_high")}
            rows.append({"task": context["task"], "steps": context["steps"], "setting": s["setting"],
                         "seeds": edges["seeds"], **shown})
            if s["setting"] == "bf16" or not all(shown[key] for key in ("ratio", "ratio_low", "ratio_high")):
                continue
            effects.append({"group": "largest stable rate, log2 of the multiple of bf16's", "name": s["setting"],
                            "task": context["task"], "n": edges["seeds"], "mean": math.log2(s["ratio"]),
                            "low": math.log2(s["ratio_low"]), "high": math.log2(s["ratio_high"]), "delta": 0.5})
    for name, table in (("edges.csv", rows), ("effects.csv", effects)):
        if not table:
            sys.exit(f"{source}: no setting has an edge with both ends")
        study_tables.write_dicts(f"{out}/{name}", table)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
