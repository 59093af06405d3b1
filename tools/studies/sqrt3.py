"""The gradient-to-noise ratio |g| / (sqrt(d) sigma) of each third of the training, beside what 4 bits in the backward
pass cost there (2505.19115: below sqrt(3) they stop to help).

    /usr/bin/python3 tools/studies/sqrt3.py results/sqrt3

Reads FOLDER/table.csv (the best learning rates) and FOLDER/effects.csv, trains NVFP4 with RNE and with SR at those rates
on seeds 1..3 while the ratio is traced every ten steps, and writes FOLDER/ratio.csv: median ratio of the third with its
smallest and largest value, effect and interval.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from study_tables import read as rows, write_dicts

THIRDS = {"first": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "last": (2 / 3, 1)}
BACKWARD = {"RNE": {}, "SR": {"dgrad": {"a": {"rounding": "stochastic"}}, "wgrad": {"*": {"rounding": "stochastic"}}}}
STEPS = 300


def traced_ratios(folder, task, batch, lr, rounding):
    """[(share of the steps, ratio)] of three seeds."""
    recipe = folder / "recipe.json"
    # A phase that never begins: its condition is what makes the trainer measure the ratio.
    recipe.write_text(json.dumps({"base": "nvfp4", **BACKWARD[rounding],
                                  "phases": [{"until": 0.9999}, {"when": "gradient_noise_ratio < 1e-9"}]}))
    found = []
    for seed in (1, 2, 3):
        subprocess.run(["build/fp4sim", "train", "--task", task, "--recipe", recipe, "--steps", str(STEPS), "--seed", str(seed),
                        "--set", f"train.batch={batch}", "--set", f"train.lr={lr}", "--trace", folder / "trace.csv", "--force",
                        "--quiet"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found += [(int(r["step"]) / STEPS, float(r["value"])) for r in rows(folder / "trace.csv")
                  if r["quantity"] == "gradient_noise_ratio"]
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    rates = {(r["task"], r["train.batch"], r["recipe"]): r["lr"] for r in rows(folder / "table.csv") if r["at"] != "near best"}
    effects = {(r["task"], r["group"].split(":")[0].split()[1], r["name"]): r for r in rows(folder / "effects.csv")}
    result = []
    with tempfile.TemporaryDirectory() as scratch:
        for (task, batch, recipe), lr in rates.items():
            if recipe not in BACKWARD:
                continue
            ratios = traced_ratios(pathlib.Path(scratch), task, batch, lr, recipe)
            for third, (begin, end) in THIRDS.items():
                here = [ratio for share, ratio in ratios if begin < share <= end]
                effect = effects[task, batch, f"{recipe} {third} third"]
                result.append({"task": task, "rounding": recipe, "batch": batch, "third": third,
                               "ratio": f"{statistics.median(here):.3g}", "smallest": f"{min(here):.3g}",
                               "largest": f"{max(here):.3g}", "effect": effect["mean"], "low": effect["low"],
                               "high": effect["high"]})
    write_dicts(folder / "ratio.csv", result)


if __name__ == "__main__":
    main()
