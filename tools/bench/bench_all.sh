#!/bin/sh
# Measures what results/bench shows of a machine, some fifteen minutes on an idle one:
#   tools/bench/bench_all.sh DIR [PROGRAM]
set -eu
out=$1
program=${2:-build/fp4sim}
mkdir -p "$out"
run() {
  name=$1
  shift
  echo "$name: bench $*"
  "$program" bench "$@" --full --json >"$out/$name.json"
}
run avx512 gemm quantize
run avx2 gemm quantize --backend avx2
run avx512_two_threads gemm --threads 2
run avx512_64m quantize --elements 67108864 --rounds 5
# Every accumulator on operands whose scales lie near each other, up to 7 bits apart, up to 13 bits.
for spread in 0 7 13; do
  run "accumulators_$spread" gemm --sizes 1024 --rounds 5 --scale-spread "$spread" \
    --specs mxfp4 nvfp4 nvfp4,tensor_scale=outer128 ue5m3fp4 mxfp8 mxfp8,element=e5m2 \
    --accumulators fp32_block,exact,k64_rz,fused35_rz,fused25_rz,fp32_sequential
done
run train train
