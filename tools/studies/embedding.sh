#!/bin/sh
# What results/embedding holds beside the runs: accuracy against bytes, and latencies from the memory model.
#   tools/studies/embedding.sh results/embedding
set -eu
out=$1
/usr/bin/python3 tools/studies/embedding.py "$out"
node tools/scripts/curves.mjs "$out/accuracy.csv" --x row_bytes --y loss_gap --line update --linear y \
  --title 'loss over fp32 rows of 128 bytes' \
  --x-label 'bytes of a row' --y-label 'loss above fp32 rows, nats' --out "$out/accuracy.svg"
node tools/scripts/curves.mjs "$out/latency.csv" --x pooling --y microseconds --line system --panel rows \
  --where order=any --where embedding=64 --where rows=fp32,int8,mxfp4 \
  --title 'latency of 2,048 bags, rows of 64 numbers' \
  --x-label 'rows of a bag' --y-label 'latency, microseconds' --out "$out/latency.svg"
