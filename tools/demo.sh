#!/bin/sh
# From a fresh clone to a Pareto front of FP4 training techniques with its report, in one command:
#   tools/demo.sh [DIR]      installs what is missing, builds, runs the `quick` sweep; results go to DIR (default: demo)
# A second run continues where the first stopped: builds and trainings that exist are not done again.
set -eu
. "$(dirname "$0")/scripts/asked.sh"
cd "$(dirname "$0")/.."
out=${1:-demo}
began=$(date +%s)
tools/setup.sh build
# As the tests are built, with -Og but for the arithmetic and in large units: a fifth less of processor time.
cmake --preset ci --no-warn-unused-cli -DFP4_TESTS=OFF -DFP4_WERROR=OFF -DCMAKE_CXX_FLAGS="${CXXFLAGS:-} --param=ggc-min-heapsize=524288" >/dev/null
cmake --build --preset release --target fp4sim fp4_python
export PATH="$PWD/build:$PATH" PYTHONPATH="$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$out"

say() { printf '\n$ %s\n' "$*"; "$@"; }

# A tensor of real bytes: the licence text that every Debian machine carries.
head -c 32768 /usr/share/common-licenses/GPL-3 >"$out/text.bin"
say fp4sim quantize "$out/text.bin" --dtype u8 --shape 256x128 --spec nvfp4 --out "$out/text.nvfp4" --force
# A byte model trained on all of them.
say fp4sim train --task lm --recipe mxfp4 --steps 60 --text /usr/share/common-licenses --out "$out/lm.json" --force
say fp4sim sweep run quick --out "$out/quick.sweep"
say fp4sim table "$out/quick.sweep" --csv "$out/table.csv" --json "$out/table.json" --limit 10 --force
say fp4sim pareto "$out/quick.sweep" --json "$out/pareto.json" --force
say python3 -c "import fp4sim; print('fp4sim', fp4sim.__version__, 'in', *fp4sim.__path__)"
# The answer stands last.
report=$(fp4sim report "$out/quick.sweep" --out "$out/report.html" --force)
printf '\n%s: table.csv, table.json, pareto.json, report.html (open it in a browser); %d s in all\nfor this shell: export PATH=%s:$PATH PYTHONPATH=%s\n' \
  "$out" $(($(date +%s) - began)) "$PWD/build" "$PWD/build/python"
printf '\n$ fp4sim report %s --out %s --force\n%s\n' "$out/quick.sweep" "$out/report.html" "$report"
