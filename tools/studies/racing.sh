#!/bin/sh
# The pools that tests/test_race_pool.cpp and test_race_tuned.cpp replay races from; two have grids of their own.
set -eu
out=$1
for study in racing_null tuned_null; do
  build/fp4sim sweep run $study --out build/studies/$study --jobs "$(nproc)"
done
for study in racing racing_null tuned_null; do build/fp4sim table "build/studies/$study" --force --csv "build/studies/$study.csv" >/dev/null; done
/usr/bin/python3 tools/studies/racing.py build/studies/racing.csv build/studies/racing_null.csv \
  build/studies/tuned_null.csv "$out"
rm -f "$out/table.csv" "$out/front.svg"
