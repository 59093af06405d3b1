#!/bin/sh
# What results/stalls holds beside caused.csv: break-even networks and stalls of cloud instances, from the cost model.
#   tools/studies/stalls.sh results/stalls
# caused.csv, stalls caused on purpose and found again: tests/stalls/bench_stalls.py (two cores, root; two minutes a round).
set -eu
out=$1
mkdir -p "$out"
/usr/bin/python3 tools/studies/stalls.py "$out"
node tools/scripts/curves.mjs "$out/network.csv" --x GB_per_s --y added_percent --line recipe --panel chip \
  --title 'what the network adds to a step, 64 accelerators' \
  --x-label 'bandwidth of an accelerator, GB/s' --y-label 'added to the step, %' --out "$out/network.svg"
node tools/scripts/curves.mjs "$out/features.csv" --x value --y stall_percent --line instance --panel feature \
  --linear y --title 'communication stall' \
  --x-label 'value of the feature' --y-label 'stall, % of the step' --out "$out/features.svg"
node tools/scripts/curves.mjs "$out/batches.csv" --x images --y two_p3_8xlarge_slower --line network \
  --title 'two p3.8xlarge against one p3.16xlarge' \
  --x-label 'images a batch' --y-label 'times slower' --out "$out/batches.svg"
