#!/bin/sh
# Everything a change has to pass, in stages with their times (half an hour on 2 cores):
#   setup   missing packages            clang   second compiler and its sanitizers, all but commands: label quick
#   build   optimised, all warnings     fuzz    the fuzz targets of that build for FUZZ_SECONDS (default 10)
#   test    labels quick, train, cli    gpu     device code compiles, where a compiler for it is here
#   arm     the same bits on 64-bit Arm, under qemu: minutes of waiting, so only with FULL=1 or when named
#   debian13  build and test in a bare Debian 13 that mmdebstrap unpacks below ~/.cache, as root: as seldom as arm
#   torch2  tests of fp4sim.torch in a bare Debian sid, whose torch is the newest, by the wheel of stage build: as debian13
#   tools/test.sh build test     runs only the named stages
#   FULL=1 tools/test.sh clang gpu     every test, every device (some share the code of others)
set -eu
cd "$(dirname "$0")/.."
stages=${*:-setup build test clang fuzz gpu${FULL:+ arm debian13 torch2}}
jobs=${JOBS:-$(nproc)}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} # a thread that spins takes the time of another test
systems=${FP4SIM_SYSTEMS:-${XDG_CACHE_HOME:-$HOME/.cache}/fp4sim} # where other systems are unpacked, or are already

