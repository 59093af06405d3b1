#!/bin/sh
# Two machines on this one: two network namespaces joined by a link of a chosen rate, for ranks that send gradients.
#   tests/stalls/slow_link.sh RATE COMMAND..      RATE as tc takes it (100mbit), or free
# runs COMMAND with TWO_MACHINES in its environment: words that start one rank in each namespace (`mpirun ..`, its daemons
# enter the second namespace through mpirun's launch agent). Needs root, iproute2 and mpirun; exit code 77 and one line
# where they are missing. Everything is removed at the end.
set -eu
[ $# -ge 2 ] || { echo "usage: slow_link.sh RATE COMMAND.." >&2; exit 2; }
rate=$1
shift
absent() { echo "slow_link.sh: $*"; exit 77; }
for tool in ip tc mpirun; do command -v "$tool" > /dev/null || absent "no $tool on this machine"; done
a=fp4a$$ b=fp4b$$ folder=$(mktemp -d)
clean() { ip netns del "$a" 2> /dev/null || true; ip netns del "$b" 2> /dev/null || true; rm -rf "$folder"; }
trap clean EXIT
trap 'exit 129' HUP INT TERM
ip netns add "$a" 2> /dev/null && ip netns add "$b" 2> /dev/null || absent "network namespaces are not allowed here"
ip link add "$a" netns "$a" type veth peer name "$b" netns "$b" 2> /dev/null || absent "virtual links are not allowed here"
number=1
for side in "$a" "$b"; do
  ip -n "$side" address add 10.99.77.$number/24 dev "$side"
  ip -n "$side" link set lo up
  ip -n "$side" link set "$side" up
  if [ "$rate" != free ]; then
    # 5 kB pass at once, so that a message of 100 kB and more waits for the rate.
    ip netns exec "$side" tc qdisc add dev "$side" root tbf rate "$rate" burst 5kb latency 10s 2> /dev/null ||
      absent "tc cannot slow a link here"
  fi
  number=2
done
# mpirun calls it as: agent HOST COMMAND..
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$b" > "$folder/agent"
chmod +x "$folder/agent"
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
TWO_MACHINES="ip netns exec $a mpirun $root --mca plm_rsh_agent $folder/agent --mca btl self,tcp"
TWO_MACHINES="$TWO_MACHINES --mca btl_tcp_if_include 10.99.77.0/24 --mca oob_tcp_if_include 10.99.77.0/24"
# A message goes as it is, without asking first: a question waits behind what the other side sends. Each daemon thinks
# that it has a machine of its own and would bind its rank to the first core.
TWO_MACHINES="$TWO_MACHINES --mca btl_tcp_eager_limit 8388608 --mca btl_tcp_max_send_size 8388608 --bind-to none"
export TWO_MACHINES="$TWO_MACHINES --mca mpi_yield_when_idle 1 --host 10.99.77.1,10.99.77.2 -n 2"
"$@"
