#!/bin/sh
# All that a GPU at hand for ten minutes can tell, in two steps: programs are built and packed where the compilers are, and
# run where the device is. There nothing is built or installed, and no library but libc and the driver's has to be there.
#   tools/gpu_check.sh --bundle DIR [cuda|hip] [--arch sm_90,..]   packs DIR (default target: sm_90, or gfx942)
#   tools/gpu_check.sh --run DIR [--seconds N]                     runs it for at most N seconds (default 560)
#   tools/gpu_check.sh [cuda|hip]                                  both, in build-bundle, where one machine has all
#   tools/gpu_check.sh --self-test                                 runs without a device: each stage says why it cannot
# Results are at most 8 files in the folder that the variable OUT names, or DIR/results: summary.txt, device.txt, tests.txt,
# bench_quantize.json, bench_gemm.json, measured.jsonl, sanitizers.txt, ncu.txt. Each is written as its stage ends.
# Exit 0: nothing failed; 1: something failed or had no time; 2: wrong words; 3: no device, or no compiler.
# The build takes further options of cmake from CMAKE_ARGS, the number of compilers at a time from JOBS.
set -u
PATH=$PATH:/usr/local/cuda/bin:/opt/rocm/bin:/usr/local/nvidia/bin
stages="device tests torch bench digests sweep yardstick sanitizers ncu energy"
programs="fp4sim test_gpu_device test_backends test_backends_edges"
wrong() { echo "gpu_check.sh: $1 (tools/gpu_check.sh --help)" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
script=$here/$(basename "$0")

mode=both kind= targets= folder= seconds=560
while [ $# -gt 0 ]; do
  case $1 in
    -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' "$script"; exit 0 ;;
    --bundle|--run)
      [ $mode = both ] || wrong "$1 beside --$mode"
      mode=${1#--}
      folder=${2:-}
      [ -n "$folder" ] || wrong "$1 needs a folder"
      shift ;;
    --self-test) [ $mode = both ] || wrong "$1 beside --$mode"; mode=self-test ;;
    --arch) targets=${2:-}; [ -n "$targets" ] || wrong "$1 needs names, for example sm_90,sm_100a"; shift ;;
    --seconds)
      seconds=${2:-}
      case $seconds in ''|*[!0-9]*) wrong "--seconds needs a whole number, not '$seconds'" ;; esac
      shift ;;
    cuda|hip) kind=$1 ;;
    *) wrong "unknown word '$1'; accepted: --bundle, --run, --arch, --seconds, --self-test, --help, cuda, hip" ;;
  esac
  shift
done

# --- Packing -----------------------------------------------------------------------------------------------------------

