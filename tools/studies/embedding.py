"""Accuracy against bytes, and latency by memory system, of embedding rows in seven formats.

    /usr/bin/python3 tools/studies/embedding.py results/embedding [build/fp4sim]

accuracy.csv: for every format and way of updating the mean of loss - loss of fp32 rows, from effects.csv, with its simultaneous interval and the
bytes of a row of 32 numbers. latency.csv: `fp4sim cost embedding` for rows of 64 and of 128 numbers and bags of 4 to 64 rows, in two orders of adding.
need.csv: of each format and bag, the latency of the pool read by the host over that of sums in the switch, and over that of sums in the switch
with fp32 rows.
"""
import json
import pathlib
import subprocess
import sys

import study_tables

folder = pathlib.Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else "build/fp4sim"
formats = ["fp32", "bf16", "int8", "int4", "mxfp4", "nvfp4", "ue5m3"]
systems = ["host", "pool", "device", "switch"]


def cost(*words):
    done = subprocess.run([program, "cost", "embedding", "--json", *map(str, words)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["rows"]


small = {line["rows"]: line["row_bytes"] for line in cost("--embedding", 32, "--batch", 1)}
accuracy = []
for line in study_tables.read(folder / "effects.csv"):
    if line["group"] != "Over fp32 rows":
        continue
    name, update = line["name"].split(", ", 1)
    accuracy.append([name, small[name], update, line["mean"], line["low"], line["high"]])
study_tables.write(folder / "accuracy.csv", ["rows", "row_bytes", "update", "loss_gap", "low", "high"], accuracy)

latency, need = [], []
for embedding in (64, 128):
    for pooling in (4, 8, 16, 32, 64):
        for order in ("any", "ids"):
            words = ["--embedding", embedding, "--pooling", pooling] + (["--in-order"] if order == "ids" else [])
            found = {(line["rows"], line["system"]): line for line in cost(*words)}
            for (rows, system), line in found.items():
                latency.append([embedding, pooling, order, rows, line["row_bytes"], system, f"{line['seconds'] * 1e6:.4g}", f"{line['link_bytes']:.0f}"])
            if order == "any":
                fp32 = found["fp32", "switch"]["seconds"]
                for rows in formats:
                    pool, near = found[rows, "pool"]["seconds"], found[rows, "switch"]["seconds"]
                    need.append([embedding, pooling, rows, f"{pool / near:.3f}", f"{pool / fp32:.3f}"])
study_tables.write(folder / "latency.csv", ["embedding", "pooling", "order", "rows", "row_bytes", "system", "microseconds", "link_bytes"], latency)
study_tables.write(folder / "need.csv", ["embedding", "pooling", "rows", "pool_over_switch", "pool_over_switch_of_fp32"], need)
