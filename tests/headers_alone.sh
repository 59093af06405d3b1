#!/bin/sh
# Does every header of sim/kernels compile alone? So an editor reads it, and nothing in it depends on what stands before.
# clang wants the target region closed that those for AVX-512 open: there g++ alone.
#   tests/headers_alone.sh COMPILER
set -eu
cd "$(dirname "$0")/.."
for header in sim/kernels/*.h; do
  echo "#include \"$header\"" | "$1" -std=c++20 -fsyntax-only -Wno-psabi -I. -Iinclude -x c++ - || { echo "$header does not compile alone" >&2; exit 1; }
done
