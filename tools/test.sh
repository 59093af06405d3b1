#!/bin/sh
# Everything a change has to pass, in stages with their times (under 30 minutes on 2 cores):
#   setup   missing packages            asan    quick label under AddressSanitizer and UndefinedBehaviorSanitizer
#   build   optimised, all warnings     fuzz    every fuzz target for FUZZ_SECONDS (default 40)
#   test    labels quick, train, cli    gpu     device code compiles, where a compiler for it is here
#   tools/test.sh build test     runs only the named stages
#   FULL=1 tools/test.sh fuzz gpu     every fuzz target, every device (some share the code of others)
set -eu
cd "$(dirname "$0")/.."
stages=${*:-setup build test asan fuzz gpu}
jobs=${JOBS:-$(nproc)}

stage_setup() { tools/setup.sh; }
stage_build() {
  cmake --preset ci -DFP4_TESTS=ON >/dev/null
  cmake --build --preset ci -j "$jobs"
}
stage_test() { ctest --preset ci -j "$jobs"; }
# The arithmetic and everything that reads outside bytes: what a sanitizer can find most in, and what fits the time.
# Everything: cmake --preset asan -DFP4_TEST_SRC_ONLY=OFF, then build and ctest with that preset.
asan_tests="accumulate block c_api canary codec_exhaustive error estimator float_format golden hadamard oracle
  output rounding sha256 spec_text tensor_archives tensor_file tensor_malformed"
stage_asan() {
  cmake --preset asan >/dev/null
  targets=$(printf 'test_%s ' $asan_tests)
  cmake --build --preset asan -j "$jobs" --target $targets
  ctest --preset asan -j "$jobs" -R "^test_($(printf '%s|' $asan_tests)none)\\.quick$"
}
stage_fuzz() {
  command -v clang++ >/dev/null || { echo "fuzz: skipped, no clang++"; return 0; }
  cmake --preset fuzz >/dev/null
  # Targets that read grids, stores and checkpoints need every folder up to sweeps: ten minutes of clang. FULL=1 adds them.
  targets=$(cd tests && grep -L '#include "\(sim\|tasks\|sweeps\|tests/fuzz_store\)' fuzz_*.cpp | sed 's/\.cpp$//') || true
  [ -z "${FULL:-}" ] || targets=$(cd tests && ls fuzz_*.cpp | sed 's/\.cpp$//')
  [ -n "$targets" ] || { echo "fuzz: no target"; return 0; }
  cmake --build --preset fuzz -j "$jobs" --target $targets
  # All at once: each is one process, and three of them share two cores well enough.
  pids=
  for target in $targets; do
    corpus=build-fuzz/corpus/$target
    mkdir -p "$corpus"
    seeds=tests/fuzz_corpus/$target  # read, never written
    [ -d "$seeds" ] || seeds=
    echo "fuzz: $target for ${FUZZ_SECONDS:-40} s"
    build-fuzz/tests/"$target" -max_total_time="${FUZZ_SECONDS:-40}" -timeout=30 -rss_limit_mb=2048 -verbosity=0 \
      -artifact_prefix="build-fuzz/" "$corpus" $seeds &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid"; done
}
# sm_80 takes the paths of sm_90 and sm_120a those of sm_100a: FULL=1 compiles them, too.
stage_gpu() {
  left_out='\.(sm_80|sm_120a)$'
  [ -z "${FULL:-}" ] || left_out=none
  ctest --test-dir build -L '^gpu-compile$' -E "$left_out" --output-on-failure -j "$jobs"
}

for stage in $stages; do
  case $stage in setup|build|test|asan|fuzz|gpu) ;;
    *) echo "test.sh: unknown word '$stage'; accepted: setup, build, test, asan, fuzz, gpu" >&2; exit 2 ;;
  esac
done
summary=
total=$(date +%s)
for stage in $stages; do
  echo "=== $stage"
  begin=$(date +%s)
  stage_"$stage"
  summary="$summary$(printf '\n%-6s %5d s' "$stage" $(($(date +%s) - begin)))"
done
echo "=== passed$summary"
printf '%-6s %5d s\n' total $(($(date +%s) - total))
