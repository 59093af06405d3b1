"""Replays of the explorers over a stored table.

    /usr/bin/python3 tools/studies/explore.py results/design_space/table.csv results/explore [REPLAYS]

rungs.csv in the second folder (the grid `rungs`, `table --group`) says how far ln(gap) at each length lies from that at
the full one beyond the noise of seeds; halving's rungs have that much noise, and without the file halving is left out.
Seeds of two lengths share data, so less noise may have to be taken off; halving is replayed once more with nothing taken
off: `halving, whole SD`. Writes replay.csv and rungs_sd.csv there.
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
    """{steps: (SD of ln(gap) - ln(gap at the full length) without the part that seeds make, the whole SD, settings, SD of the
    part that seeds make)}."""
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
        variance = statistics.variance(differences)
        result[steps] = math.sqrt(max(0.0, variance - noise)), math.sqrt(variance), len(both), math.sqrt(noise)
    return result


def replay(table, task, budget, replays, sds):
    """Rows of `fp4sim sweep replay`; `sds` of the rungs but the last, none: without halving."""
    words = []
    if sds:
        rungs = RUNGS[budget]
        words = ["--rungs", ",".join(map(str, rungs)), "--rung-sd", ",".join(f"{sds[steps]:.4g}" for steps in rungs[:-1])]
    text = subprocess.run([FP4SIM, "sweep", "replay", "design_space", "--table", table, "--task", task, "--budgets", str(budget),
                           "--replays", str(replays), "--json", *words], capture_output=True, text=True, check=True).stdout
    result = json.loads(text)
    for row in result["rows"]:
        figures = {}
        for key in ("work", "recall", "alike"):
            figures[key] = row[key]["mean"]
            figures[key + "_low"], figures[key + "_high"] = row[key]["interval"]
        yield {"task": task, "explore": row["explore"], "budget": budget, "replays": replays,
               "configurations": result["configurations"], "front": result["front"], **figures,
               "work_percent": 100 * row["work"]["mean"], "alike_percent": 100 * row["alike"]["mean"]}


def main(table, out, replays):
    sds = rung_sd(out / "rungs.csv") if (out / "rungs.csv").exists() else {}
    with open(out / "rungs_sd.csv", "w", encoding="utf-8") as file:
        file.write("steps,sd_ln_gap,whole_sd,settings,sd_of_seeds\n")
        for steps, (sd, whole, n, noise) in sds.items():
            file.write(f"{steps},{sd:.4g},{whole:.4g},{n},{noise:.4g}\n")
    rows = []
    for task in ("classifier", "regression", "diffusion"):
        for budget in RUNGS:
            rows += replay(table, task, budget, replays, {steps: row[0] for steps, row in sds.items()})
            if sds:
                doubted = replay(table, task, budget, replays, {steps: row[1] for steps, row in sds.items()})
                rows += [{**row, "explore": "halving, whole SD"} for row in doubted if row["explore"] == "halving"]
            print(task, budget, flush=True)
            with open(out / "replay.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                for row in rows:
                    writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200)