# Programs in bin, their libraries in lib, found by a path relative to the program; both compressed, scripts beside them.
bundle() {
  mkdir -p "$folder" || exit 2
  folder=$(cd "$folder" && pwd)
  cd "$here/.." || exit 2
  if [ -z "$kind" ]; then
    if command -v nvcc >/dev/null || ! command -v hipcc >/dev/null; then kind=cuda; else kind=hip; fi
  fi
  case $kind in
    cuda) compiler=nvcc default=sm_90 ;;
    hip) compiler=hipcc default=gfx942 ;;
  esac
  command -v $compiler >/dev/null || { echo "gpu_check.sh: no $compiler on this machine" >&2; exit 3; }
  build=build-$kind
  mkdir -p "$build" || exit 2
  echo "=== build ($kind, $build)"
  # Both steps on one machine: for every target that the compiler knows, so that none has to be named.
  [ $mode != bundle ] || targets=${targets:-$default}
  # shellcheck disable=SC2016,SC2086
  cmake -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFP4_TESTS=ON -DFP4_TEST_BATCHES=OFF -DFP4_GPU=$kind \
    ${targets:+"-DFP4_GPU_ARCHITECTURES=$(echo "$targets" | tr , ';')"} '-DCMAKE_BUILD_RPATH=$ORIGIN/../lib' \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags ${CMAKE_ARGS:-} >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log"; exit 1; }
  # shellcheck disable=SC2086
  cmake --build "$build" -j "${JOBS:-$(nproc)}" --target $programs fp4_python || exit 1
  rm -rf "$folder/bin" "$folder/lib"
  mkdir "$folder/bin" "$folder/lib" || exit 2
  for program in $programs; do
    built=$build/$program
    [ -x "$built" ] || built=$build/tests/$program
    strip -o "$folder/bin/$program" "$built" || exit 1
  done
  # All but those of libc, which belong to the kernel and the driver of the other machine.
  ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util))\.so' | while read -r library; do
    strip --strip-unneeded -o "$folder/lib/$(basename "$library")" "$library" || exit 1
  done
  cp tools/gpu_check.sh tools/bench/gpu_yardstick.py tools/bench/gpu_energy.py tools/bench/gpu_sweep.json "$folder" || exit 1
  rm -f "$folder"/*.whl
  FP4SIM_BUILD=$build tools/wheel.sh "$folder" || exit 1
  cp tools/bench/bench_torch_cuda.py tests/python/support.py tests/python/test_python_torch_device.py "$folder" || exit 1
  "$folder/bin/fp4sim" version || exit 1
  (cd "$folder" && tar czf programs.tar.gz bin lib && rm -rf bin lib) || exit 1
  echo "gpu_check.sh: $(du -sm "$folder" | cut -f1) MB in $folder; where the device is: gpu_check.sh --run on a copy of it"
}

# --- Running -----------------------------------------------------------------------------------------------------------

say() { echo "$*" | tee -a "$out/summary.txt"; }

# start JOB SECONDS COMMAND..: beside the other jobs of the stage; wait_for JOB.. waits.
start() {
  job=$work/$1 limit=$2
  shift 2
  left=$((deadline - $(date +%s)))
  [ $left -ge $limit ] || limit=$left
  echo "$*" >"$job.command"
  echo 0 >"$job.seconds"
  if [ $limit -lt 1 ]; then
    echo 124 >"$job.code"
    echo "no time left" >"$job.why"
    return
  fi
  (
    begin=$(date +%s)
    timeout -k 3 $limit "$@" >"$job.out" 2>"$job.err" </dev/null &
    echo $! >"$job.running"
    wait $!
    code=$?
    rm -f "$job.running"
    echo $(($(date +%s) - begin)) >"$job.seconds"
    case $code in
      124) echo "stopped after $limit s" ;;
      126|127)
        for word; do
          case $word in "$bin"/*) [ -x "$word" ] || echo "not in the bundle: ${word#"$bundle"/}" ;; esac
        done ;;
      137) echo "killed (signal 9: stopped after $limit s, or out of memory)" ;;
      *) [ $code -le 128 ] || echo "signal $((code - 128))" ;;
    esac >"$job.why"
    echo $code >"$job.code"
  ) &
  echo $! >"$job.pid"
}
wait_for() {
  for job; do
    [ ! -f "$work/$job.pid" ] || wait "$(cat "$work/$job.pid")"
  done
}
# An absent tool is no failure, but said.
skip() { echo "$2" >"$work/$1.why"; echo skip >"$work/$1.code"; echo "-" >"$work/$1.command"; echo 0 >"$work/$1.seconds"; }
# What a job that ended well did wrong.
fault() { echo 1 >"$work/$1.code"; echo "$2" >"$work/$1.why"; }
is_passed() { [ "$(cat "$work/$1.code")" = 0 ]; }
text_of() { cat "$work/$1.err" "$work/$1.out" 2>/dev/null; }

# One line on how a job went, from what it printed: PASSED, SKIPPED or FAILED, and why.
judge() {
  code=$(cat "$work/$1.code") why=$(head -n 1 "$work/$1.why" 2>/dev/null)
  if [ "$code" = 0 ] && text_of "$1" | grep -q '^\[test skipped\]'; then
    why=$(text_of "$1" | grep -m 1 '^\[test skipped\]' | cut -c 16-)
    echo skip >"$work/$1.code"
    code=skip
  fi
  case $code in
    0) echo "passed" ;;
    skip) echo "skipped $why" ;;
    *)
      [ -n "$why" ] || why="exit $code: $(text_of "$1" | grep -m 1 -E 'rror|FAILED|differ|DIFFER|no device' ||
        { cat "$work/$1.out" "$work/$1.err"; } | grep . | tail -n 1)"
      echo "failed $why" ;;
  esac
}

# report STAGE NAME FILE JOB..: once they have ended, one line of the summary for all JOBs, what they printed into FILE
# ('-': nowhere), and the first 40 lines of each that failed.
report() {
  stage=$1 name=$2 file=$3
  shift 3
  wait_for "$@"
  longest=0 verdict= detail= good=0
  for job; do
    line=$(judge "$job")
    word=${line%% *}
    took=$(cat "$work/$job.seconds")
    [ "$took" -le $longest ] || longest=$took
    [ "$word" != passed ] || good=$((good + 1))
    if [ -z "$verdict" ] || [ "$verdict" = passed ] || { [ "$word" = failed ] && [ "$verdict" = skipped ]; }; then
      verdict=$word detail=${line#"$word"}
      [ $# -eq 1 ] || [ "$word" = passed ] || detail=" $job:$detail"
    fi
    if [ "$file" != - ]; then
      { echo "=== $stage $job: $line ($took s)"; echo "\$ $(cat "$work/$job.command")"; text_of "$job" | head -n 4000 |
        head -c 1500000; } >>"$out/$file"
    fi
    if [ "$word" = failed ]; then
      failures=$((failures + 1))
      echo "--- $stage $job: $line"
      text_of "$job" | head -n 40 | cut -c 1-300
      echo "---"
    fi
  done
  [ $# -eq 1 ] || [ "$verdict" != passed ] || detail=" $good of $#"
  say "$(printf '%-10s %-15s %-7s %3d s %s' "$stage" "$name" "$verdict" "$longest" "$detail" | cut -c 1-150)"
}

# Rows of `fp4sim bench --json` or of JSON lines, one a line of the summary.
rows_of() {
  tr -d '\n' <"$1" | sed 's/}/}\n/g' | sed -E 's/^.*\{ *"bench"/"bench"/' | grep '^"bench"' | awk '
    function field(name,  at, rest) {
      at = index($0, "\"" name "\":")
      if (at == 0) return ""
      rest = substr($0, at + length(name) + 3)
      sub(/^ *"?/, "", rest)
      sub(/("?,? *"[a-z_]+":.*|"? *})$/, "", rest)
      return rest
    }
    {
      note = field("error")
      if (field("baseline") != "") note = sprintf("%.3f of %s", field("ratio"), field("baseline"))
      if (field("equal") == "false") note = "BITS DIFFER"
      printf "  %-34s %-15s %9.3f ms %9.1f %-6s %s\n", field("bench"), field("size"), 1e3 * field("seconds"), field("rate"), field("unit"), note
    }' | cut -c 1-150 | tee -a "$out/summary.txt"
}

word_of() { sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$work/$1.out" | head -n 1; }

run_device() {
  if command -v nvidia-smi >/dev/null; then
    start smi 30 nvidia-smi
    start smi_all 30 nvidia-smi -q
  elif command -v rocm-smi >/dev/null; then
    start smi 30 rocm-smi --showproductname --showdriverversion
    skip smi_all "no nvidia-smi"
  else
    skip smi "neither nvidia-smi nor rocm-smi on the path"
    skip smi_all "no nvidia-smi"
  fi
  start machine 20 sh -c 'uname -a; lscpu; free -g; ls -d /usr/local/cuda* /opt/rocm* /dev/nvidia* /dev/kfd 2>/dev/null; env | grep -E "CUDA|NVIDIA|LD_LIBRARY|HIP|ROC"; true'
  start version 20 "$bin/fp4sim" version
  start libraries 20 sh -c 'for p in "$0"/*; do echo "$p:"; ldd "$p" || exit 1; done' "$bin"
  start backends 90 "$bin/fp4sim" list backends --json
  wait_for smi smi_all machine version libraries backends
  if grep -q "not found" "$work/libraries.out" "$work/libraries.err"; then
    fault libraries "missing: $(sed -n 's/ => not found//p' "$work/libraries.out" | sort -u | tr -d '\t\n')"
  fi
  gpu=$(tr -d '\n' <"$work/backends.out" 2>/dev/null | sed -nE 's/.*"name": "gpu", *"doc": "([^"]*)".*/\1/p')
  case $gpu in
    available*) ;;
    *)
      has_device=
      ! is_passed backends || fault backends "${gpu:-no line for gpu}" ;;
  esac
  say "fp4sim $(sed -n 's/^commit *//p' "$work/version.out" 2>/dev/null), $(date -u +%Y-%m-%dT%H:%MZ), $(
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1 || true)"
  report device smi device.txt smi smi_all
  for job in machine version libraries backends; do report device $job device.txt $job; done
  [ -z "$has_device" ] || say "  $gpu"
}

