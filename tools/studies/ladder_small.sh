#!/bin/sh
# The ladder's runs as a table that travels, its gaps and law, and their figures.
set -eu
out=$1
name=$(basename "$out")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build/fp4sim sweep export "build/studies/$name" --out "$out/runs.csv" --force
/usr/bin/python3 tools/studies/ladder.py "$out/runs.csv" "$out/gaps.csv"
build/fp4sim law "$out/runs.csv"
build/fp4sim law "$out/runs.csv" --json >"$scratch/law.json"
/usr/bin/python3 tools/studies/ladder_figures.py "$out/gaps.csv" "$scratch/law.json" "$out"
node tools/scripts/curves.mjs "$out/law.csv" --x tokens_per_weight --y loss --line line --panel weights --linear y \
  --x-label "tokens a weight" --y-label "validation loss, nats" --out "$out/law.svg"
build/fp4sim effects "$out/extra_tokens.csv" --figure "$out/extra_tokens.svg" --force --title 'Extra tokens' \
  --note 'Share of tokens more than the baseline reads for the same loss; orange: more, with 95 % of the bootstrap.'
rm -f "$out/table.csv" "$out/front.svg"
