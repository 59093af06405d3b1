#!/bin/sh
# The language model of a study, a grid of its own: all effects of both grids anew, with intervals that hold together.
#   tools/studies/lm_beside.sh NAME results/NAME [PAGE]      grid NAME_lm; PAGE: where the tables stand, README.md
set -eu
name=$1
out=$2
runs=build/studies/${name}_lm
build/fp4sim sweep run "${name}_lm" --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table_lm.csv" >/dev/null
build/fp4sim effects "$out/table.csv" --table "$out/table_lm.csv" --study "$name" --csv "$out/effects.csv" \
  --page "$out/${3:-README.md}" --figure "$out/effects.svg" --force
