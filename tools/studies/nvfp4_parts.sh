#!/bin/sh
# The language model of the study nvfp4_parts, at one learning rate: all effects of both grids anew, with intervals that
# hold together. 25 minutes on an idle core.
#   tools/studies/nvfp4_parts.sh results/nvfp4_parts
set -eu
out=$1
runs=build/studies/nvfp4_parts_lm
build/fp4sim sweep run nvfp4_parts_lm --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table_lm.csv" >/dev/null
build/fp4sim effects "$out/table.csv" --table "$out/table_lm.csv" --study nvfp4_parts --csv "$out/effects.csv" \
  --page "$out/README.md" --figure "$out/effects.svg" --force
