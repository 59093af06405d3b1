# Sourced by scripts of tools/ that take a folder or a name: --help prints the caller's header, and other words that begin
# with '-' are refused. `accepted` says what it takes, a folder where it is not set.
case ${1:-} in
  -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "$(basename "$0"): unknown word '$1'; accepted: --help, ${accepted:-a folder}" >&2; exit 2 ;;
esac
