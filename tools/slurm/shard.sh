#!/bin/sh
# One attempt at one shard (see submit.sh). Runs that earlier attempts at this shard committed, and those of earlier
# rounds, are not done again; an attempt that is still alive is only read, never written to.
set -eu
restart=${SLURM_RESTART_COUNT:-0}
attempt=$FP4SIM_OUT/attempts/shard-$SLURM_ARRAY_TASK_ID.job-$SLURM_ARRAY_JOB_ID.restart-$restart
set --
for folder in "$FP4SIM_OUT/attempts/shard-$SLURM_ARRAY_TASK_ID".job-* "$FP4SIM_OUT/merged"; do
  [ "$folder" != "$attempt" ] && [ -f "$folder/sweep.sqlite" ] && set -- "$@" --seen "$folder"
done
echo "attempt $attempt on $(hostname)"
# exec: signals of Slurm reach the program itself, which stops between two commits.
exec "$FP4SIM" sweep run "$FP4SIM_GRID" --out "$attempt" --shard "$SLURM_ARRAY_TASK_ID/$FP4SIM_SHARDS" \
  --jobs "${JOBS:-${SLURM_CPUS_ON_NODE:-1}}" "$@"
