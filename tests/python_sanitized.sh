#!/bin/sh
# The tests of the Python package with its library under clang's AddressSanitizer and UndefinedBehaviorSanitizer:
#   tests/python_sanitized.sh [FILE..]      of tests/python; default all but the wheel's
# Takes the program and the Python files of build, and what build-clang has compiled (tools/test.sh build clang). FULL=1
# tools/test.sh clang runs it.
set -eu
cd "$(dirname "$0")/.."
cmake --preset clang -DFP4_PYTHON=ON >/dev/null
cmake --build --preset clang --target fp4_python_core -j "${JOBS:-$(nproc)}"
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cp -r build/python/fp4sim "$package"
cp build-clang/python/fp4sim/_fp4sim.so "$package/fp4sim"
export PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 PYTHONMALLOC=malloc COLUMNS=80 FP4SIM="$PWD/build/fp4sim" FP4SIM_BUILD="$PWD/build"
# Python and numpy leave memory behind at their end, and tests ask for more than there is.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
failed=
for file in ${*:-$(ls tests/python/test_python_*.py | grep -v _wheel)}; do
  LD_PRELOAD=$(clang++ -print-file-name=libclang_rt.asan-x86_64.so) /usr/bin/python3 "$file" >"$package/log" 2>&1 || {
    failed="$failed $file"
    cat "$package/log"
  }
  echo "$file: $(tail -n 1 "$package/log")"
done
[ -z "$failed" ] || { echo "python_sanitized.sh: failed:$failed" >&2; exit 1; }
