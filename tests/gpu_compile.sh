#!/bin/sh
# Compiles the GPU kernels for one target with whatever compiler the machine has; no device is needed. Says
# "[test skipped]" where no compiler knows the target.
#   tests/gpu_compile.sh sm_90|gfx90a|... FOLDER      kernels only (src/gpu/kernels_only.cu)
#   tests/gpu_compile.sh cuda|hip FOLDER              the whole backend with the vendor's runtime headers; cuda: for sm_90,
#                                                     with all that is asked of sm_90 alone; FP4_GPU_HIP: a folder hip of headers
# The probes of tools/probe compile for devices with matrix instructions of their own.
# Beyond compiling: the matrix instructions are there, no operation may fuse or flush, denormals are kept, matrix kernels
# spill no registers but a word or two outside their loops. FOLDER/TARGET.registers lists every kernel: name, registers, bytes spilled, bytes of stack;
# tests/gpu_registers.txt has those lines for one compiler a target, and any other number is an error.
#   FP4_GPU_KEEP=1 tests/gpu_compile.sh TARGET FOLDER   writes that target's lines into tests/gpu_registers.txt instead
#   FP4_GPU_PTX=1 tests/gpu_compile.sh sm_..|cuda FOLDER   stops at PTX, in a third of the time: no registers, and what
#                                                     only ptxas refuses is not seen; cuda: only if the table knows that PTX
set -eu
export LC_ALL=C
target=$1
out=$2
cd "$(dirname "$0")/.."
mkdir -p "$out"
skip() { echo "[test skipped] $target: $1"; exit 0; }
need() { grep -q -E "$1" "$2" || { echo "$target: $3"; exit 1; }; }
refuse() { ! grep -n -E "$1" "$2" | head -3 | grep . || { echo "$target: $3"; exit 1; }; }

# Lines "mangled registers spilled stack" become a table by plain names; "Gemm" kernels but PlainGemm may spill 16 bytes.
list_registers() {
  c++filt | sed -E 's/void fp4::gpu::entry<(.*)>\(.*\)/\1/; s/fp4::gpu:://g; s/\(ScaleMode\)0/power/; s/\(ScaleMode\)1/mantissa/; s/, /,/g' |
    sort >"$out/$target.registers"
  awk -v target="$target" '/Gemm/ && !/^Plain/ && $3 > 16 {print target ": " $1 " spills " $3 " bytes"; bad = 1} END {exit bad}' \
    "$out/$target.registers"
}

# The table keeps it beside the compiler: ptxas makes the same of the same.
digest() { [ ! -f "$out/$target.ptx" ] || echo ", PTX $(grep -v '^//' "$out/$target.ptx" | sha256sum | cut -c1-16)"; }

# compare_registers COMPILER: with the table, or into it.
compare_registers() {
  table=tests/gpu_registers.txt
  if [ -n "${FP4_GPU_KEEP:-}" ]; then
    { grep -v "^$target " $table; echo "$target compiler $1$(digest)"; sed "s/^/$target /" "$out/$target.registers"; } >"$out/table"
    mv "$out/table" $table
    return
  fi
  known=$(sed -n "s/^$target compiler //p" $table | sed 's/, PTX .*//')
  [ "$known" = "$1" ] || { echo "$target: registers not compared: the table has those of ${known:-no compiler}, this is $1"; return; }
  sed -n "s/^$target //p" $table | grep -v '^compiler ' | diff - "$out/$target.registers" || {
    echo "$target: registers, spills or stack differ from $table (<: there, >: here); FP4_GPU_KEEP=1 keeps the new ones"
    exit 1
  }
}

check_ptx() {
  need 'mma\.sync\.aligned\.m16n8k16.*bf16' "$out/$target.ptx" "no bf16 matrix instruction"
  case $target in sm_100a|sm_120a) need 'cvt\.rn\.satfinite\.e2m1x2' "$out/$target.ptx" "no native FP4 conversion" ;; esac
  # Unfused code names its rounding (mul.rn.f32); without the word ptxas may fuse.
  refuse '\b(mul|add|sub)\.f(32|64)|\.ftz' "$out/$target.ptx" "an operation may be fused or flushed"
}

check_probe() {
  case $target in sm_90|sm_120a)  # the probe of matrix units, for devices that have an instruction of their own
    probe_arch=$target
    [ "$target" != sm_90 ] || probe_arch=sm_90a
    "$nvcc" -std=c++17 -arch=$probe_arch -ptx -o "$out/probe.$target.ptx" tools/probe/probe.cu
    need '(wgmma\.mma_async|block_scale)' "$out/probe.$target.ptx" "the probe has no matrix instruction" ;;
  esac
}

# Of $out/$target.ptx and what `ptxas -v` says of it; and the probe.
check_nvidia() {
  "$(dirname "$nvcc")/ptxas" -v -arch="$target" -o "$out/$target.cubin" "$out/$target.ptx" 2>"$out/$target.ptxas"
  awk -F"'" '/Compiling entry/ {name = $2} /bytes stack/ {split($0, n, " "); stack = n[1]; spill = n[5]}
    /Used/ {split($0, n, " "); print name, n[5], spill, stack}' "$out/$target.ptxas" | list_registers
  check_ptx
  compare_registers "$release"
  check_probe
}

