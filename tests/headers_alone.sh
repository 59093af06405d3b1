#!/bin/sh
# Does every header of sim/kernels compile alone? So an editor reads it, and nothing in it depends on what stands before.
# Those for AVX-512 need an x86 compiler, and clang wants the target region closed that they open: there g++ alone.
#   tests/headers_alone.sh COMPILER
set -eu
cd "$(dirname "$0")/.."
machine=$("$1" -dumpmachine)
for header in sim/kernels/*.h; do
  case "$header $machine" in
    *_avx512.h\ x86_64*) ;;
    *_avx512.h*) continue ;;
  esac
  echo "#include \"$header\"" | "$1" -std=c++20 -fsyntax-only -Wno-psabi -I. -Iinclude -x c++ - || { echo "$header does not compile alone" >&2; exit 1; }
done
