"""Replays of the explorers over a stored table.

    /usr/bin/python3 tools/studies/explore.py results/design_space/table.csv results/explore [REPLAYS]

rungs.csv in the second folder (the grid `rungs`, `table --group`) says how far ln(gap) at each length lies from that at
the full one beyond the noise of seeds; halving's rungs have that much noise, and without the file halving is left out. Writes
replay.csv and rungs_sd.csv there.
"""
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

FP4SIM = os.environ.get("FP4SIM", "build/fp4sim")
# Budget: halving's rungs. The first costs half of the budget or less.
RUNGS = {0.1: [15, 60, 300], 0.25: [30, 100, 300], 0.5: [60, 150, 300]}


def rung_sd(path):
    """{steps: SD of ln(gap) - ln(gap at the full length), without the part that seeds make}, and the settings used."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    axes = [a for a in list(rows[0])[: list(rows[0]).index("task")] if a != "train.steps"]
    gaps = {}
    for row in rows:
        if row["role"] == "run" and row["loss_gap"]:
            key = tuple(row[a] for a in axes)
            gap, sd, n = float(row["loss_gap"]), float(row["loss_gap_sd"]), int(row["n"])
            if gap > 0:
                gaps.setdefault(key, {})[int(row["train.steps"])] = gap, sd ** 2 / n / gap ** 2
    full = max(steps for by_steps in gaps.values() for steps in by_steps)
    result = {}
    for steps in sorted({s for by_steps in gaps.values() for s in by_steps} - {full}):
        both = [(g[steps], g[full]) for g in gaps.values() if steps in g and full in g]
        differences = [math.log(a[0] / b[0]) for a, b in both]
        noise = statistics.mean(a[1] + b[1] for a, b in both)
        result[steps] = math.sqrt(max(0.0, statistics.variance(differences) - noise)), len(both), math.sqrt(noise)
    return result


def main(table, out, replays):
    sds = rung_sd(out / "rungs.csv") if (out / "rungs.csv").exists() else {}
    if sds:
        with open(out / "rungs_sd.csv", "w", encoding="utf-8") as file:
            file.write("steps,settings,sd_ln_gap,sd_of_seeds\n")
            for steps, (sd, n, noise) in sds.items():
                file.write(f"{steps},{n},{sd:.4g},{noise:.4g}\n")
    rows = []
    for task in ("classifier", "regression", "diffusion"):
        for budget, rungs in RUNGS.items():
            words = [] if not sds else ["--rungs", ",".join(map(str, rungs)), "--rung-sd", ",".join(f"{sds[s][0]:.4g}" for s in rungs[:-1])]
            text = subprocess.run([FP4SIM, "sweep", "replay", "design_space", "--table", table, "--task", task, "--budgets", str(budget),
                                   "--replays", str(replays), "--json", *words], capture_output=True, text=True, check=True).stdout
            result = json.loads(text)
            for row in result["rows"]:
                rows.append({"task": task, "explore": row["explore"], "budget": budget, "replays": replays,
                             "configurations": result["configurations"], "front": result["front"],
                             **{name: value for key in ("work", "recall", "alike")
                                for name, value in [(key, row[key]["mean"]), (key + "_low", row[key]["interval"][0]),
                                                    (key + "_high", row[key]["interval"][1])]},
                             "work_percent": 100 * row["work"]["mean"], "alike_percent": 100 * row["alike"]["mean"]})
            print(task, budget, flush=True)
            with open(out / "replay.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                for row in rows:
                    writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200)