includes="-I. -Iinclude"
cuda_flags="-x cu -std=c++20 --fmad=false -ftz=false -prec-div=true -prec-sqrt=true $includes"
hip_flags="-x hip -std=c++20 -O3 -ffp-contract=off $includes"
device_only="--cuda-device-only -nogpuinc -nogpulib -DFP4_GPU_DEVICE_ONLY=1"

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
[ -z "$nvcc" ] || release="nvcc $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
# Newest first; FP4_GPU_CLANG names one that is not on the path.
clangs="${FP4_GPU_CLANG:-} clang++-22 clang++-21 clang++-20 clang++-19 /opt/rocm/llvm/bin/clang++ clang++-18 clang++-17 \
clang++-16 clang++-15 clang++-14 clang++"

case $target in
  sm_*)
    [ -n "$nvcc" ] || skip "no nvcc"
    "$nvcc" --list-gpu-code | grep -q -x "${target%a}" || skip "this nvcc does not know it"
    "$nvcc" $cuda_flags -arch="$target" -ptx -o "$out/$target.ptx" src/gpu/kernels_only.cu
    if [ -n "${FP4_GPU_PTX:-}" ]; then
      check_ptx
      echo "$target: $("$nvcc" --version | sed -n 's/.*release //p'), PTX"
      exit 0
    fi
    check_nvidia
    echo "$target: $("$nvcc" --version | sed -n 's/.*release //p'), $(wc -c <"$out/$target.cubin") bytes"
    ;;
  gfx*)
    printf '' >"$out/empty.cu"
    for clang in $clangs; do
      command -v "$clang" >/dev/null || continue
      "$clang" -x hip $device_only --offload-arch="$target" -S -o /dev/null "$out/empty.cu" 2>/dev/null || continue
      "$clang" $hip_flags $device_only --offload-arch="$target" -S -o "$out/$target.s" src/gpu/kernels_only.cu
      awk '/\.agpr_count:/ {agpr = $NF} /\.private_segment_fixed_size:/ {stack = $NF} /^    \.symbol:/ {name = $2; sub(/\.kd$/, "", name)}
        /\.vgpr_count:/ {vgpr = $NF} /\.vgpr_spill_count:/ {print name, vgpr, 4 * $NF, stack}' "$out/$target.s" | list_registers
      need 'v_mfma_f32_16x16x16_?bf16' "$out/$target.s" "no bf16 matrix instruction"
      refuse 'amdhsa_float_denorm_mode_32 [^3]' "$out/$target.s" "denormals are flushed"
      case $target in gfx950)
        need 'v_cvt_scalef32_pk_fp4_f32' "$out/$target.s" "no native FP4 conversion" ;;
      esac
      compare_registers "clang $("$clang" -dumpversion | cut -d. -f1)"
      case $target in gfx942|gfx950)
        "$clang" -x hip -std=c++17 -O2 -Wall -Wextra -Werror $device_only -DPROBE_KERNEL_ALONE --offload-arch="$target" -S \
          -o "$out/probe.$target.s" tools/probe/probe.hip
        need 'v_mfma_f32_16x16x(16|32)_f16' "$out/probe.$target.s" "the probe has no matrix instruction" ;;
      esac
      echo "$target: $("$clang" --version | head -1), $(grep -c v_mfma "$out/$target.s") matrix instructions"
      exit 0
    done
    skip "no clang here knows it"
    ;;
  cuda)
    [ -n "$nvcc" ] || skip "no nvcc"
    target=sm_90
    mkdir -p "$out/cuda"
    "$nvcc" $cuda_flags -Xcompiler -O0 -gencode arch=compute_90,code=compute_90 --keep --keep-dir "$out/cuda" -c \
      -o "$out/cuda.o" src/gpu/backend_gpu.cu
    mv "$out/cuda/backend_gpu.ptx" "$out/$target.ptx"
    rm -r "$out/cuda"
    if [ -n "${FP4_GPU_PTX:-}" ] && grep -q "^$target compiler $release$(digest)\$" tests/gpu_registers.txt; then
      check_ptx
      check_probe
      echo "cuda: $release, a PTX whose registers tests/gpu_registers.txt has"
      exit 0
    fi
    check_nvidia
    echo "cuda: $("$nvcc" --version | sed -n 's/.*release //p'), $(wc -c <"$out/cuda.o") bytes"
    ;;
  hip)
    headers=$(ls -d ${FP4_GPU_HIP:-} /usr/include/hip /opt/rocm/include/hip 2>/dev/null | head -1)
    [ -n "$headers" ] || skip "no HIP headers"
    if ! command -v hipcc >/dev/null; then
      command -v clang++-14 >/dev/null || skip "no hipcc"
      clang++-14 $hip_flags --offload-arch=gfx90a --cuda-host-only -nogpulib -nogpuinc -isystem "$headers/.." \
        -D__HIP_PLATFORM_AMD__ -fsyntax-only src/gpu/backend_gpu.cu
      echo "hip: no hipcc; clang 14 took the half of the host"
      exit 0
    fi
    hipcc -x hip -std=c++20 -O1 -ffp-contract=off $includes --offload-arch=gfx90a -c -o "$out/hip.o" \
      src/gpu/backend_gpu.cu
    ;;
  *) echo "gpu_compile.sh: unknown word '$target'; accepted: sm_*, gfx*, cuda, hip" >&2; exit 2 ;;
esac