stage_setup() { tools/setup.sh; }
stage_build() {
  cmake --preset ci -DFP4_TESTS=ON >/dev/null
  cmake --build --preset ci -j "$jobs"
}
# Seven programs have more cases than need be compared each time (tests/support/share.h): a share of them, all with FULL=1.
# The cases that find the faults of tests/mutants.md run whole. A test that hangs is named and tried once more.
# Tests wait for files, browsers and one another a seventh of the time: what stage_clang compiles begins beside them.
stage_test() {
  share=24
  [ -z "${FULL:-}" ] || share=1
  ahead=
  case " $stages " in *" clang "*) begin_clang ;; esac
  FP4_TEST_SHARE_LARGE=${FP4_TEST_SHARE_LARGE:-$share} ctest --preset ci -j "$jobs" --repeat after-timeout:2
  end_clang
}
# clang with AddressSanitizer, UndefinedBehaviorSanitizer and the fuzzer's counters: one build of the folders that arrays
# and files go through, for both stages. Commands, and tests that read headers of tools/, only with FULL=1. Instrumented,
# the tests of `slow` take 25 minutes of two cores: FULL=1 runs them, too. Of long loops elsewhere a drawn twelfth of the
# cases runs. The signature comes from stage_build; tests/test_digests.cpp has the bits that clang must give, too.
configure_clang() {
  signature=
  case " $stages " in *" build "*) signature=$PWD/build/tools/built_signature.cpp ;; esac
  all=
  [ -z "${FULL:-}" ] || all="-DFP4_TEST_COMMANDS=ON -DFP4_FUZZ=ALL"
  cmake --preset clang $all -DFP4_BUILT_SIGNATURE="$signature" >/dev/null
}
slow="backends(_edges|_products|_trials)?|cost_studies|diagnosis|dump_kinds|golden(_words)?|gpu_bodies|probe|race(_pool|_tuned)?"
slow="$slow|sweep_(report|statistics)" commands='^#include "tools/'
[ -z "${FULL:-}" ] || slow=none commands='^#include "none/'
targets_of_clang() {
  (cd tests && grep -lF '[quick]' test_*.cpp | xargs grep -L "$commands" | sed 's/\.cpp$//' | grep -Ev "^test_($slow)$")
  [ -z "${FULL:-}" ] || echo fp4sim
}
targets_of_fuzz() { (cd tests && ls fuzz_*.cpp | sed 's/\.cpp$//'); }
# In time that nothing else wants. What fails here fails again in stage_clang, and is shown there.
begin_clang() {
  command -v clang++ >/dev/null || return 0
  configure_clang
  nice -n 19 ninja -C build-clang -j 1 $(targets_of_clang) $(targets_of_fuzz) >/dev/null 2>&1 &
  ahead=$!
  trap 'kill "$ahead" 2>/dev/null || true' EXIT
}
end_clang() {
  [ -n "$ahead" ] || return 0
  kill "$ahead" 2>/dev/null || true
  wait "$ahead" || true
  trap - EXIT
}
stage_clang() {
  command -v clang++ >/dev/null || { echo "clang: skipped, no clang++"; return 0; }
  configure_clang
  cmake --build --preset clang -j "$jobs" --target $(targets_of_clang)
  FP4_TEST_SHARE=${FP4_TEST_SHARE:-12} FP4_TEST_SHARE_LARGE=${FP4_TEST_SHARE_LARGE:-144} ctest --preset clang -j "$jobs" --repeat after-timeout:2 -E "^test_($slow)\\.quick$"
  [ -z "${FULL:-}" ] || tests/python_sanitized.sh
}
stage_fuzz() {
  command -v clang++ >/dev/null || { echo "fuzz: skipped, no clang++"; return 0; }
  configure_clang
  targets=$(targets_of_fuzz)
  cmake --build --preset clang -j "$jobs" --target $targets
  # All at once: each is one process, and four of them share two cores well enough.
  pids=
  for target in $targets; do
    corpus=build-clang/corpus/$target
    mkdir -p "$corpus"
    seeds=tests/fuzz_corpus/$target  # read, never written
    [ -d "$seeds" ] || seeds=
    echo "fuzz: $target for ${FUZZ_SECONDS:-10} s"
    build-clang/tests/"$target" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=120 -rss_limit_mb=2048 -verbosity=0 \
      -artifact_prefix="build-clang/" "$corpus" $seeds &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid"; done
}
# The target cuda asks all that sm_90 does; sm_80 takes the paths of sm_90 and sm_120a those of sm_100a, which ends at PTX
# here. FULL=1 compiles all to machine code.
stage_gpu() {
  left_out='\.(sm_80|sm_90|sm_120a)$' ptx=1
  [ -z "${FULL:-}" ] || left_out=none ptx=
  FP4_GPU_PTX=$ptx ctest --test-dir build -L '^gpu-compile$' -E "$left_out" --output-on-failure -j "$jobs"
}
stage_arm() {
  for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
    command -v $program >/dev/null || { echo "arm: skipped, no $program"; return 0; }
  done
  cmake -S tests/aarch64 -B build-aarch64 -G Ninja >/dev/null
  cmake --build build-aarch64 -j "$jobs"
  ctest --test-dir build-aarch64 --output-on-failure -j "$jobs"
}
stage_debian13() {
  command -v mmdebstrap >/dev/null || { echo "debian13: skipped, no mmdebstrap"; return 0; }
  LABELS='quick|train|cli' JOBS=$jobs tools/scripts/portability.sh trixie "$systems"
}
stage_torch2() {
  command -v mmdebstrap >/dev/null || { echo "torch2: skipped, no mmdebstrap"; return 0; }
  rm -rf build/wheel
  FP4SIM_BUILD=build tools/wheel.sh build/wheel
  PACKAGES="python3-torch python3-numpy" COPY=$(ls build/wheel/*.whl) INSTEAD='
    cd /fp4sim/tests/python
    rm -rf /package
    python3 -m zipfile -e /fp4sim/fp4sim-*.whl /package
    chmod +x /package/fp4sim/bin/fp4sim
    export PYTHONPATH=/package FP4SIM=/package/fp4sim/bin/fp4sim PYTHONDONTWRITEBYTECODE=1 COLUMNS=80 OMP_NUM_THREADS=1
    python3 -m unittest $(ls test_python_torch*.py | sed "/_device/d; s/\.py$//") 2>tests.log || { cat tests.log; exit 1; }
    python3 -c "import torch; print(\"torch\", torch.__version__)"
    tail -3 tests.log' tools/scripts/portability.sh sid "$systems"
}

for stage in $stages; do
  case $stage in
    setup|build|test|clang|fuzz|gpu|arm|debian13|torch2) ;;
    -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' tools/test.sh; exit 0 ;;
    *) echo "test.sh: unknown word '$stage'; accepted: --help, setup, build, test, clang, fuzz, gpu, arm, debian13, torch2" >&2; exit 2 ;;
  esac
done
summary=
total=$(date +%s)
for stage in $stages; do
  echo "=== $stage"
  begin=$(date +%s)
  stage_"$stage"
  summary="$summary$(printf '\n%-8s %5d s' "$stage" $(($(date +%s) - begin)))"
done
echo "=== passed$summary"
printf '%-8s %5d s\n' total $(($(date +%s) - total))
