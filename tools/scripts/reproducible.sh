#!/bin/sh
# Builds the same source twice, in folders of other names and depths, and compares every byte of what an installation gets.
#   tools/scripts/reproducible.sh [REVISION [TARGET]]       (default HEAD; JOBS and TMPDIR from the environment)
# A TARGET alone, such as fp4sim_c for the C library, takes less time: its objects and libraries are compared.
# Prints one line a file with its SHA-256; exit code 1 where a file differs or is in one build alone.
set -eu
cd "$(dirname "$0")/../.."
revision=${1:-HEAD}
target=${2:-fp4_installed}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GIT_CEILING_DIRECTORIES="$folder" # no repository above it says which commit this is
# Whatever the target makes; an installation has its files in root/.
install_or_gather() {
  if [ "$target" = fp4_installed ]; then
    DESTDIR=$source/root cmake --install build --strip
  else
    mkdir root
    find build -type f \( -name '*.o' -o -name '*.a' -o -name '*.so*' \) | tar -c -T - | tar -x -C root
  fi
}
build() { # NAME: the lines "SHA-256  path" of its installation
  source=$folder/$1
  mkdir -p "$source"
  git archive "$revision" | tar -x -C "$source"
  [ ! -d node_modules ] || cp -RL node_modules "$source/node_modules"
  # No compiler cache: its second answer would be the first one.
  (cd "$source" && CCACHE_DISABLE=1 cmake --preset release -B build -DFP4_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr \
    && CCACHE_DISABLE=1 cmake --build build -j "${JOBS:-2}" --target "$target" \
    && install_or_gather) >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 1; }
  (cd "$source/root" && find . -type f | LC_ALL=C sort | xargs sha256sum)
}
build first >"$folder/first.list"
build second/and/deeper >"$folder/second.list"
cat "$folder/first.list"
if ! cmp -s "$folder/first.list" "$folder/second.list"; then
  echo "reproducible.sh: the second build differs:" >&2
  diff "$folder/first.list" "$folder/second.list" >&2 || true
  exit 1
fi
[ -s "$folder/first.list" ] || { echo "reproducible.sh: '$target' made no file" >&2; exit 1; }
echo "$(wc -l <"$folder/first.list") files, the same bytes in both builds"
