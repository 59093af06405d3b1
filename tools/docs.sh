#!/bin/sh
# Makes the site of all pages: OUT/index.html, with search that works from a folder. Needs the packages of tools/setup.sh.
#   tools/docs.sh OUT          pages, and the headers of the C++ and C interfaces (doxygen) below OUT/api
# A warning is an error. Nothing but OUT is written.
set -eu
. "$(dirname "$0")/scripts/asked.sh"
[ $# = 1 ] || { echo "usage: tools/docs.sh OUT" >&2; exit 2; }
command -v sphinx-build >/dev/null || { echo "docs.sh: no sphinx-build; tools/setup.sh installs it" >&2; exit 1; }
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
/usr/bin/python3 tools/docs/site.py "$source/pages"
if command -v doxygen >/dev/null; then
  mkdir -p "$source/pages/extra"
  (cat tools/docs/Doxyfile; echo "OUTPUT_DIRECTORY = $source/pages/extra"; echo "INPUT = include/fp4 src/c_api/fp4sim.h") |
    doxygen - >/dev/null
fi
sphinx-build -q -W --keep-going -b html -d "$source/doctrees" "$source/pages" "$source/site"
mkdir -p "$out"
cp -r "$source/site/." "$out"
echo "docs.sh: wrote $out/index.html"
