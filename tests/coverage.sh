#!/bin/sh
# Which lines the tests run, by folder: builds everything with g++'s counters in build-coverage/, runs the tests and asks
# gcov, which comes with g++. Where threads meet a count may be short, which says nothing of whether a line ran. Kernels and
# the arithmetic in headers are not counted: they would run twenty times as long (tests/mutants.md says what finds their
# faults). Of long loops a share of the cases runs (tests/support/share.h). It builds for 5 minutes of two idle cores and
# tests for 19. Tests that take memory away fail here: the counters cannot do without. tests/coverage.md has the table.
#   tests/coverage.sh               tests of the labels quick, train and cli
#   tests/coverage.sh 'csv|quant'   those of them whose names match
set -eu
cd "$(dirname "$0")/.."
folder=build-coverage jobs=${JOBS:-$(nproc)}
rm -rf "$folder"  # objects of two builds would not fit one another's counters
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=40 \
  -DFP4_TEST_BATCHES=ON "-DFP4_TEST_LABEL=quick|train|cli" \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG --coverage '-fprofile-exclude-files=.*/(include/fp4|src/cpu|sim/kernels|src/gpu)/.*'" >"$folder.log" ||
  { cat "$folder.log"; exit 1; }
ninja -C "$folder" -j "$jobs"
find "$folder" -name '*.gcda' -delete  # of programs that the build runs
# A test that fails has run its lines all the same; its name is printed.
FP4_TEST_SHARE=12 FP4_TEST_SHARE_LARGE=72 ctest --test-dir "$folder" -L '^(quick|train|cli)$' -R "${1:-.}" -j "$jobs" --output-on-failure || echo "coverage.sh: see above for tests that failed" >&2
exec tests/coverage.py "$folder"
