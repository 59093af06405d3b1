#!/bin/sh
# Is every C++ file laid out as .clang-format says? Prints the places that are not, and fails.
#   tools/scripts/format.sh            all files of the tree
#   tools/scripts/format.sh --staged   those that the next commit holds
#   tools/scripts/format.sh --write    lays them out
set -eu
cd "$(dirname "$0")/../.."
command -v clang-format >/dev/null || { echo "format.sh: skipped, no clang-format"; exit 0; }
case ${1:-} in
  '') files=$(git ls-files '*.h' '*.cpp' '*.cu' '*.c') ;;
  --staged) files=$(git diff --cached --name-only --diff-filter=d -- '*.h' '*.cpp' '*.cu' '*.c') ;;
  --write) exec clang-format -i $(git ls-files '*.h' '*.cpp' '*.cu' '*.c') ;;
  *) echo "format.sh: unknown word '$1'; accepted: --staged, --write" >&2; exit 2 ;;
esac
[ -z "$files" ] || clang-format --dry-run -Werror $files || {
  echo 'format.sh: not as .clang-format says; tools/scripts/format.sh --write lays them out' >&2
  exit 1
}
