#!/bin/sh
# Stalls of a training on a Slurm cluster: where the time of a step goes on one node and over several.
#   sbatch --nodes=2 --ntasks-per-node=1 --exclusive tools/slurm/submit_stalls.sh RANKS --task lm --text FILE [train words]
# RANKS processes train on the first node (T0 to T3) and, spread over all nodes of the job, once more (Tm). FILE must be
# on a disk that all nodes see. Environment: FP4SIM (the program, default fp4sim), GRADIENTS (default fp32).
# Writes stalls-JOB.json beside the log.
set -eu
[ $# -ge 3 ] || { echo "usage: sbatch .. submit_stalls.sh RANKS --task T [train words]" >&2; exit 2; }
ranks=$1
shift
case $ranks in '' | *[!0-9]* | 0 | 1) echo "submit_stalls.sh: RANKS is a number from 2, not '$ranks'" >&2; exit 2 ;; esac
nodes=${SLURM_JOB_NUM_NODES:?submit_stalls.sh: runs inside a Slurm job}
[ $((ranks % nodes)) = 0 ] || { echo "submit_stalls.sh: $ranks ranks cannot be spread evenly over $nodes nodes" >&2; exit 2; }
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Open MPI starts its daemons through Slurm by itself; the map says where ranks go.
one="mpirun --host $first:$ranks -n $ranks"
set -- --ranks "$ranks" --gradients "${GRADIENTS:-fp32}" --launch "$one" "$@"
if [ "$nodes" -gt 1 ]; then
  set -- --launch-nodes "mpirun --map-by ppr:$((ranks / nodes)):node --oversubscribe -n $ranks" "$@"
fi
exec "${FP4SIM:-fp4sim}" cost stalls --measure --json "$@" > "stalls-$SLURM_JOB_ID.json"
