#!/bin/sh
# The same runs judged by the prices of a second chip.
set -eu
out=$1
build/fp4sim pareto "build/studies/$(basename "$out")" --hardware b200 --no-effects >"$out/pareto_b200.txt"
