#!/bin/sh
# Merges all attempts, compares the list of runs with what is there, and submits another round while something is
# missing (see submit.sh). Tasks that were killed are found here, not by their exit codes. The merged store grows by one
# writer at a time; a second collector waits its turn by failing and being submitted again.
set -eu
"$FP4SIM" sweep merge "$FP4SIM_OUT"/attempts/shard-* --out "$FP4SIM_OUT/merged" || echo "collect: some attempts could not be read"
if "$FP4SIM" sweep status "$FP4SIM_OUT/merged" --complete; then
  echo "collect: complete"
  exit 0
fi
if [ "$ROUNDS" -le 1 ]; then
  echo "collect: runs are missing and no round is left; submit.sh again continues"
  exit 1
fi
ROUNDS=$((ROUNDS - 1))
export ROUNDS
# shellcheck disable=SC2086  # the options were given as words
exec "$FP4SIM_SLURM/submit.sh" "$FP4SIM_GRID" "$FP4SIM_OUT" "$FP4SIM_SHARDS" $FP4SIM_SBATCH
