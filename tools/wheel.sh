#!/bin/sh
# Builds the Python wheel of fp4sim, package and command, for every CPython from 3.9 on:  tools/wheel.sh [FOLDER]     (default dist)
# No network. FP4SIM_BUILD=build takes what is built there; FP4SIM_CUDA=1 or FP4SIM_HIP=1 adds device code; PYTHON=python3.X runs the builder.
set -eu
. "$(dirname "$0")/scripts/asked.sh"
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
[ -z "${FP4SIM_BUILD:-}" ] || FP4SIM_BUILD=$(cd "$FP4SIM_BUILD" && pwd)
cd tools/python
exec "${PYTHON:-/usr/bin/python3}" -B -c 'import sys, backend; print(sys.argv[1] + "/" + backend.build_wheel(sys.argv[1]))' "$out"
