"""Paired differences between settings of a study, with intervals that hold together.

    /usr/bin/python3 tools/studies/paired.py results/wgrad/table.csv 'recipe=mxfp4@wgrad' 'recipe=mxfp4@dgrad'

TABLE has one row per run. Every further word names settings of one configuration per task, COLUMN=VALUE[,COLUMN=VALUE..]
(a column by its whole name or its last word). Words are compared with the one before the `--` that follows, or with the
first one: A B C compares B and C with A. Prints task, settings, n, mean of loss(B) - loss(A) over the seeds that both
have, and a Student t interval at 1 - 0.05/(number of comparisons printed).
"""
import collections
import csv
import math
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


def main():
    table, words = sys.argv[1], sys.argv[2:]
    with open(table, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file)]
    columns = list(rows[0])

    def column(word):
        found = [c for c in columns if c == word] or [c for c in columns if c.split(".")[-1] == word]
        if len(found) != 1:
            sys.exit(f"paired: '{word}' names {len(found)} columns; accepted: {', '.join(columns)}")
        return found[0]

    def runs(word):
        conditions = [(column(a), b) for a, b in (part.split("=", 1) for part in word.split(","))]
        found = collections.defaultdict(dict)
        for row in rows:
            if all(row[a] == b for a, b in conditions) and row["status"] == "finished":
                if row["seed"] in found[row["task"]]:
                    sys.exit(f"paired: {word} names several configurations of {row['task']}")
                found[row["task"]][row["seed"]] = float(row["loss"])
        if not found:
            sys.exit(f"paired: no run of {table} is {word}")
        return found

    base, pairs = None, []
    for word in words:
        if word == "--":
            base = None
        elif base is None:
            base = word
        else:
            pairs.append((base, word))
    lines = []
    for first, second in pairs:
        a, b = runs(first), runs(second)
        for task in sorted(set(a) & set(b)):
            lines.append((task, first, second, [b[task][s] - a[task][s] for s in sorted(set(a[task]) & set(b[task]))]))
    for task, first, second, d in lines:
        half = t_quantile(1 - 0.025 / len(lines), len(d) - 1) * statistics.stdev(d) / math.sqrt(len(d))
        mean = statistics.mean(d)
        sign = "+" if mean - half > 0 else "-" if mean + half < 0 else "0"
        print(f"{task:11} {second} - {first}: {mean:+.5f} [{mean - half:+.5f}, {mean + half:+.5f}] n {len(d)} {sign}")
    print(f"{len(lines)} intervals, 95 % together")


main()
