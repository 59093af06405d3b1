#!/bin/sh
# From a fresh clone to a first result: installs what is missing, builds the program and runs it on input of its own.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh build
cmake --preset release -DFP4_TESTS=OFF >/dev/null
cmake --build --preset release --target fp4sim
PATH=$PWD/build:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n$ %s\n' "$*"; "$@"; }

say fp4sim signature
# The licence texts that every Debian machine carries, as a tensor of bytes.
head -c 32768 /usr/share/common-licenses/GPL-3 >"$work/text.bin"
say fp4sim quantize "$work/text.bin" --dtype u8 --shape 256x128 --spec nvfp4 --out "$work/nvfp4"
say fp4sim train --task classifier --recipe mxfp4 --steps 300
