#!/bin/sh
# d_Q / d_w over training: one traced run of each setting, drawn as lines.
set -eu
/usr/bin/python3 tools/studies/oscillation.py "$1"
build/fp4sim trace plot "$1/oscillation.csv" --out "$1/oscillation.svg" --force
