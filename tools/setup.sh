#!/bin/sh
# Installs what building and testing needs and is not here yet: Debian packages from the table below and, where
# package.json exists, the npm packages of its lock file. Says what it does; when nothing is missing it takes a second.
#   tools/setup.sh          everything
#   tools/setup.sh build    only what the program itself needs
set -eu
cd "$(dirname "$0")/.."
wanted=${1:-all}
case $wanted in
  build|all) ;;
  -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' tools/setup.sh; exit 0 ;;
  *) echo "setup.sh: unknown word '$wanted'; accepted: --help, build, all" >&2; exit 2 ;;
esac

# What is not here, and why:
#   OpenSSL     its EVP hashes as fast as src/files/sha256.cpp, but a start of the program takes 4.6 to 5.8 ms of processor
#               time in place of 1.2 to 1.6. A wheel would carry libcrypto.so.3, 4.7 MB; once Debian 12's is loaded,
#               `import ssl` of a Python built with OpenSSL 3.3 or newer fails (version OPENSSL_3.3.0 not found)
#   Boost.Math  its beta functions take g++ 12 4.3 to 4.5 s to compile, Eigen's 1.4 s; they would spare 20 lines
#   libzip, minizip  .npz and .zip are read and written as streams over zlib, where each CRC and length is compared on
#               the way; libzip writes nothing before its archive is closed
# package | group | a command that makes the package unnecessary, or - | what for
table='
g++                  | build | c++      | compiler
cmake                | build | cmake    | build files
ninja-build          | build | ninja    | build
libfmt-dev           | build | -        | text
libcli11-dev         | build | -        | command line
nlohmann-json3-dev   | build | -        | JSON
libsqlite3-dev       | build | -        | result store
libeigen3-dev        | build | -        | statistics (Student t), least squares, low-rank algebra
libtbb-dev           | build | -        | runs of a sweep, streams of files (oneTBB)
zlib1g-dev           | build | -        | .npz files, the report
libopenmpi-dev       | build | mpicxx   | training on several processes (optional)
openmpi-bin          | build | mpirun   | starts them
dpkg-dev             | build | dpkg-shlibdeps | what the .deb depends on
file                 | build | file     | finds the programs in it
python3-numpy        | build | -        | Python module, files of the tests
python3-pip          | build | -        | installs the Python module
python3-venv         | build | -        | environments for it
nodejs               | build | node     | chart library of the report
npm                  | build | npm      | chart library of the report; browser driver and accessibility rules of its test
catch2               | test  | -        | tests
python3              | test  | python3  | oracle, include check
python3-torch        | test  | -        | layers of PyTorch under a recipe
python3-jsonschema   | test  | -        | judges the JSON Schemas
python3-pandas       | test  | -        | tables of the Python module, handed on
python3-matplotlib   | test  | -        | its plots
mypy                 | test  | mypy     | its type stubs
clang                | test  | clang++  | second compiler, fuzzing
clang-format         | test  | clang-format | layout of the code
lld                  | test  | ld.lld   | links sanitized programs in a fifth of the time
libclang-rt-dev      | test  | -        | fuzzing and sanitizers of clang
libomp-dev           | test  | -        | OpenMP of clang
libopenblas-dev      | test  | -        | yardstick of the benchmarks
libdnnl-dev          | test  | -        | yardstick of the benchmarks
g++-aarch64-linux-gnu | test | aarch64-linux-gnu-g++ | the same bits on 64-bit Arm
qemu-user-static     | test  | qemu-aarch64-static | runs them here
verilator            | test  | verilator | a dot unit in SystemVerilog against our words
iverilog             | test  | iverilog | the same
iproute2             | test  | tc       | slow links between processes
mmdebstrap           | test  | mmdebstrap | a bare Debian 13 to build and test in
chromium-headless-shell | test | chromium | the report in a browser
python3-sphinx       | test  | sphinx-build | the site of all pages
python3-myst-parser  | test  | -        | reads Markdown for it
python3-sphinx-copybutton | test | -     | copies its code by a click
furo                 | test  | -        | its looks
doxygen              | test  | doxygen  | its pages of the C++ and C headers
'

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else echo "setup.sh: needs root or sudo to run: $*" >&2; exit 1
  fi
}

missing=$(echo "$table" | while IFS='|' read -r package group command purpose; do
  package=$(echo $package) group=$(echo $group) command=$(echo $command)
  [ -n "$package" ] || continue
  [ "$wanted" = all ] || [ "$group" = build ] || continue
  [ "$command" = - ] || ! command -v "$command" >/dev/null || continue
  case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) in *'ok installed') continue ;; esac
  echo "$package"
done)

if [ -n "$missing" ]; then
  echo "setup: installing Debian packages:" $missing
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -q
  as_root apt-get install -q -y --no-install-recommends $missing
else
  echo "setup: all Debian packages are here"
fi

# A GPU backend is never needed; what could build one is only named. It is not installed here: see results/gpu/README.md.
gpu=
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
hipcc=$(command -v hipcc || ls /opt/rocm/bin/hipcc 2>/dev/null || true)
[ -z "$nvcc" ] || gpu="$gpu $nvcc (cmake -DFP4_GPU=cuda)"
[ -z "$hipcc" ] || gpu="$gpu $hipcc (cmake -DFP4_GPU=hip)"
echo "setup: GPU compilers:${gpu:- none; the GPU backend stays off}"

if [ -f package.json ]; then
  # npm writes node_modules/.package-lock.json last, so its age tells whether the folder belongs to the lock file.
  less=
  [ "$wanted" = all ] || less=--omit=dev
  if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ] ||
    { [ "$wanted" = all ] && [ ! -d node_modules/playwright-core ]; }; then
    echo "setup: installing npm packages of package-lock.json"
    npm ci --ignore-scripts --no-audit --no-fund $less # a package's scripts are programs, and none is needed
    touch node_modules/.package-lock.json
  else
    echo "setup: all npm packages are here"
  fi
fi
