#!/bin/sh
# One study, from its grid to the files that results/NAME keeps:
#   tools/study.sh NAME [JOBS]      (fp4sim built, npm packages installed: tools/setup.sh)
#   tools/study.sh NAME --turned [JOBS]      its table of length, outliers, width, rate and 2-D weights turned once each
# Runs are kept in build/studies/NAME, so an interrupted study goes on and a finished one only makes its files anew.
# table.csv holds one row per configuration: mean, SD, n, interval, loss and digest of each seed (without the last two
# where it stays above 2 MB and no effects are made of them). All that is known of a run is
# `fp4sim table build/studies/NAME --csv FILE`, five times as large. The report page is build/studies/NAME.html, the text
# of the front build/studies/NAME.pareto.txt; results/ keeps the latter where a page names it. Tables as JSON:
# `fp4sim table build/studies/NAME --json FILE`, and `pareto` likewise.
set -eu
accepted='a name of sweeps/studies'
. "$(dirname "$0")/scripts/asked.sh"
cd "$(dirname "$0")/.."
name=${1:?usage: tools/study.sh NAME [JOBS]}
turned=${2:-}
[ "$turned" != --turned ] || shift
jobs=${2:-$(nproc)}
runs=build/studies/$name
out=results/$name
mkdir -p build/studies "$out"
if [ "$turned" = --turned ]; then
  for of in turned turned_rate; do
    build/fp4sim sweep run "${name}_$of" --out "${runs}_$of" --jobs "$jobs"
    build/fp4sim table "${runs}_$of" --group --force --csv "$out/$of.csv" >/dev/null
  done
  build/fp4sim effects "$out/turned.csv" --table "$out/turned_rate.csv" --study "${name}_turned" \
    --csv "$out/turned_effects.csv" --page "$out/README.md" --force
  exit
fi
begin=$(date +%s)
build/fp4sim sweep run "$name" --out "$runs" --jobs "$jobs"
echo "study $name: runs took $(($(date +%s) - begin)) s with $jobs jobs"
build/fp4sim table "$runs" --group --force --csv "$out/table.csv" >/dev/null
if [ "$(stat -c %s "$out/table.csv")" -gt 2000000 ] && [ ! -f "sweeps/studies/$name.json" ]; then
  sed -i 's/,[^,]*$//' "$out/table.csv"  # the last column
fi
build/fp4sim pareto "$runs" --force >"$runs.pareto.txt"
[ ! -f "$out/pareto.txt" ] || cp "$runs.pareto.txt" "$out/pareto.txt"
build/fp4sim report "$runs" --force --out "$runs.html" >/dev/null
if [ -f "sweeps/studies/$name.json" ]; then  # a study of effects: which settings are compared with which
  beside=
  if [ -f "$out/table_lm.csv" ]; then  # a language model, a grid of its own; intervals of both grids hold together
    build/fp4sim sweep run "${name}_lm" --out "${runs}_lm" --jobs "$jobs"
    build/fp4sim table "${runs}_lm" --group --force --csv "$out/table_lm.csv" >/dev/null
    beside=table_lm.csv
  fi
  page=$out/effects.md
  [ -f "$page" ] || page=$out/README.md
  build/fp4sim effects "$out/table.csv" ${beside:+--table "$out/$beside"} --study "$name" --csv "$out/effects.csv" \
    --page "$page" --figure "$out/effects.svg" --force
else
  node tools/scripts/figure.mjs "$runs.html" --out "$out/front.svg"
fi
[ ! -x "tools/studies/$name.sh" ] || "tools/studies/$name.sh" "$out"  # what a study measures without training
ls -l "$out"
