#!/bin/sh
# Makes the files of a release and tries each in a bare Debian 12 and 13. As root, on Debian 12 (the wheels run from its glibc on):
#   tools/release.sh OUT                 wheel, wheel with device code where nvcc is, .deb for each Debian, Containerfile,
#                                        report of the sweep `quick`, site, SBOM (SPDX), Zenodo metadata, SHA256SUMS
#   SUITES=bookworm tools/release.sh OUT    one Debian alone
#   SWEEP=DIR tools/release.sh OUT       the report of a sweep that is there
#   TRY=1 tools/release.sh OUT           only tries what lies in OUT
set -eu
accepted="a folder"
. "$(dirname "$0")/scripts/asked.sh"
[ $# = 1 ] || { echo "usage: tools/release.sh OUT" >&2; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
suites=${SUITES:-bookworm trixie}
systems=${FP4SIM_SYSTEMS:-${XDG_CACHE_HOME:-$HOME/.cache}/fp4sim}
version=$(sed -n 's/^project(fp4sim VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

make() {
  tools/setup.sh >/dev/null
  cmake --preset release -DFP4_TESTS=OFF >/dev/null
  cmake --build --preset release --target fp4_installed fp4_python
  FP4SIM_BUILD=build tools/wheel.sh "$out"
  PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc >/dev/null && FP4SIM_CUDA=1 tools/wheel.sh "$out"
  for suite in $suites; do # a .deb names the libraries of its Debian
    INSTEAD="export FP4_COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')"'
      cd /fp4sim && tools/setup.sh build && cmake --preset release -DFP4_TESTS=OFF -DCMAKE_CXX_COMPILER_LAUNCHER=ccache &&
      cmake --build --preset release --target fp4_installed && cpack --config build/CPackConfig.cmake -B /deb' \
      tools/scripts/portability.sh "$suite" "$systems"
    mv "$systems/$suite"/deb/fp4sim_*.deb "$out/fp4sim_$version-1~${suite}_$(dpkg --print-architecture).deb"
  done
  [ -n "${SWEEP:-}" ] || build/fp4sim sweep run quick --out "${SWEEP:=build/quick.sweep}"
  build/fp4sim report "$SWEEP" --out "$out/fp4sim-$version-report.html" --force
  tools/docs.sh "$out/fp4sim-$version-site"
  tar -C "$out" -czf "$out/fp4sim-$version-site.tar.gz" "fp4sim-$version-site" && rm -r "$out/fp4sim-$version-site"
  cp tools/Containerfile "$out"
  /usr/bin/python3 tools/scripts/release_facts.py build/fp4sim "$out"
  (cd "$out" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
}

# In a folder of SUITE that holds nothing but apt and what the files themselves ask for.
try() {
  tar -C "$out" -cf "$out/.all.tar" .
  PACKAGES='python3-venv python3-numpy' COPY=$out/.all.tar INSTEAD='
    rm -rf /try && mkdir /try && cd /try && tar -xf /fp4sim/.all.tar && sha256sum -c --quiet SHA256SUMS
    apt-get update -q >/dev/null; apt-get install -q -y --no-install-recommends ./fp4sim_*~'"$1"'_*.deb >/dev/null
    fp4sim version && fp4sim cost compare bf16 mxfp4 >/dev/null && test -s /usr/share/man/man1/fp4sim.1 -o -s /usr/share/man/man1/fp4sim.1.gz
    apt-get remove -q -y fp4sim >/dev/null; [ ! -e /usr/bin/fp4sim ]
    for wheel in *.whl; do # no network: --no-index; then with the numpy of the system
      python3 -m venv --clear bare && bare/bin/pip install -q --no-index "$wheel"
      bare/bin/fp4sim --version && bare/bin/python3 -c "import fp4sim; print(fp4sim.train(\"regression\", \"mxfp4\", steps=2).digest)"
      python3 -m venv --clear --system-site-packages bare && bare/bin/pip install -q --no-index "$wheel"
      bare/bin/python3 -c "import numpy, fp4sim; assert fp4sim.quantize(numpy.float32([[7]])).dequantize()[0, 0] == 6"
    done
    tar -xzf *-site.tar.gz && test -s *-site/index.html && grep -q "</html>" *-report.html
    python3 -m json.tool fp4sim-*.spdx.json >/dev/null && python3 -m json.tool zenodo.json >/dev/null
    echo "release.sh: all files run in a bare $(. /etc/os-release; echo "$PRETTY_NAME")"' \
    tools/scripts/portability.sh "$1" "$systems/bare"
  rm "$out/.all.tar"
}

[ -n "${TRY:-}" ] || make
for suite in $suites; do try "$suite"; done
ls -l "$out"
