#!/bin/sh
# Writes the reference pages from the rows of the program:
#   tools/scripts/make_reference.sh [PROGRAM]      default: build/fp4sim
# tests/test_reference.cpp fails when one of them is not what the program prints.
set -eu
cd "$(dirname "$0")/../.."
program=${1:-build/fp4sim}
for page in sweeps/recipes sweeps/grids sweeps/hardware sweeps/models sweeps/serve tasks; do
  "$program" help --page "$page" > "$page/README.md"
done
