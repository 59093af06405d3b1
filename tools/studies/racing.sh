#!/bin/sh
# The pools that tests/test_race_pool.cpp replays races from; racing_null is a grid of its own.
set -eu
out=$1
build/fp4sim sweep run racing_null --out build/studies/racing_null --jobs "$(nproc)"
for study in racing racing_null; do build/fp4sim table "build/studies/$study" --force --csv "build/studies/$study.csv" >/dev/null; done
/usr/bin/python3 tools/studies/racing.py build/studies/racing.csv build/studies/racing_null.csv "$out"
rm -f "$out/table.csv" "$out/front.svg" "$out/pareto.txt"
