#!/bin/sh
# The ladder's runs as a table that travels, its gaps, law and advice, and their figures.
set -eu
out=$1
name=$(basename "$out")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build/fp4sim sweep export "build/studies/$name" --out "$out/runs.csv" --force
/usr/bin/python3 tools/studies/ladder.py "$out/runs.csv" "$out/gaps.csv"
build/fp4sim law "$out/runs.csv"
build/fp4sim law "$out/runs.csv" --json >"$scratch/law.json"
for chip in mi355x b200; do
  build/fp4sim advise "$out/runs.csv" --hardware $chip --model llama3_8b --transfer tokens --json >"$scratch/$chip.json"
done
/usr/bin/python3 tools/studies/ladder_figures.py "$out/gaps.csv" "$scratch/law.json" "$out" "$scratch/mi355x.json" "$scratch/b200.json"
node tools/scripts/curves.mjs "$out/law.csv" --x tokens_per_weight --y loss --line line --panel weights --linear y \
  --x-label "tokens a weight" --y-label "validation loss, nats" --out "$out/law.svg"
build/fp4sim effects "$out/extra_tokens.csv" --figure "$out/extra_tokens.svg" --force --title 'Extra tokens' \
  --note 'Share of tokens more than the baseline reads for the same loss; orange: more, with 95 % of the bootstrap.'
build/fp4sim effects "$out/advice.csv" --figure "$out/advice.svg" --force --times --title 'x the time of bf16, until the loss of bf16' \
  --note 'Left of 1 x (blue) a recipe is sooner there than bf16, right of it (orange) later; 95 % of the draws.'
rm -f "$out/table.csv" "$out/front.svg"
