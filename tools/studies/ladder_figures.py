#!/usr/bin/env python3
"""A ladder's law as tables that tools/scripts draws:

    ladder_figures.py GAPS.csv LAW.json OUT_DIR

GAPS.csv is ladder.py's, LAW.json `fp4sim law --json`. Writes law.csv (for curves.mjs: measured mean losses and the law's curves)
and extra_tokens.csv (for fp4sim effects --figure).
"""
import json
import pathlib
import sys

import study_tables

PUBLISHED = {  # extra tokens over fp8 at the sizes of the papers
    recipe: [share / 100 for share in shares]
    for result in json.loads(pathlib.Path("sweeps/published/language_models.json").read_text("utf-8"))["results"]
    if "tokens_over" in result
    for recipe, shares in result["rows"].items()
    if recipe != result["tokens_over"]}
FOREST = ("group", "name", "task", "n", "mean", "low", "high", "delta")
DRAWN = ("bf16", "mxfp4_all", "nvfp4_te")


def short(value):
    return float(f"{value:.4g}")


def main():
    gaps, law_file, out = sys.argv[1:]
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
    for row in study_tables.read(gaps):
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
    study_tables.write(out / "law.csv", ("weights", "line", "tokens_per_weight", "loss"), curves)

    extra = []
    for r in study["recipes"]:
        if r.get("extra_tokens") is not None and r["extra_tokens_interval"]:
            low, high = r["extra_tokens_interval"]
            extra.append(("extra tokens, share", r["recipe"], "law of this ladder, over bf16", r["runs"],
                          *map(short, (r["extra_tokens"], low, high)), 0))
        if r["recipe"] in PUBLISHED:
            low, high = PUBLISHED[r["recipe"]]
            extra.append(("extra tokens, share", r["recipe"], "published, over fp8", 0, (low + high) / 2, low, high, 0))
    study_tables.write(out / "extra_tokens.csv", FOREST, extra)


if __name__ == "__main__":
    main()
