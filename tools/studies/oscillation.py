"""How weights oscillate over training under each setting of a study, at the learning rate that it chose.

    /usr/bin/python3 tools/studies/oscillation.py results/oscillation [PROGRAM]

Reads table.csv there, the grid of the folder's name, and runs `fp4sim train --trace` for each task, format and rule (seed 1). Writes
oscillation.csv in the columns of a trace, for `fp4sim trace plot`: `gemm` is task and format, `layer` the rule, values are means over the layers
of `oscillation` (sum of |dQ(w)| over sum of |dw| since the last traced step, ten steps before) and of `oscillating_share`.
"""
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import study_tables

folder = pathlib.Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else "build/fp4sim"
grid = json.loads(pathlib.Path(f"sweeps/grids/{folder.name}.json").read_text(encoding="utf-8"))
axes = grid["axes"]
best = {(row["task"], row["recipe"], row["weights"]): row["lr"] for row in study_tables.read(folder / "table.csv") if row["at"] != "near best"}


def trace(task, recipe, rule):
    """{(step, quantity): mean over the layers} of one training."""
    rules = {key: value for key, value in rule.items() if key != "label"}
    settings = [f"recipe.weights={json.dumps(rules)}", f"lr={best[task, recipe, rule['label']]}"]
    settings += [f"{path.rsplit('.', 1)[1]}={values[0]}" for path, values in axes.items() if path.startswith(f"task.{task}.")]
    with tempfile.TemporaryDirectory() as scratch:
        file_name = pathlib.Path(scratch) / "trace.csv"
        command = [program, "train", "--task", task, "--recipe", recipe, "--steps", str(grid["train"]["steps"])]
        command += [word for setting in settings for word in ("--set", setting)]
        subprocess.run([*command, "--trace", str(file_name), "--trace-every", "10", "-q"], check=True, stdout=subprocess.DEVNULL)
        found = collections.defaultdict(list)
        for row in study_tables.read(file_name):
            if row["quantity"].startswith("oscillat"):
                found[int(row["step"]), row["quantity"]].append(float(row["value"]))
    return {key: statistics.fmean(values) for key, values in found.items()}


lines = []
for task in dict.fromkeys(key[0] for key in best):  # those that the table has
    for recipe in axes["recipe"]:
        for rule in axes["weights"]:
            means = trace(task, recipe, rule)
            for step, quantity in sorted(means, key=lambda key: (key[1], key[0])):
                lines.append([step, rule["label"], f"{task} {recipe}", "b", quantity, f"{means[step, quantity]:.4g}"])
study_tables.write(folder / "oscillation.csv", ["step", "layer", "gemm", "operand", "quantity", "value"], lines)
