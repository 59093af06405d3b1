#!/bin/sh
# What the ladder at one batch foretold, and what was measured: the figure of the page. Seconds.
#   tools/studies/ladder_fixed.sh results/ladder_fixed
set -eu
out=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for table in runs held_out; do
  build/fp4sim sweep import "$out/$table.csv" --out "$scratch/ladder" >/dev/null
done
build/fp4sim law "$scratch/ladder" --held-out 3e5 --json >"$scratch/law.json"
python3 tools/studies/ladder_fixed.py "$scratch/law.json" "$out/held_out.csv" "$out/gaps.csv"
build/fp4sim effects "$out/gaps.csv" --figure "$out/gaps.svg" --force --title 'Gaps to bf16, foretold and measured' \
  --note 'Foretold: with the 95 % interval; measured: the mean between its two seeds.'
