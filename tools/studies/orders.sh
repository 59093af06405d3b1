#!/bin/sh
# Recipes whose order others published, on a language model, and those after training of results/ptq beside them.
#   tools/studies/orders.sh results/orders      20 minutes of an idle core
set -eu
out=$1
runs=build/studies/orders_lm
build/fp4sim sweep run orders_lm --out "$runs" --jobs "$(nproc)"
build/fp4sim table "$runs" --group --force --csv "$out/table.csv" >/dev/null
build/fp4sim effects results/ptq/table_lm.csv --table "$out/table.csv" --study orders --csv "$out/effects.csv" \
  --page "$out/README.md" --figure "$out/effects.svg" --force
