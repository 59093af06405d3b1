#!/bin/sh
# The study as curves of loss against learning rate instead of a front.
set -eu
out=$1
build/fp4sim table build/studies/sensitivity --group --references --sort task,recipe --force --csv "$out/table.csv" >/dev/null
node tools/scripts/curves.mjs "$out/table.csv" --x train.lr --y loss --line recipe --panel task --linear y \
  --title 'loss against learning rate' --out "$out/curves.svg"
rm -f "$out/front.svg" "$out/pareto.txt"
