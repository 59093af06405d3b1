#!/bin/sh
# What results/stalls holds beside stalls.csv: break-even networks and stalls of cloud instances, from the cost model.
#   tools/studies/stalls.sh results/stalls
# Stalls measured on this machine: tools/bench/bench_stalls.py (two idle cores, a quarter of an hour).
set -eu
out=$1
mkdir -p "$out"
/usr/bin/python3 tools/studies/stalls.py "$out"
node tools/scripts/curves.mjs "$out/network.csv" --x GB_per_s --y added_percent --line recipe --panel chip \
  --linear y --title 'time that the network adds, 64 accelerators' --out "$out/network.svg"
node tools/scripts/curves.mjs "$out/features.csv" --x value --y stall_percent --line instance --panel feature \
  --linear y --title 'communication stall' --out "$out/features.svg"
