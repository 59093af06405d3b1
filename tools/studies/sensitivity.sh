#!/bin/sh
# The study as curves of loss against learning rate instead of a front. The language model has a grid of its own,
# sensitivity_lm: other rates, two seeds, 40 trainings of 16 s.
set -eu
out=$1
build/fp4sim sweep run sensitivity_lm --out build/studies/sensitivity_lm --jobs "$(nproc)"
build/fp4sim table build/studies/sensitivity --group --references --sort task,recipe --force --csv "$out/table.csv" >/dev/null
build/fp4sim table build/studies/sensitivity_lm --group --references --sort task,recipe --force \
  --csv build/studies/sensitivity_lm.csv >/dev/null
/usr/bin/python3 - build/studies/sensitivity_lm.csv "$out/table.csv" <<'END'
import csv, sys
lm, tasks = ([*csv.DictReader(open(name, encoding="utf-8"))] for name in sys.argv[1:])
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    writer = csv.DictWriter(file, tasks[0], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(tasks + lm)
END
node tools/scripts/curves.mjs "$out/table.csv" --x train.lr --y loss --line recipe --panel task --linear y \
  --title 'loss against learning rate' --x-label 'learning rate' --y-label 'final loss, nats' --out "$out/curves.svg"
rm -f "$out/front.svg"
