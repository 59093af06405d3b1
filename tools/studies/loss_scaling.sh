#!/bin/sh
# The language model of the study loss_scaling, at one learning rate: all effects of both grids anew, with intervals that
# hold together. 12 minutes on an idle core.
#   tools/studies/loss_scaling.sh results/loss_scaling
set -eu
out=$1
runs=build/studies/loss_scaling_lm
build/fp4sim sweep run loss_scaling_lm --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table_lm.csv" >/dev/null
build/fp4sim effects "$out/table.csv" --table "$out/table_lm.csv" --study loss_scaling --csv "$out/effects.csv" \
  --page "$out/README.md" --figure "$out/effects.svg" --force
