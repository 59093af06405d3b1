"""How weights oscillate over training under each setting of the study, at the learning rate that it chose.

    /usr/bin/python3 tools/studies/oscillation.py results/oscillation

Reads table.csv there and runs `fp4sim train --trace` once for each task and setting (seed 1). Writes oscillation.csv in the columns of a trace, for
`fp4sim trace plot`: `gemm` is the task, `layer` the setting, values are means over the layers of `oscillation` (sum of |dQ(w)| over sum of |dw| since
the last traced step, ten steps before) and of `oscillating_share`.
"""
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

folder = pathlib.Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else "build/fp4sim"
grid = json.loads(pathlib.Path("sweeps/grids/oscillation.json").read_text(encoding="utf-8"))
with open(folder / "table.csv", encoding="utf-8") as file:
    best = {(row["task"], row["weights"]): row["lr"] for row in csv.DictReader(file) if row["weights"]}

lines = []
for task in grid["task"]:
    for setting in grid["axes"]["weights"]:
        label = setting["label"]
        rules = {key: value for key, value in setting.items() if key != "label"}
        with tempfile.TemporaryDirectory() as scratch:
            trace = pathlib.Path(scratch) / "trace.csv"
            subprocess.run([program, "train", "--task", task, "--recipe", "mxfp4", "--set", f"recipe.weights={json.dumps(rules)}", "--set",
                            f"lr={best[task, label]}", "--steps", str(grid["train"]["steps"]), "--trace", str(trace), "--trace-every", "10", "-q"],
                           check=True, stdout=subprocess.DEVNULL)
            found = collections.defaultdict(list)
            with open(trace, encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if row["quantity"].startswith("oscillat"):
                        found[int(row["step"]), row["quantity"]].append(float(row["value"]))
        for step, quantity in sorted(found, key=lambda key: (key[1], key[0])):
            lines.append([step, label, task, "b", quantity, f"{statistics.fmean(found[step, quantity]):.4g}"])
with open(folder / "oscillation.csv", "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["step", "layer", "gemm", "operand", "quantity", "value"])
    writer.writerows(lines)
