#!/bin/sh
# Everything to run on a GPU for the first time, in about ten minutes: build with the vendor's compiler, the device tests,
# the memory checker, the benchmark. Writes results/gpu/DEVICE.json. Exit 0: all passed; 1: something failed; 2: wrong
# words; 3: no device or no compiler (nothing is written).
#   tools/gpu_check.sh [cuda|hip] [BUILD_FOLDER]     the backend is guessed from the compilers that are here
# Options of cmake go through CMAKE_ARGS, for example CMAKE_ARGS="-DFP4_GPU_ARCHITECTURES=sm_90" (a faster build).
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/cuda/bin:/opt/rocm/bin
kind=${1:-}
if [ -z "$kind" ]; then
  if command -v nvidia-smi >/dev/null || { command -v nvcc >/dev/null && ! command -v hipcc >/dev/null; }; then kind=cuda
  else kind=hip
  fi
fi
case $kind in
  cuda) compiler=nvcc ;;
  hip) compiler=hipcc ;;
  *) echo "gpu_check.sh: unknown word '$kind'; accepted: cuda, hip" >&2; exit 2 ;;
esac
build=${2:-build-$kind}
command -v $compiler >/dev/null || { echo "gpu_check.sh: no $compiler on this machine" >&2; exit 3; }

mkdir -p "$build"
echo "=== build ($kind, $build)"
cmake -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFP4_TESTS=ON -DFP4_GPU=$kind ${CMAKE_ARGS:-} >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target fp4sim test_gpu_device test_backends test_backends_edges
status=$("$build/fp4sim" list backends --json | tr -d '\n' | sed -E 's/.*"name": "gpu", *"doc": "([^"]*)".*/\1/')
echo "gpu: $status"
case $status in
  available*) ;;
  *) echo "gpu_check.sh: nothing to check" >&2; exit 3 ;;
esac

echo "=== tests (ctest -L gpu)"
ctest --test-dir "$build" -L '^gpu$' --output-on-failure

# The probes at start-up and the smaller comparisons under the memory and race checkers.
if [ $kind = cuda ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    echo "=== compute-sanitizer $tool"
    check="compute-sanitizer --tool $tool --error-exitcode 1 $build/tests/test_gpu_device"
    $check "device: products" -c "the largest integers of a block"
    $check "device: quantisers" -c "row and column copies in one pass"
  done
else
  echo "compute-sanitizer: not here"
fi

echo "=== benchmark"
name=$(echo "$status" | sed -E 's/^available on this machine: //; s/ \(.*//' | tr 'A-Z ' 'a-z_' | tr -cd 'a-z0-9_')
out=results/gpu/$name.json
"$build/fp4sim" bench --backend gpu --json >"$out.tmp" || { cat "$out.tmp"; exit 1; }
mv "$out.tmp" "$out"
"$build/fp4sim" bench --backend gpu
echo "gpu_check.sh: all passed; wrote $out"
