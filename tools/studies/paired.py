"""Paired differences between settings of a study, with intervals that hold together.

    /usr/bin/python3 tools/studies/paired.py results/wgrad/table.csv [TABLE ..] tools/studies/wgrad.json

A TABLE is what `fp4sim table --group --csv` writes (losses by seed in its column `runs`), or has one row per run. The last file holds what is compared,
{"mxfp4": SETTINGS, "groups": {GROUP: {"base": SETTINGS, "rows": {NAME: SETTINGS}}}}; SETTINGS are COLUMN=VALUE[,COLUMN=VALUE..] or {COLUMN: VALUE, ..} (a column by its whole name or its last word) and name one configuration of each
task. Every row is compared with the base of its group on the seeds that both have: n, the mean of loss(row) - loss(base), a
Student t interval at 1 - 0.05/(number of differences), and the effect that such an interval would show in four
of five repetitions. delta, the smallest difference that matters, is 2 % of the loss gap of `mxfp4`. Beside the first TABLE they go to effects.csv, and as Markdown tables into README.md below each line
`<!-- effects: GROUP -->`; bold: the interval does not hold 0.
"""
import collections
import csv
import json
import math
import pathlib
import re
import statistics
import sys


def t_quantile(p, df):
    """Bisection on the distribution function of Student's t, by Simpson's rule (error below 1e-7)."""
    c = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def cdf(t, n=400):
        f = lambda x: c * (1 + x * x / df) ** (-(df + 1) / 2)
        h = t / n
        return 0.5 + h / 3 * (f(0) + f(t) + sum((4 if i % 2 else 2) * f(i * h) for i in range(1, n)))

    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return low


def by_seed(row):
    """One row per run of a configuration's row: its losses by seed stand in `runs` ("1:0.358:7e25c8a1b2c3d4e5 2:diverged")."""
    result = []
    for seed, loss, *digest in (run.split(":") for run in row["runs"].split()):
        result.append({**row, "seed": seed, "loss": loss, "status": loss if loss.isalpha() else "finished"})
    return result


def read_runs(*tables):
    """A function from SETTINGS (and a column) to {task: {seed: number}}, and the tasks in the tables' order."""
    rows = []
    for table in tables:
        with open(table, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rows += by_seed(row) if "runs" in row else [row]
    columns = list(dict.fromkeys(column for row in rows for column in row))

    def column(word):
        found = [c for c in columns if c == word] or [c for c in columns if c.split(".")[-1] == word]
        if len(found) != 1:
            sys.exit(f"paired: '{word}' names {len(found)} columns; accepted: {', '.join(columns)}")
        return found[0]

    def runs(settings, number="loss"):
        pairs = settings.items() if isinstance(settings, dict) else (part.split("=", 1) for part in settings.split(","))
        conditions = [(column(a), b) for a, b in pairs]
        found = collections.defaultdict(dict)
        for row in rows:
            if all(row.get(a, "") == b for a, b in conditions) and row["status"] == "finished":
                if row["seed"] in found[row["task"]]:
                    sys.exit(f"paired: {settings} names several configurations of {row['task']}")
                found[row["task"]][row["seed"]] = float(row[number])
        if not found:
            sys.exit(f"paired: no run of {', '.join(map(str, tables))} is {settings}")
        return found

    return runs, list(dict.fromkeys(row["task"] for row in rows))


def compare(runs, study):
    """One dict for each group, row and task."""
    effects = []
    delta = {task: 0.02 * statistics.mean(gaps.values()) for task, gaps in runs(study["mxfp4"], "loss_gap").items()}
    for group, comparison in study["groups"].items():
        base = runs(comparison["base"])
        for name, settings in comparison["rows"].items():
            other = runs(settings)
            for task in other:
                seeds = sorted(set(base[task]) & set(other[task]))
                effects.append({"group": group, "name": name, "task": task, "n": len(seeds),
                                "differences": [other[task][s] - base[task][s] for s in seeds]})
    for effect in effects:
        d = effect.pop("differences")
        error = statistics.stdev(d) / math.sqrt(len(d))
        quantile = t_quantile(1 - 0.025 / len(effects), len(d) - 1)
        mean = statistics.mean(d)
        effect.update(mean=mean, low=mean - quantile * error, high=mean + quantile * error,
                      detectable=(quantile + t_quantile(0.8, len(d) - 1)) * error,
                      delta=delta[effect["task"]])
    return effects


def decimals(width):
    """Two digits of a width."""
    return 6 if width <= 0 else max(2, min(6, 1 - math.floor(math.log10(width))))


def short(value, digits, sign="+"):
    return f"{value:{sign}.{digits}f}".replace("0.", ".", 1)


def cell(effect):
    if effect["low"] == effect["high"] == 0:
        return "equal in every run"
    digits = decimals((effect["high"] - effect["low"]) / 2)
    text = f"{short(effect['mean'], digits)} [{short(effect['low'], digits)}, {short(effect['high'], digits)}]"
    return text if effect["low"] <= 0 <= effect["high"] else f"**{text}**"


def markdown(effects, tasks):
    lines = ["| | " + " | ".join(tasks) + " |", "|---" * (len(tasks) + 1) + "|"]
    for name in dict.fromkeys(effect["name"] for effect in effects):
        cells = {effect["task"]: cell(effect) for effect in effects if effect["name"] == name}
        lines.append(f"| {name} | " + " | ".join(cells.get(task, "") for task in tasks) + " |")
    shown = []
    for task in tasks:
        widths = [effect["detectable"] for effect in effects if effect["task"] == task]
        shown.append(short(statistics.median(widths), decimals(statistics.median(widths)), "") if widths else "")
    lines.append("| *would show from* | " + " | ".join(shown) + " |")
    return lines


def write_page(page, effects, tasks):
    """Replaces the tables below the markers of a page."""
    lines = page.read_text(encoding="utf-8").split("\n")
    result, skipping = [], False
    for line in lines:
        if skipping and (not line or line.startswith("|")):
            continue
        result += ["", line] if skipping else [line]
        skipping = False
        if mark := re.fullmatch(r"<!-- effects: (.*) -->", line):
            of_group = [effect for effect in effects if effect["group"] == mark[1]]
            if not of_group:
                sys.exit(f"paired: {page}: no group '{mark[1]}'; accepted: {', '.join({e['group'] for e in effects})}")
            result += ["", *markdown(of_group, tasks)]
            skipping = True
    page.write_text("\n".join(result).rstrip("\n") + "\n", encoding="utf-8")


def main():
    *tables, pairs = map(pathlib.Path, sys.argv[1:])
    table = tables[0]
    runs, tasks = read_runs(*tables)
    effects = compare(runs, json.loads(pairs.read_text(encoding="utf-8")))
    with open(table.with_name("effects.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(effects[0]), lineterminator="\n")
        writer.writeheader()
        for effect in effects:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in effect.items()})
    page = table.with_name("README.md")
    if page.exists():
        write_page(page, effects, tasks)
    for group in dict.fromkeys(effect["group"] for effect in effects):
        print(f"\n{group}\n")
        print("\n".join(markdown([effect for effect in effects if effect["group"] == group], tasks)))
    print(f"\n{len(effects)} intervals, 95 % together")


if __name__ == "__main__":
    main()
