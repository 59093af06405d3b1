"""Mean and SD of fp32's loss for each learning rate, clip and warm-up of studies in build/studies.

    /usr/bin/python3 tools/studies/defaults.py results/defaults/table.csv defaults defaults_lm
"""
import collections
import statistics
import subprocess
import sys
import tempfile

import study_tables

TASKS = ["regression", "classifier", "diffusion", "lm"]
losses = collections.defaultdict(list)  # None: no loss
for study in sys.argv[2:]:
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as table:
        command = ["build/fp4sim", "table", f"build/studies/{study}", "--force", "--csv", table.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for row in study_tables.read(table.name):
            key = (row["task"], float(row["train.lr"]), float(row["train.clip"]), int(row["train.warmup"]))
            losses[key].append(float(row["loss"]) if row["status"] == "finished" else None)
rows = []
for key in sorted(losses, key=lambda k: (TASKS.index(k[0]),) + k[1:]):
    task, lr, clip, warmup = key
    found = [loss for loss in losses[key] if loss is not None]
    diverged = len(losses[key]) - len(found)
    setting = f"clip {f'{clip:g}' if clip else 'none'}, warm-up {'5 %' if warmup else 'none'}"
    numbers = ["", ""]
    if not diverged:
        numbers = [f"{statistics.mean(found):.6g}", f"{statistics.stdev(found) if len(found) > 1 else 0:.3g}"]
    rows.append([task, f"{lr:g}", f"{clip:g}", warmup, setting, len(losses[key]), diverged] + numbers)
study_tables.write(sys.argv[1], ["task", "lr", "clip", "warmup", "setting", "n", "diverged", "loss", "sd"], rows)
