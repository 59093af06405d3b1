#!/bin/sh
# Runs a grid on a Slurm cluster: an array of shards, then one job that collects them and, while runs are missing (tasks
# that were lost, or a later stage that needs all results of the one before), submits the next round.
#   tools/slurm/submit.sh GRID OUT SHARDS [sbatch options, such as --partition=cpu --time=4:00:00]
# OUT must be a folder that all nodes see. Every ATTEMPT of a shard writes a folder of its own under OUT/attempts, so a
# task that was thought dead cannot share a store with its successor; OUT/merged holds one row per run.
# Environment: FP4SIM (the program, default fp4sim), ROUNDS (default 4), JOBS (runs at a time per task, default the cores
# that Slurm gives).
set -eu
[ $# -ge 3 ] || { echo "usage: submit.sh GRID OUT SHARDS [sbatch options]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
grid=$1 out=$2 shards=$3
shift 3
case $shards in '' | *[!0-9]* | 0) echo "submit.sh: SHARDS is a number from 1, not '$shards'" >&2; exit 2 ;; esac
mkdir -p "$out/attempts" "$out/logs"
out=$(cd "$out" && pwd)
# A grid file may change while the jobs wait: they all use the copy made at the first submission.
if [ -f "$grid" ] && [ "$grid" != "$out/grid.json" ]; then cp "$grid" "$out/grid.json"; fi
[ -f "$out/grid.json" ] && grid=$out/grid.json
export FP4SIM="${FP4SIM:-fp4sim}" FP4SIM_GRID="$grid" FP4SIM_OUT="$out" FP4SIM_SHARDS="$shards" FP4SIM_SLURM="$here"
export FP4SIM_SBATCH="$*" ROUNDS="${ROUNDS:-4}"
array=$(sbatch --parsable --requeue --open-mode=append --export=ALL --array="1-$shards" --job-name=fp4sim-sweep \
  --output="$out/logs/%A_%a.log" "$@" "$here/shard.sh")
collect=$(sbatch --parsable --requeue --open-mode=append --export=ALL --dependency="afterany:${array%%;*}" \
  --job-name=fp4sim-collect --output="$out/logs/%j.log" "$@" "$here/collect.sh")
echo "array ${array%%;*}, then collect ${collect%%;*}; results in $out/merged"
