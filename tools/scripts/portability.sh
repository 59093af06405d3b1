#!/bin/sh
# Builds fp4sim and runs its tests in the user land of another system, unpacked into a folder; as root.
#   tools/scripts/portability.sh trixie DIR               Debian 13 (also bookworm, sid); the stage debian13 of tools/test.sh
#   tools/scripts/portability.sh noble DIR                Ubuntu 24.04 (also jammy: 22.04, CMake 3.22)
#   CXX=clang++ tools/scripts/portability.sh trixie DIR   another compiler of that system; g++-12, g++-14, ..
#   LDFLAGS=-L/usr/lib/gcc/x86_64-linux-gnu/14 CXX=g++-13 ..   an older one: libraries there ask for g++ 14's libstdc++
#   TESTS='test_digests test_spec_text' ..                these test programs only
#   LABELS='quick|train|cli' ..                           tests of these labels (default: quick)
#   CXX=clang++ INSTEAD='cd /fp4sim && tools/setup.sh && tools/test.sh clang fuzz' ..   a stage of tools/test.sh
#   PACKAGES=.. COPY=FILE INSTEAD=COMMANDS ..             these packages and commands alone, with a file in /fp4sim beside all others
# DIR/SUITE is the user land, made on the first call (1.5 GB) and kept. Packages come from the mirror that this system's
# apt uses, or from MIRROR. Ubuntu's key is not on a Debian system: its packages are then taken unsigned, which is right
# for a folder that is thrown away and for nothing else.
set -eu
cd "$(dirname "$0")/../.."
suite=${1:?trixie, noble, ..} place=${2:?a folder}
cxx=${CXX:-g++}
root=$place/$suite
packages=${PACKAGES:-ccache catch2 git ca-certificates python3-jsonschema} # beside those of tools/setup.sh
case $cxx in clang*) packages="$packages clang libclang-rt-dev libomp-dev" ;; g++-*) packages="$packages $cxx" ;; esac

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
  # A mirror may be a copy of another day.
  mmdebstrap --mode=root --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' "$suite" "$root" "$source"
fi
chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
  dpkg -s "$@" >/dev/null 2>&1 || { apt-get update -q && apt-get install -q -y --no-install-recommends "$@"; }' sh $packages

# The files that git knows, as they are now, and the chart library of the report if npm has been here.
# What was there before goes, but for builds, so that no deleted file is built; all files get the time of now, because one
# that was changed here before the last build there would pass for built. ccache keeps that cheap.
mkdir -p "$root/fp4sim" "$root/ccache"
find "$root/fp4sim" -mindepth 1 -maxdepth 1 ! -name 'build-*' ! -name node_modules -exec rm -rf {} +
git ls-files -co --exclude-standard | while read -r file; do [ ! -e "$file" ] || echo "$file"; done |
  tar -cf - -T - | tar -xmf - -C "$root/fp4sim"
[ -z "${COPY:-}" ] || cp "$COPY" "$root/fp4sim/"
if [ -d node_modules/echarts ]; then
  mkdir -p "$root/fp4sim/node_modules"
  for part in .package-lock.json echarts tslib zrender; do cp -ru "node_modules/$part" "$root/fp4sim/node_modules/"; done
  touch "$root/fp4sim/node_modules/.package-lock.json"
fi

mkdir -p "$root/proc" "$root/dev"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || { mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }
trap 'umount -R -l "$root/dev"; umount "$root/proc"' EXIT
trap 'exit 130' INT TERM
build='
  cd /fp4sim
  . /etc/os-release
  build=build-$(echo "$CXX" | tr -c "a-z0-9\n" -)
  tools/setup.sh build
  echo "=== $PRETTY_NAME, $($CXX --version | head -1), $(cmake --version | head -1), $(python3 --version)"
  cmake --preset release -B "$build" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DFP4_WERROR=ON \
    -DFP4_LIGHT=-Og -DFP4_TEST_LABEL="$LABELS" -DFP4_TEST_BATCHES="$([ -n "$TESTS" ] || echo ON)" >configure.log || { cat configure.log; exit 1; }
  grep -i "catch2\|not found\|will not" configure.log || true
  ninja -k 0 -C "$build" -j "$JOBS" ${TESTS:+fp4sim $TESTS}
  "$build/fp4sim" version
  names=$(echo $TESTS | tr " " "|")
  ctest --test-dir "$build" -L "^($LABELS)$" -R "^(${names:-.*})[.]" -j "$JOBS" --output-on-failure >tests.log || { cat tests.log; exit 1; }
  tail -30 tests.log'
chroot "$root" env CXX="$cxx" TESTS="${TESTS:-}" LABELS="${LABELS:-quick}" JOBS="${JOBS:-$(nproc)}" FP4_TEST_SHARE_LARGE="${FP4_TEST_SHARE_LARGE:-12}" \
  CCACHE_DIR=/ccache sh -euc "${INSTEAD:-$build}"
