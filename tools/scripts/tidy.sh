#!/bin/sh
# Does clang-tidy find a fault of .clang-tidy in the changed C++ files? Prints what it finds, and fails.
#   tools/scripts/tidy.sh              the .cpp files that differ from the last commit, or that it changed where none does
#   tools/scripts/tidy.sh FILE.cpp ..  these
# Flags come from compile_commands.json of the folder in $BUILD (default build), which any preset writes. Debian's package is
# clang-tidy; a file takes some five seconds.
set -eu
cd "$(dirname "$0")/../.."
command -v clang-tidy >/dev/null || { echo "tidy.sh: skipped, no clang-tidy"; exit 0; }
build=${BUILD:-build}
[ -f "$build/compile_commands.json" ] || { echo "tidy.sh: no $build/compile_commands.json; configure, or set BUILD" >&2; exit 2; }
changed() { git diff --name-only --diff-filter=d "$1" -- '*.cpp'; }
if [ $# -eq 0 ]; then
  files=$(changed HEAD)
  [ -n "$files" ] || files=$(changed HEAD~1)
  [ -n "$files" ] || { echo "tidy.sh: no .cpp file is changed"; exit 0; }
  set -- $files
fi
# A source that several programs compile is read once, as its library has it. Flags of g++ that clang does not know are none
# of its business.
database=$(mktemp -d)
trap 'rm -r "$database"' EXIT
python3 - "$build/compile_commands.json" > "$database/compile_commands.json" <<'PYTHON'
import json, sys

first = {}
for entry in json.load(open(sys.argv[1])):
    first.setdefault(entry["file"], entry)
json.dump(list(first.values()), sys.stdout)
PYTHON
clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error "$@"
