#!/bin/sh
# The studies `defaults` and `defaults_lm` as one table of means and its curves: tools/study.sh defaults_lm, then
# tools/study.sh defaults.
set -eu
out=$1
/usr/bin/python3 tools/studies/defaults.py "$out/table.csv" defaults defaults_lm
node tools/scripts/curves.mjs "$out/table.csv" --x lr --y loss --line setting --panel task --linear y \
  --title "fp32: loss against learning rate" --x-label "learning rate" --y-label "final loss, nats" --out "$out/curves.svg"
rm -f "$out/front.svg"
