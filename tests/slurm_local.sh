#!/bin/bash
# A two-node Slurm on localhost (no munge, loopback only) runs a sweep while it is mistreated: a task is killed with -9,
# one requeued while it runs, one goes on beside its successor, a node is dropped. Exit 0 when the merged table equals
# the one of an undisturbed local sweep; 77 when Slurm is not installed or may not be started here.
#   tests/slurm_local.sh DIR FP4SIM
set -u
dir=$1 program=$2
here=$(cd "$(dirname "$0")/.." && pwd)
for tool in slurmctld slurmd sbatch scontrol squeue; do
  command -v $tool >/dev/null || { echo "Slurm is not installed ($tool)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "the test cluster needs root"; exit 77; }

host=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir -p "$dir"/{state,log,spool/n1,spool/n2}
cat >"$dir/slurm.conf" <<CONF
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=$port
SlurmctldPidFile=$dir/state/slurmctld.pid
SlurmdPidFile=$dir/state/slurmd.%n.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=3600
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobRequeue=1
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=1 RealMemory=2000 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=1 RealMemory=2000 State=UNKNOWN
PartitionName=sweep Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
export SLURM_CONF=$dir/slurm.conf

# Polls until a command succeeds: wait_for SECONDS WHAT COMMAND...
wait_for() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { echo "gave up waiting: $what"; tail -n 5 "$dir"/log/*.log "$dir"/out/logs/* 2>/dev/null; exit 1; }
    sleep 0.1
  done
}
end_cluster() {
  scontrol shutdown >/dev/null 2>&1
  for file in "$dir"/state/*.pid; do [ -f "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null; done
}
trap end_cluster EXIT

slurmctld -c || { echo "slurmctld does not start here"; exit 77; }
wait_for 20 "the controller" sh -c "scontrol ping | grep -q UP"
slurmd -N n1 && slurmd -N n2 || { echo "slurmd does not start here"; exit 77; }
wait_for 20 "two idle nodes" sh -c "[ \$(sinfo -h -N -t idle | wc -l) = 2 ]"

cat >"$dir/grid.json" <<'GRID'
{"name": "on_slurm", "task": "regression", "base": "mxfp4", "seeds": 6, "race": {"seeds": 10}, "train": {"steps": 200},
 "axes": {"wgrad.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"],
          "dgrad.*.rounding": ["nearest_even", "stochastic"]}}
GRID
export FP4SIM=$program JOBS=1
out=$dir/out
submitted=$("$here/tools/slurm/submit.sh" "$dir/grid.json" "$out" 4) || exit 1
echo "$submitted"
job=$(echo "$submitted" | sed 's/array \([0-9]*\).*/\1/')

writer_of() { sed -n 's/process \([0-9]*\) on.*/\1/p' "$out"/attempts/shard-"$1".job-*.restart-"$2"/sweep.lock 2>/dev/null; }
has_runs() { [ -s "$(echo "$out"/attempts/shard-"$1".job-*.restart-"$2")/sweep.sqlite-wal" ]; }

wait_for 60 "shard 1 at work" has_runs 1 0
kill -9 "$(writer_of 1 0)" && echo "killed shard 1 with -9"
wait_for 60 "shard 2 at work" has_runs 2 0
scontrol requeue "${job}_2" && echo "requeued shard 2 while it ran"
wait_for 60 "shard 3 at work" has_runs 3 0
# The successor of a task that is thought dead: the same shard, another restart count, at the same time.
(SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_JOB_ID=$job SLURM_RESTART_COUNT=9 FP4SIM_GRID=$out/grid.json FP4SIM_OUT=$out \
  FP4SIM_SHARDS=4 "$here/tools/slurm/shard.sh" >"$dir/log/successor.log" 2>&1) &
successor=$!
kill -9 "$(cat "$dir/state/slurmd.n2.pid")" && echo "dropped node n2"
wait $successor || echo "the successor of shard 3 ended with $?"

wait_for 240 "all runs" "$program" sweep status "$out/merged" --complete
wait_for 60 "the collectors" sh -c "[ -z \"\$(squeue -h -n fp4sim-collect -t R)\" ]"
echo "attempts:"; ls "$out/attempts"

"$program" sweep run "$dir/grid.json" --out "$dir/local" --jobs 2 --quiet || exit 1
for which in out/merged local; do
  "$program" table "$dir/$which" --references --csv "$dir/$(basename $which).csv" || exit 1
  # `seconds` is the only column that may differ.
  column=$(head -1 "$dir/$(basename $which).csv" | tr ',' '\n' | grep -n '^seconds$' | cut -d: -f1)
  cut -d, -f"$column" --complement "$dir/$(basename $which).csv" >"$dir/$(basename $which).compared"
done
cmp "$dir/merged.compared" "$dir/local.compared" || { echo "the merged table differs from the local one"; exit 1; }
echo "$(($(wc -l <"$dir/merged.csv") - 1)) runs, each exactly once"
