#!/bin/sh
# The part of the study that needs no training: the share of outputs that depend on the adder.
set -eu
out=$1
/usr/bin/python3 tools/studies/adders.py "$out/outputs.csv" "$out/zeros.csv"
node tools/scripts/curves.mjs "$out/outputs.csv" --x K --y differs --linear y --line accumulator --panel format \
  --title 'outputs that differ from exact' \
  --x-label 'length of the dot product, K' --y-label 'share of outputs that differ' --where outliers=1 --out "$out/outputs.svg"
