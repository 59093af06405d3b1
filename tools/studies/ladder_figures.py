#!/usr/bin/env python3
"""A ladder's law and advice as tables that tools/scripts draws:

    ladder_figures.py GAPS.csv LAW.json OUT_DIR ADVICE.json...

GAPS.csv is ladder.py's, LAW.json `fp4sim law --json`, each ADVICE.json `fp4sim advise --json` of one chip. Writes law.csv (for
curves.mjs: measured mean losses and the law's curves), extra_tokens.csv and advice.csv (for fp4sim effects --figure).
"""
import csv
import json
import pathlib
import sys

PUBLISHED = {  # extra tokens over fp8 at the sizes of the papers
    "mxfp4_fprop": (0.08, 0.09), "mxfp4_fprop_dgrad": (0.10, 0.11), "mxfp4_all": (0.26, 0.27), "mxfp4_all_h16": (0.08, 0.09)}
FOREST = ("group", "name", "task", "n", "mean", "low", "high", "delta")
DRAWN = ("bf16", "mxfp4_all", "nvfp4_te")


def write(path, head, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def short(value):
    return float(f"{value:.4g}")


def main():
    gaps, law_file, out, *advice_files = sys.argv[1:]
    out = pathlib.Path(out)
    study = json.load(open(law_file, encoding="utf-8"))
    law = study["law"]
    efficiency = {r["recipe"]: (r.get("eff_n"), r.get("eff_d")) for r in study["recipes"]}
    efficiency[study["baseline"]] = (1, 1)

    def predicted(recipe, n, d):
        eff_n, eff_d = efficiency[recipe]
        inner = law["A"] / (n * eff_n) ** law["alpha"] + law["B"] / (d * eff_d) ** law["beta"]
        return inner ** law["gamma"] + law["E"]

    curves = []
    sizes = set()
    for row in csv.DictReader(open(gaps, encoding="utf-8")):
        n, ratio, loss = (float(row[c]) for c in ("weights", "tokens_per_weight", "loss"))
        if row["recipe"] in DRAWN:
            curves.append((f"{n:.3g} weights", row["recipe"], ratio, loss))
        if row["recipe"] == "mxfp8":  # every (N, D) has one: a gap is to bf16
            curves.append((f"{n:.3g} weights", "bf16", ratio, short(loss - float(row["gap"]))))
            sizes.add(n)
    for n in sorted(sizes):
        for recipe in DRAWN:
            if efficiency.get(recipe, (None,))[0] is None:
                continue
            for step in range(13):
                ratio = 20 * 2 ** (step / 4)
                curves.append((f"{n:.3g} weights", recipe + ", law", short(ratio), short(predicted(recipe, n, n * ratio))))
    write(out / "law.csv", ("weights", "line", "tokens_per_weight", "loss"), curves)

    extra = []
    for r in study["recipes"]:
        if r.get("extra_tokens") is not None and r["extra_tokens_interval"]:
            low, high = r["extra_tokens_interval"]
            extra.append(("extra tokens, share", r["recipe"], "law of this ladder, over bf16", r["runs"],
                          *map(short, (r["extra_tokens"], low, high)), 0))
        if r["recipe"] in PUBLISHED:
            low, high = PUBLISHED[r["recipe"]]
            extra.append(("extra tokens, share", r["recipe"], "published, over fp8", 0, (low + high) / 2, low, high, 0))
    write(out / "extra_tokens.csv", FOREST, extra)

    rows = []
    for name in advice_files:
        advice = json.load(open(name, encoding="utf-8"))
        for row in advice["rows"]:
            low, high = row["cost_interval"]
            if row["cost"] is None or low is None or high is None or row["recipe"] == advice["baseline"]:
                continue
            rows.append((f"{advice['model']}: {advice['objective']} to the loss of {advice['baseline']}, less 1", row["recipe"],
                         advice["hardware"], study["law"]["runs"], *map(short, (row["cost"] - 1, low - 1, high - 1)), 0))
    write(out / "advice.csv", FOREST, rows)


if __name__ == "__main__":
    main()
