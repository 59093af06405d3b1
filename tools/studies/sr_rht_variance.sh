#!/bin/sh
# The part of the study that needs no training: bias and variance of one dot product over its length.
set -eu
out=$1
/usr/bin/python3 tools/studies/variance.py "$out/variance.csv"
node tools/scripts/curves.mjs "$out/variance.csv" --x b --y rms_error --line variant --panel family \
  --title 'RMS error of a dot product' --x-label 'length of the dot product, b' --y-label 'RMS error' \
  --where 'variant=RNE,RNE RHT64,SR no prescale,SR 3/4,SR 3/4 RHT64,SR 3/4 one scale,SR 3/4 one scale RHT64,SR 3/4 one scale RHT b' \
  --out "$out/variance.svg"
