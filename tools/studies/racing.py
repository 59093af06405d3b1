"""Losses of three studies as pools from which tests/test_race_pool.cpp and test_race_tuned.cpp replay races.

    /usr/bin/python3 tools/studies/racing.py racing.csv racing_null.csv tuned_null.csv results/racing

Writes pool.csv (a column for each setting, a line for each seed) and null.csv (a column for each `seed`, a line for each
data set): a line of labels, a line of overheads, then losses with six digits. tuned.csv has a line for each learning
rate and seed and a column for each recipe.
"""
import pathlib
import sys

import study_tables


def read(path):
    return [row for row in study_tables.read(path) if row["role"] == "run" and row["status"] == "finished"]


def write(path, first, columns, overheads, lines):
    rows = [[name, *(f"{lines[name][column]:.6g}" for column in columns)] for name in sorted(lines, key=int)]
    study_tables.write(path, [first, *columns], [["overhead", *overheads], *rows])
    print(f"{path}: {len(columns)} columns, {len(lines)} lines")


def pool(rows, out):
    axes = list(rows[0])[: list(rows[0]).index("task")]
    label = {row["config_hash"]: " ".join([row["recipe"], *(row[axis] for axis in axes if axis != "recipe" and row[axis])])
             for row in rows}
    runs = {}
    for row in rows:
        runs.setdefault(row["seed"], {})[label[row["config_hash"]]] = float(row["loss"])
    overhead = {label[row["config_hash"]]: row["overhead"] for row in rows}
    columns = sorted(overhead, key=lambda name: (float(overhead[name]), name))
    columns = [name for name in columns if all(name in run for run in runs.values())]
    write(out / "pool.csv", "seed", columns, [f"{float(overhead[name]):.6g}" for name in columns], runs)


def null(rows, out):
    runs = {}
    for row in rows:
        runs.setdefault(row["task.*.data_seed"], {})[row["seed"]] = float(row["loss"])
    columns = sorted({row["seed"] for row in rows}, key=int)
    write(out / "null.csv", "data_seed", columns, [rows[0]["overhead"]] * len(columns), runs)


def tuned(rows, out):
    axes = [axis for axis in rows[0] if axis.endswith(".random_bits")]
    losses, recipes = {}, sorted({tuple(row[axis] for axis in axes) for row in rows})
    for row in rows:
        key = float(row["train.lr"]), int(row["seed"])
        losses.setdefault(key, {})[tuple(row[axis] for axis in axes)] = float(row["loss"])
    study_tables.write(out / "tuned.csv", ["lr", "seed", *(" ".join(recipe) for recipe in recipes)],
                       ([*key, *(f"{losses[key][recipe]:.6g}" for recipe in recipes)] for key in sorted(losses)))


out = pathlib.Path(sys.argv[4])
pool(read(sys.argv[1]), out)
null(read(sys.argv[2]), out)
tuned(read(sys.argv[3]), out)
