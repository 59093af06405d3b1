#!/usr/bin/env python3
"""Measured joules of trainings on this machine, where it has a sensor.

    tools/studies/energy.py results/energy      # fp4sim built; an idle machine; 5 windows of 60 s for each training

For each task and recipe: `fp4sim cost measure` around the whole training, then J to the worst of the recipes' final losses, which all reach (the share of
steps until the validation curve is there for the first time), samples a joule (batch x steps / J), the windows and the power within them. Writes energy.csv,
windows.csv and trace.csv; without a sensor it says why, writes nothing and succeeds. --root FOLDER looks for sensors below FOLDER, --seconds, --runs and
--sample change the windows.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import study_tables

parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--fp4sim", default="build/fp4sim")
parser.add_argument("--tasks", default="regression,classifier,lm")
parser.add_argument("--recipes", default="fp32,bf16,mxfp8,mxfp4,nvfp4_te")
parser.add_argument("--steps", default="")
parser.add_argument("--seconds", default="60")
parser.add_argument("--runs", default="5")
parser.add_argument("--sample", default="1")
parser.add_argument("--root", default="/")
options = parser.parse_args()
look = [options.fp4sim, "cost", "measure", "--json", "--root", options.root]
scratch = tempfile.TemporaryDirectory()
trace_file = pathlib.Path(scratch.name) / "trace.csv"
measure = [*look, "--seconds", options.seconds, "--runs", options.runs, "--sample", options.sample, "--trace", str(trace_file), "--force", "--"]


def printed(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


sensors = printed([*look, "--seconds", "0", "--runs", "1", "--", "true"])
if sensors["status"] != "measured":
    print("energy: no sensor on this machine, nothing written")
    for reason in sensors["reasons"]:
        print(f"  {reason}")
    sys.exit(0)

rows, windows, traces = [], [], []
for task in options.tasks.split(","):
    batch = json.loads(pathlib.Path(f"sweeps/models/{task}.json").read_text(encoding="utf-8"))["tokens_per_step"]
    runs = []
    for recipe in options.recipes.split(","):
        train = [options.fp4sim, "train", "--task", task, "--recipe", recipe, "--quiet", *(["--steps", options.steps] if options.steps else [])]
        result = printed([*train, "--json"])
        # The command's own output would stand before the JSON of the measurement.
        reading = printed([*measure, "sh", "-c", 'exec "$@" >&2', "sh", *train])
        runs.append((recipe, result, reading))
        traces += [{"task": task, "recipe": recipe, **row} for row in study_tables.read(trace_file)]
        for window in reading["windows"]:
            windows.append([task, recipe, window["repetitions"], f"{window['seconds']:.3f}", *(f"{joules:.4g}" for joules in window["joules"])])
    target = max(result["metrics"]["loss"] for _, result, _ in runs)
    for recipe, result, reading in runs:
        points = [(p["step"], p["validation_loss"]) for p in result["curve"] if p["validation_loss"] is not None]
        reached = next((step for step, loss in points if loss <= target), result["steps"])
        joules = reading["energy_j"]
        rows.append({"task": task, "recipe": recipe, "J": f"{joules:.4g}", "s": f"{reading['seconds']:.4g}", "W": f"{reading['watts']:.4g}",
                     "loss": f"{result['metrics']['loss']:.5g}", "target": f"{target:.5g}", "J_to_target": f"{joules * reached / result['steps']:.4g}",
                     "samples_per_J": f"{batch * result['steps'] / joules:.4g}"})
        print(*rows[-1].values(), flush=True)
options.out.mkdir(parents=True, exist_ok=True)
study_tables.write_dicts(options.out / "energy.csv", rows)
study_tables.write_dicts(options.out / "trace.csv", traces)
study_tables.write(options.out / "windows.csv",
                   ["task", "recipe", "repetitions", "seconds", *(f"J {name}" for name in sensors["sensors"])], windows)
