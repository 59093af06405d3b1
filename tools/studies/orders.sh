#!/bin/sh
# Recipes whose order others published, on a language model, and those after training of results/ptq beside them.
#   tools/studies/orders.sh results/orders      40 minutes of an idle core; the text is tools/corpus.sh's
set -eu
out=$1
build/fp4sim sweep run orders_ptq --out build/studies/orders_ptq --jobs "$(nproc)"
build/fp4sim table build/studies/orders_ptq --group --force --csv "$out/table_ptq.csv" >/dev/null
runs=build/studies/orders_lm
build/fp4sim sweep run orders_lm --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table.csv" >/dev/null
build/fp4sim effects results/ptq/table_lm.csv --table "$out/table.csv" --table "$out/table_ptq.csv" --study orders --csv "$out/effects.csv" \
  --page "$out/README.md" --figure "$out/effects.svg" --force
