#!/bin/sh
# The same runs judged by a second chip's costs.
set -eu
out=$1
build/fp4sim pareto "build/studies/$(basename "$out")" --hardware b200 --no-effects >"$out/pareto_b200.txt"
