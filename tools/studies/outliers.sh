#!/bin/sh
# Do outliers emerge while a language model learns?  tools/studies/outliers.sh DIR [SEEDS]
# Trains 221 thousand weights on the corpus (tools/corpus.sh) under bf16 and MXFP4 with a trace every 60 steps, and writes
# DIR/outliers.csv and its figure. Traces are kept in build/studies, so an interrupted study goes on.
set -eu
cd "$(dirname "$0")/../.."
out=${1:?usage: tools/studies/outliers.sh DIR [SEEDS]}
mkdir -p "$out" build/studies
traces=
for recipe in bf16 mxfp4_all; do
  for seed in $(seq 1 "${2:-2}"); do
    trace=build/studies/outliers.$recipe.$seed.csv
    traces="$traces $trace"
    [ -f "$trace" ] || build/fp4sim train --task lm --recipe $recipe --set task.size=200k --set task.tokens_per_weight=20 \
      --set task.outliers.channel=0 --text build/corpus/english --seed "$seed" --trace "$trace" --trace-every 60
  done
done
/usr/bin/python3 tools/studies/outliers.py "$out/outliers.csv" $traces
node tools/scripts/curves.mjs "$out/outliers.csv" --x step --y kurtosis --line recipe --panel operand --linear x \
  --title 'kurtosis of the operands' --x-label 'training step' --y-label 'kurtosis' \
  --out "$out/outliers.svg"