# One process for each test case, side by side. A launch ends before the next begins, so that an error names its kernel.
run_tests() {
  [ -z "$has_device" ] || ! command -v python3 >/dev/null || start warm_python 60 python3 -c 'import torch'  # read from the disk meanwhile
  set -- CUDA_LAUNCH_BLOCKING=1 OMP_NUM_THREADS=4 FP4_TEST_BACKEND=gpu FP4_TEST_SHARE_LARGE=3
  start probe 120 env "$@" "$bin/test_gpu_device" "device: its matrix*"
  start quantisers 150 env "$@" "$bin/test_gpu_device" "device: quantisers"
  start products 150 env "$@" "$bin/test_gpu_device" "device: products"
  start bench_bits 150 env "$@" "$bin/test_gpu_device" "device: the benchmark*"
  start training 150 env "$@" "$bin/test_gpu_device" "device: a training*"
  start backends_all 120 env "$@" "$bin/test_backends" "[quick]"
  start edges 120 env "$@" "$bin/test_backends_edges" "[quick]"
  for job in probe quantisers products bench_bits training backends_all edges; do
    report tests $job tests.txt $job
  done
}

run_bench() {
  for what in quantize gemm; do
    start bench_$what 100 "$bin/fp4sim" bench $what --backend gpu --json
    report bench $what - bench_$what
    if [ -s "$work/bench_$what.out" ]; then
      cp "$work/bench_$what.out" "$out/bench_$what.json"
      rows_of "$out/bench_$what.json"
    fi
  done
  start bench_train 60 "$bin/fp4sim" bench train --backend gpu --models mlp-256,lm --recipes mxfp4,bf16,nvfp4 --steps 300 --json
  report bench train - bench_train
  if [ -s "$work/bench_train.out" ]; then
    { tr -d '\n' <"$work/bench_train.out"; echo; } >>"$out/measured.jsonl"
    rows_of "$work/bench_train.out"
  fi
}

