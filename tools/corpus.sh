#!/bin/sh
# Makes a corpus of real text for the task lm out of packages that Debian ships:
#   tools/corpus.sh [DIR]        default: build/corpus
# DIR/english and DIR/code each get train.txt and validation.txt, which `--text DIR/english` reads as they are split.
# Packages are kept in DIR/packages; nothing is installed. Packages of the same versions give the same bytes: what was
# read and what was made is printed with its SHA-256 (tools/scripts/corpus.py says how the text is made).
set -eu
. "$(dirname "$0")/scripts/asked.sh"
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/corpus}
packages='dict-gcide wordnet-base debian-handbook linux-doc-6.1 python3.11-doc git-doc postgresql-doc-15 perl-doc
  r-doc-html linux-source-6.1'

mkdir -p "$out/packages" "$out/files"
out=$(cd "$out" && pwd)
cd "$out/packages"
for package in $packages; do
  ls "${package}"_*.deb >/dev/null 2>&1 || apt-get -q -q -o APT::Sandbox::User=root download "$package" || {
    echo "corpus: the package $package cannot be downloaded; this corpus needs Debian 12's package lists" >&2; exit 1; }
done
printf '%-20s %-24s %s\n' package version SHA-256
for package in $packages; do
  deb=$(ls "${package}"_*.deb | tail -1)
  printf '%-20s %-24s %s\n' "$package" "$(dpkg-deb -f "$deb" Version)" "$(sha256sum "$deb" | cut -d' ' -f1)"
  [ -d "$out/files/$package" ] || {
    rm -rf "$out/files/part"
    dpkg-deb -x "$deb" "$out/files/part"
    mv "$out/files/part" "$out/files/$package"
  }
done
python3 "$here/scripts/corpus.py" "$out/files" "$out"
