#!/bin/sh
# The language model of the study ptq, whose grid has fewer seeds and evaluations: all effects of both grids anew, with
# intervals that hold together. Reads the text of tools/corpus.sh. Half an hour on 2 busy cores.
#   tools/studies/ptq.sh results/ptq
set -eu
out=$1
runs=build/studies/ptq_lm
build/fp4sim sweep run ptq_lm --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table_lm.csv" >/dev/null
build/fp4sim effects "$out/table.csv" --table "$out/table_lm.csv" --study ptq --csv "$out/effects.csv" \
  --page "$out/effects.md" --figure "$out/effects.svg" --force
