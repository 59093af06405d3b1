#!/bin/sh
# Stability edges of a grid, made for results/NAME:  tools/studies/edges.sh NAME [SEEDS]      NAME: edges or edges_lm
# Runs are kept in build/studies/NAME.edge, so an interrupted search goes on.
set -eu
cd "$(dirname "$0")/../.."
name=${1:?usage: tools/studies/edges.sh NAME [SEEDS]}
out=results/$name
mkdir -p "$out" build/studies
build/fp4sim edge "$name" --seeds "${2:-50}" --out "build/studies/$name.edge" --json >"build/studies/$name.json"
/usr/bin/python3 tools/studies/edges.py "build/studies/$name.json" "$out"
build/fp4sim effects "$out/effects.csv" --figure "$out/effects.svg" --force --title "$name" \
  --note "log2 of the largest stable learning rate as a multiple of bf16's: right stands more. Lines: 95 %."
