#!/bin/sh
# From a fresh clone to a first result: installs what is missing, builds the program and runs it.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh build
cmake --preset release -DFP4_TESTS=OFF >/dev/null
cmake --build --preset release --target fp4sim
PATH=$PWD/build:$PATH
fp4sim version
