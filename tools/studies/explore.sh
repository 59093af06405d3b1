#!/bin/sh
# Which way of exploring finds a front? Replays over the stored table of design_space (no training), with halving's short
# rungs as unreliable as the runs of the grid `rungs` say (1,152 short runs, some three minutes).
#   tools/studies/explore.sh results/explore
set -eu
out=$1
runs=build/studies/rungs
mkdir -p "$out" build/studies
build/fp4sim sweep run rungs --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/rungs.csv" >/dev/null
/usr/bin/python3 tools/studies/explore.py results/design_space/table.csv "$out"
node tools/scripts/curves.mjs "$out/replay.csv" --x work_percent --y alike_percent --line explore --panel task \
  --linear x --linear y --title 'front found or as good, % against work, %' --out "$out/recall.svg"
