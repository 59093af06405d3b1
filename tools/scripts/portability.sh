#!/bin/sh
# Builds fp4sim and runs its quick tests in the user land of another system, unpacked into a folder; run by hand, as root.
#   tools/scripts/portability.sh trixie DIR               Debian 13 (also bookworm, sid)
#   tools/scripts/portability.sh noble DIR                Ubuntu 24.04 (also jammy: 22.04, CMake 3.22)
#   CXX=clang++ tools/scripts/portability.sh trixie DIR   another compiler of that system; g++-12, g++-14, ..
#   LDFLAGS=-L/usr/lib/gcc/x86_64-linux-gnu/14 CXX=g++-13 ..   an older one: libraries there ask for g++ 14's libstdc++
#   TESTS='test_codec test_spec' ..                       these test programs only
# DIR/SUITE is the user land, made on the first call (1.5 GB) and kept. Packages come from the mirror that this system's
# apt uses, or from MIRROR. Ubuntu's key is not on a Debian system: its packages are then taken unsigned, which is right
# for a folder that is thrown away and for nothing else.
set -eu
cd "$(dirname "$0")/../.."
suite=${1:?trixie, noble, ..} place=${2:?a folder}
cxx=${CXX:-g++}
root=$place/$suite
packages="ccache cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev libeigen3-dev
zlib1g-dev libtbb-dev python3-numpy python3-jsonschema catch2 git ca-certificates g++"
case $cxx in clang*) packages="$packages clang libomp-dev" ;; g++-*) packages="$packages $cxx" ;; esac

mirror=${MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null |
  sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' | head -1)}
case $suite in
  jammy|noble|plucky|questing)
    [ -n "${MIRROR:-}" ] || mirror=$(echo "$mirror" | sed 's,\(//[^/]*\)/.*,\1/ubuntu,')
    source="deb [trusted=yes] $mirror $suite main universe" ;;
  *) source=$mirror ;;
esac

if [ ! -e "$root/etc/os-release" ]; then
  command -v mmdebstrap >/dev/null || { echo "portability.sh: needs mmdebstrap (apt-get install mmdebstrap)" >&2; exit 1; }
  mkdir -p "$place"
  mmdebstrap --mode=root --variant=minbase "$suite" "$root" "$source"
fi
chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
  dpkg-query -W "$@" >/dev/null 2>&1 || { apt-get update -q && apt-get install -q -y --no-install-recommends "$@"; }' sh $packages

# The files that git knows, as they are now, and the chart library of the report if npm has been here.
# What was there before goes, but for builds, so that no deleted file is built; all files get the time of now, because one
# that was changed here before the last build there would pass for built. ccache keeps that cheap.
mkdir -p "$root/fp4sim" "$root/ccache"
find "$root/fp4sim" -mindepth 1 -maxdepth 1 ! -name 'build-*' ! -name node_modules -exec rm -rf {} +
git ls-files -co --exclude-standard | while read -r file; do [ ! -e "$file" ] || echo "$file"; done |
  tar -cf - -T - | tar -xmf - -C "$root/fp4sim"
if [ -d node_modules/echarts ]; then
  mkdir -p "$root/fp4sim/node_modules"
  cp -ru node_modules/echarts "$root/fp4sim/node_modules/"
fi

mkdir -p "$root/proc" "$root/dev"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || { mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }
trap 'umount -R -l "$root/dev"; umount "$root/proc"' EXIT
trap 'exit 130' INT TERM
chroot "$root" env CXX="$cxx" TESTS="${TESTS:-}" JOBS="${JOBS:-$(nproc)}" CCACHE_DIR=/ccache sh -euc '
  cd /fp4sim
  . /etc/os-release
  build=build-$(echo "$CXX" | tr -c "a-z0-9\n" -)
  echo "=== $PRETTY_NAME, $($CXX --version | head -1), $(cmake --version | head -1)"
  cmake -S . -B "$build" -G Ninja -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DFP4_TEST_LABEL=quick >configure.log || { cat configure.log; exit 1; }
  grep -i "catch2\|not found\|will not" configure.log || true
  if [ -n "$TESTS" ]; then ninja -k 0 -C "$build" -j "$JOBS" fp4sim $TESTS; else ninja -k 0 -C "$build" -j "$JOBS"; fi
  "$build/fp4sim" version
  names=$(echo $TESTS | tr " " "|")
  ctest --test-dir "$build" -L "^quick$" -R "^(${names:-.*})[.]" -j "$JOBS" --output-on-failure | tail -30'