# Training runs on the device against the same machine's CPU.
recipes="mxfp4 nvfp4_te quartet tetrajet"
run_digests() {
  for where in gpu auto; do
    for recipe in $recipes; do
      if [ $where = gpu ] || is_passed digest_${recipe}_gpu; then
        start digest_${recipe}_$where 90 env OMP_NUM_THREADS=4 "$bin/fp4sim" train --task lm --recipe $recipe --steps 20 \
          --backend $where --json
      fi
    done
    for recipe in $recipes; do wait_for digest_${recipe}_$where; done
  done
  for recipe in $recipes; do
    job=digest_${recipe}_gpu
    if is_passed $job; then
      ours=$(word_of $job digest)
      theirs=$(word_of digest_${recipe}_auto digest)
      if [ -z "$ours" ] || [ "$ours" != "$theirs" ]; then
        fault $job "digest ${ours:-missing}, on the CPU ${theirs:-missing}"
      fi
      report digests $recipe tests.txt $job digest_${recipe}_auto
    else
      report digests $recipe tests.txt $job
    fi
  done
}

# A sweep's runs, eight at a time and one at a time on the device, then on the CPU: the same digests, and seconds of each.
run_sweep() {
  for how in gpu_8 gpu_1 auto_$(nproc); do
    runs=sweep_$how
    if [ $how != gpu_8 ] && ! is_passed sweep_gpu_8; then
      skip $runs "nothing to compare with"
      continue
    fi
    # shellcheck disable=SC2016
    start $runs 100 sh -c '"$0" sweep run "$1" --backend $2 -j $3 --out "$4" --quiet && "$0" sweep export "$4" --out "$4/runs.csv"' \
      "$bin/fp4sim" "$bundle/gpu_sweep.json" ${how%_*} ${how#*_} "$work/$runs.sweep"
    wait_for $runs
    # recipe, hash, seed, status, digest
    grep '^gpu_sweep,' "$work/$runs.sweep/runs.csv" 2>/dev/null | cut -d, -f 2,4,5,7,10 | sort >"$work/$runs.digests"
    if is_passed $runs && { [ ! -s "$work/$runs.digests" ] || ! cmp -s "$work/sweep_gpu_8.digests" "$work/$runs.digests"; }; then
      fault $runs "digests differ from those of eight at a time"
    fi
  done
  report sweep digests tests.txt sweep_gpu_8 sweep_gpu_1 $runs
  ! is_passed $runs || say "  $(wc -l <"$work/$runs.digests") runs of 100 steps: device, 8 at a time $(cat "$work/sweep_gpu_8.seconds") s," \
    "1 at a time $(cat "$work/sweep_gpu_1.seconds") s; CPU, $(nproc) at a time $(cat "$work/$runs.seconds") s"
}

run_yardstick() {
  if command -v python3 >/dev/null; then
    start yardstick 90 python3 "$bundle/gpu_yardstick.py"
  else
    skip yardstick "no python3 on the path"
  fi
  report yardstick torch - yardstick
  if grep -q '^{' "$work/yardstick.out" 2>/dev/null; then
    grep '^{' "$work/yardstick.out" >>"$out/measured.jsonl"
    rows_of "$work/yardstick.out"
  fi
}

# fp4sim.torch on CUDA tensors, where torch is: every recipe's bits, then steps of a model over torch's own bf16.
run_torch() {
  if python3 -m zipfile -e "$bundle"/fp4sim-*.whl "$work/package" 2>/dev/null && python3 -c "import torch, numpy" 2>/dev/null; then
    set -- env PYTHONPATH="$work/package" FP4SIM="$bin/fp4sim" python3
    start torch_bits 120 "$@" "$bundle/test_python_torch_device.py" cuda
    wait_for torch_bits
    start torch_steps 150 "$@" "$bundle/bench_torch_cuda.py"
  else
    skip torch_bits "no wheel in the bundle, or no torch on the path"
    skip torch_steps "no wheel in the bundle, or no torch on the path"
  fi
  report torch bits tests.txt torch_bits
  report torch steps - torch_steps
  [ ! -s "$work/torch_steps.out" ] || tee -a "$out/measured.jsonl" <"$work/torch_steps.out"
}

# The probes at start-up and small comparisons of products and quantisers, every tool and program at once.
run_sanitizers() {
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/compute-sanitizer/compute-sanitizer 2>/dev/null | tail -n 1)
  for tool in memcheck racecheck synccheck initcheck; do
    for part in probe products quantisers; do
      [ -n "$sanitizer" ] || { skip ${tool}_$part "no compute-sanitizer here"; continue; }
      set -- "$sanitizer" --tool $tool --error-exitcode 99 --print-limit 20
      case $part in
        probe) set -- "$@" "$bin/fp4sim" list backends ;;
        products) set -- "$@" "$bin/test_gpu_device" "device: products" -c "the largest integers of a block" ;;
        quantisers) set -- "$@" "$bin/test_gpu_device" "device: quantisers" -c "row and column copies in one pass" ;;
      esac
      start ${tool}_$part 150 env OMP_NUM_THREADS=2 "$@"
    done
  done
  for tool in memcheck racecheck synccheck initcheck; do
    for part in probe products quantisers; do
      job=${tool}_$part
      wait_for $job
      # A program that found no device has shown nothing.
      if is_passed $job && [ $part = probe ] && ! grep -q "gpu  *available" "$work/$job.out"; then
        fault $job "the program saw no device"
      fi
    done
    report sanitizers $tool sanitizers.txt ${tool}_probe ${tool}_products ${tool}_quantisers
  done
}

