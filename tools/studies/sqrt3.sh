#!/bin/sh
# The ratio of gradient to quantisation noise in each third of the training, beside the effect of 4 bits there.
set -eu
out=$1
/usr/bin/python3 tools/studies/sqrt3.py "$out"
node tools/scripts/curves.mjs "$out/ratio.csv" --x ratio --y effect --line rounding --panel task --linear y \
  --title 'loss that 4 bits in one third of the backward pass add, against |g| / (sqrt(d) sigma) there' --out "$out/ratio.svg"
