#!/bin/sh
# One study, from its grid to the files that results/NAME keeps:
#   tools/study.sh NAME [JOBS]      (fp4sim built, npm packages installed: tools/setup.sh)
# Runs are kept in build/studies/NAME, so an interrupted study goes on and a finished one only makes its files anew.
# table.csv and table.json hold one row per run up to 5 MB, else one row per configuration (mean, SD, n, interval);
# the rows per run are then `fp4sim table build/studies/NAME --csv FILE`.
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: tools/study.sh NAME [JOBS]}
jobs=${2:-$(nproc)}
runs=build/studies/$name
out=results/$name
mkdir -p build/studies "$out"
begin=$(date +%s)
build/fp4sim sweep run "$name" --out "$runs" --jobs "$jobs"
echo "study $name: runs took $(($(date +%s) - begin)) s with $jobs jobs"
build/fp4sim table "$runs" --force --csv "$out/table.csv" --json "$out/table.json" >/dev/null
if [ "$(stat -c %s "$out/table.csv")" -gt 5000000 ] || [ "$(stat -c %s "$out/table.json")" -gt 5000000 ]; then
  build/fp4sim table "$runs" --group --force --csv "$out/table.csv" --json "$out/table.json" >/dev/null
fi
build/fp4sim pareto "$runs" --force --json "$out/pareto.json" >"$out/pareto.txt"
build/fp4sim report "$runs" --force --out "$out/report.html" >/dev/null
node tools/scripts/figure.mjs "$out/report.html" --out "$out/front.svg"
[ ! -x "tools/studies/$name.sh" ] || "tools/studies/$name.sh" "$out"  # what a study measures without training
ls -l "$out"