# Of the launches in ncu's text, the one that took longest.
largest_launch() {
  awk '
    function close_launch() { if (time > longest) { longest = time; text = line } time = 0; line = "" }
    / Context [0-9]+, Stream/ { close_launch() }
    /^ +(Duration|Compute \(SM\) Throughput|Memory Throughput +%|Registers Per Thread|Achieved Occupancy|No Eligible) / {
      value = $NF
      gsub(",", "", value)
      name = $0
      sub(/^ +/, "", name)
      sub(/  .*/, "", name)
      if (name == "Duration") time = value + 0
      line = line (line == "" ? "" : ", ") name " " (name == "Duration" ? value / 1e3 " us" : value)
    }
    END { close_launch(); if (text != "") print "  " text }' "$1" | cut -c 1-150 | tee -a "$out/summary.txt"
}

run_ncu() {
  ncu=$(command -v ncu || ls /opt/nvidia/nsight-compute/*/ncu /usr/local/cuda*/bin/ncu 2>/dev/null | tail -n 1)
  for kernel in QuickRows QuickTile StagedGemm OrderedGemm; do
    case $kernel in
      Quick*) what="quantize" ;;
      *) what="gemm --sizes 4096" ;;
    esac
    if [ -n "$ncu" ]; then
      # shellcheck disable=SC2086
      start ncu_$kernel 60 "$ncu" --kernel-name-base demangled -k "regex:$kernel" --filter-mode per-launch-config -c 1 \
        --clock-control none --print-units base --section SpeedOfLight --section LaunchStats --section Occupancy --section WarpStateStats \
        --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis --section SchedulerStats \
        "$bin/fp4sim" bench $what --backend gpu --rounds 1
    else
      skip ncu_$kernel "no ncu here"
    fi
    wait_for ncu_$kernel
    if is_passed ncu_$kernel && ! grep -q "$kernel" "$work/ncu_$kernel.out"; then
      fault ncu_$kernel "no launch of $kernel seen"
    fi
    report ncu $kernel ncu.txt ncu_$kernel
    [ ! -s "$work/ncu_$kernel.out" ] || largest_launch "$work/ncu_$kernel.out"
  done
}

