#!/usr/bin/env python3
"""What a ladder says without a law:  ladder.py runs.csv OUT.csv

Prints and writes, for every recipe and (N, D), its gap to bf16 on the same seeds, and at each N the extra tokens: how many
more than bf16 it reads for the loss at which the worse of the two ends, on straight lines between budgets against the
logarithm of the tokens. Then the mean gap over all (N, D) and seeds that every recipe has, with a t interval over
(N, D) x seed (sizes and budgets are no replicates of each other: read it as a spread), and the paired differences between
recipes with intervals that hold together. Published orders beside ours: `fp4sim law runs.csv`.
"""
import collections
import statistics
import sys

import study_tables
from intervals import intervals

COMPARED = (("mxfp4_fprop", "mxfp8"), ("mxfp4_fprop_dgrad", "mxfp4_fprop"), ("mxfp4_all", "mxfp4_fprop_dgrad"),
            ("mxfp4_all_h16", "mxfp4_all"), ("nvfp4_te", "mxfp4_all"), ("quartet", "mxfp4_all"))


def read(path):
    losses = collections.defaultdict(dict)  # (recipe, N) -> {(D, seed): loss}
    for row in study_tables.read(path):
        if row["sweep"].startswith("#"):  # the last line of an export holds its grid
            continue
        metrics = dict(m.split("=") for m in row["metrics"].split(";") if m)
        if row["loss"] and "weights" in metrics:
            key = (float(metrics["tokens"]), int(row["seed"]))
            losses[row["recipe"], float(metrics["weights"])][key] = float(row["loss"])
    return losses


def extra_tokens(mine, base):
    """Of mean losses by D, both at the same budgets; None below two budgets, or where the loss does not fall."""
    budgets = sorted(set(mine) & set(base))
    if len(budgets) < 2:
        return None
    loss = max(mine[budgets[-1]], base[budgets[-1]])

    def reaches(curve):
        for a, b in zip(budgets, budgets[1:]):
            if curve[a] > loss >= curve[b]:
                share = (curve[a] - loss) / (curve[a] - curve[b])
                return a * (b / a) ** share
        return None

    there, own = reaches(base), reaches(mine)
    return own / there - 1 if there and own else None


def means(table):
    by_budget = collections.defaultdict(list)
    for (d, _), loss in table.items():
        by_budget[d].append(loss)
    return {d: statistics.mean(v) for d, v in by_budget.items()}


def show(name, values, family):
    middle, low, high = intervals({name: values}, family)[name]
    print(f"{name:30} {middle:+.4f} [{low:+.4f}, {high:+.4f}]")


def main():
    losses = read(sys.argv[1])
    recipes = sorted({recipe for recipe, _ in losses} - {"bf16"})
    sizes = sorted({n for _, n in losses})
    rows, gaps = [], collections.defaultdict(dict)
    for recipe in recipes:
        for n in sizes:
            mine, base = losses.get((recipe, n), {}), losses.get(("bf16", n), {})
            both = sorted(set(mine) & set(base))
            extra = extra_tokens(means({k: mine[k] for k in both}), means({k: base[k] for k in both}))
            for d, seed in both:
                gaps[recipe][n, d, seed] = mine[d, seed] - base[d, seed]
            for d in sorted({d for d, _ in both}):
                here = [gaps[recipe][n, d, s] for e, s in both if e == d]
                at = statistics.mean(base[d, s] for e, s in both if e == d)
                rows.append({"recipe": recipe, "weights": int(n), "tokens_per_weight": round(d / n), "seeds": len(here),
                             "loss": f"{at + statistics.mean(here):.4f}",
                             "gap": f"{statistics.mean(here):.4f}", "relative_gap": f"{statistics.mean(here) / at:.4f}",
                             "gaps": " ".join(f"{g:+.4f}" for g in here),
                             "extra_tokens_at_n": "" if extra is None else f"{extra:.3f}"})
    study_tables.write_dicts(sys.argv[2], rows)
    common = sorted(set.intersection(*(set(g) for g in gaps.values())))
    print(f"over {len(common)} (N, D, seed) that every recipe has: mean gap to bf16, raw 95 %")
    for recipe in recipes:
        show(recipe, [gaps[recipe][key] for key in common], 1)
    print(f"differences, {len(COMPARED)} intervals that hold together at 95 %")
    for one, other in COMPARED:
        if one in gaps and other in gaps:
            show(f"{one} - {other}", [gaps[one][key] - gaps[other][key] for key in common], len(COMPARED))


if __name__ == "__main__":
    main()