run_energy() {
  for what in bench train; do
    case $what in
      bench) set -- bench gemm --rounds 200 ;;
      train) set -- train --task lm --recipe mxfp4 --steps 60 ;;
    esac
    if command -v python3 >/dev/null; then
      start energy_$what 75 python3 "$bundle/gpu_energy.py" $what "$bin/fp4sim" "$@" --backend gpu --json
    else
      skip energy_$what "no python3 on the path"
    fi
    report energy $what - energy_$what
    if grep -q '^{' "$work/energy_$what.out" 2>/dev/null; then
      grep '^{' "$work/energy_$what.out" | tee -a "$out/measured.jsonl"
      say "  $(sed -n 's/.*\("joules".*\)}/\1/p' "$work/energy_$what.out" | tr -d '"')"
    fi
  done
}

run() {
  [ -d "$folder" ] || wrong "no folder '$folder'"
  deadline=$(($(date +%s) + seconds))
  bundle=$(cd "$folder" && pwd)
  bin=$bundle/bin
  [ ! -f "$bundle/programs.tar.gz" ] || tar xzf "$bundle/programs.tar.gz" -C "$bundle" || exit 2
  out=${OUT:-$bundle/results}
  mkdir -p "$out" || exit 2
  out=$(cd "$out" && pwd)
  work=$(mktemp -d) || exit 2
  # Programs that still run end first: they would write into the folder.
  trap 'kill $(cat "$work"/*.running 2>/dev/null) 2>/dev/null; wait; rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  trap '' PIPE  # the results are in files
  for file in summary.txt device.txt tests.txt bench_quantize.json bench_gemm.json measured.jsonl sanitizers.txt ncu.txt; do
    rm -f "$out/$file"
  done
  # The driver's libraries, and the vendor's gemm that the benchmark loads where it finds it.
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/cuda/lib64
  vendor=$(ls -d "$(python3 -c 'import site; print(site.getsitepackages()[0])' 2>/dev/null)"/nvidia/c*/lib 2>/dev/null |
    tr '\n' ':')
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$vendor
  CUDA_DEVICE_ORDER=PCI_BUS_ID  # the order of NVML, whose energy is counted
  PYTHONDONTWRITEBYTECODE=1
  export LD_LIBRARY_PATH CUDA_DEVICE_ORDER PYTHONDONTWRITEBYTECODE
  failures=0 has_device=yes
  for stage in $stages; do
    run_$stage
  done
  echo "=== all of it, once more"
  cat "$out/summary.txt"
  echo "gpu_check.sh: $failures failed, $(($(date +%s) - deadline + seconds)) s; results in $out"
  [ -n "$has_device" ] || exit 3
  [ $failures -eq 0 ] || exit 1
}

# --- Without a device --------------------------------------------------------------------------------------------------

# Bundles of a program that sees no device and lacks the tests, of programs that crash, of programs that never end: each
# run must name every stage, call none of those that need a device passed, and say why.
self_test() {
  place=$(mktemp -d) || exit 2
  trap 'rm -rf "$place"' EXIT
  fp4sim=${FP4SIM:-$here/../build/fp4sim}
  [ -x "$fp4sim" ] || { echo "gpu_check.sh: no program $fp4sim (name one in the variable FP4SIM)" >&2; exit 2; }
  bad=0
  expect() {
    [ "${2:-0}" -ne 0 ] || { echo "gpu_check.sh --self-test: $1"; bad=1; }
  }
  for case in absent crash endless; do
    mkdir -p "$place/$case/bin"
    for program in $programs; do
      stand_in=$place/$case/bin/$program
      case $case-$program in
        absent-fp4sim) ln -s "$(readlink -f "$fp4sim")" "$stand_in" ;;
        absent-*) continue ;;
        crash-*) printf '#!/bin/sh\nkill -SEGV $$\n' >"$stand_in" ;;
        endless-*) printf '#!/bin/sh\nexec sleep 1000\n' >"$stand_in" ;;
      esac
      [ $case = absent ] || chmod +x "$stand_in"
    done
    cp "$here"/bench/gpu_*.[jp]* "$place/$case" 2>/dev/null || cp "$here"/gpu_*.[jp]* "$place/$case"
    # What never ends is given four seconds beyond what the stages themselves took on this machine.
    limit=60
    [ $case != endless ] || limit=$((took + 4))
    begin=$(date +%s)
    CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES= OUT=$place/$case/out "$script" --run "$place/$case" --seconds $limit \
      >"$place/$case/printed" 2>&1
    expect "$case: exit code $? instead of 3" $(($? == 3))
    took=$(($(date +%s) - begin))
    summary=$place/$case/out/summary.txt
    for stage in $stages; do
      expect "$case: no line of stage $stage" "$(grep -c "^$stage " "$summary")"
      [ $stage = device ] || expect "$case: stage $stage passed without a device" \
        $(($(grep -c "^$stage .* passed " "$summary") == 0))
    done
    expect "$case: a stage says no reason" $(($(grep -cE '^[a-z]+ .* (failed|skipped) +[0-9]+ s *$' "$summary") == 0))
    expect "$case: more than 8 files" $(($(find "$place/$case/out" -type f | wc -l) <= 8))
  done
  "$script" --runn "$place" >/dev/null 2>&1
  expect "an unknown word: exit code $? instead of 2" $(($? == 2))
  expect "absent: its tests are not named as missing" "$(grep -c 'not in the bundle' "$place/absent/out/summary.txt")"
  expect "crash: no signal is named" "$(grep -c 'signal 11' "$place/crash/out/summary.txt")"
  expect "endless: nothing was stopped" "$(grep -c 'stopped after' "$place/endless/out/summary.txt")"
  expect "endless: no stage ran out of time" "$(grep -c 'no time left' "$place/endless/out/summary.txt")"
  cat "$place/absent/out/summary.txt"
  [ $bad -eq 0 ] || exit 1
  echo "gpu_check.sh --self-test: every stage says why it cannot run"
}

case $mode in
  bundle) bundle ;;
  run) run ;;
  self-test) self_test ;;
  both) folder=build-bundle; case $here in */tools) folder=$here/../build-bundle ;; esac; bundle && run ;;
esac
