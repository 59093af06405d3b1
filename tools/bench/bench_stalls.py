#!/usr/bin/env python3
"""Causes every stall of `fp4sim cost stalls --measure` on purpose, in steps of 10 %, and says what was found again.

    tools/bench/bench_stalls.py --fp4sim build/fp4sim --rounds 2 --out rounds.csv      # as often as wanted: it adds rounds
    tools/bench/bench_stalls.py --out rounds.csv --table results/stalls/caused.csv     # medians over all rounds

interconnect, network: two ranks in two network namespaces, joined by a link of a chosen rate (slow_link.sh); a step sends a
known number of bytes, so it takes bytes / rate longer. preparation, fetch: every read of an example takes some microseconds
longer, or every read behind a dropped page cache (slow_reads.c, preloaded); the files lie in memory, where a disk adds
nothing. A round goes over all shares in an order of its own: for each, one run over the slow link (interconnect), and one
run with slow reads, slower cold reads and a slow second machine at once, of a and 1 - a: differences have to tell them apart.
The first and last runs of a round cause nothing: what they find is what causes are added to. caused = what the formula
gives with the delay, found = what `cost stalls` says.

Needs root (the ranks run before other programs, SCHED_FIFO), iproute2, mpirun, cc and two cores; a round takes two minutes.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("--fp4sim", default="build/fp4sim")
parser.add_argument("--out", required=True, type=pathlib.Path, help="rounds, one row for each stall and share; appended to")
parser.add_argument("--table", type=pathlib.Path, help="measure nothing: write the medians of --out there")
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--shares", default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
options = parser.parse_args()
head = ["stall", "share", "caused_percent", "found_percent"]


def summarise():
    found = {}
    with open(options.out, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["stall"], float(row["share"])), []).append((float(row["caused_percent"]), float(row["found_percent"])))
    worst = 0
    with open(options.table, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["stall", "share_percent", "rounds", "caused_percent", "found_percent", "error_points", "largest_error_of_a_round"])
        for (stall, share), pairs in sorted(found.items()):
            errors = [f - c for c, f in pairs]
            error = statistics.median(errors)
            worst = max(worst, abs(error))
            table.writerow([stall, f"{100 * share:g}", len(pairs), f"{statistics.median(c for c, _ in pairs):.1f}",
                            f"{statistics.median(f for _, f in pairs):.1f}", f"{error:+.1f}", f"{max(errors, key=abs):+.1f}"])
    print(f"largest error of a median {worst:.1f} points")


if options.table:
    summarise()
    sys.exit(0)

shares = [float(s) for s in options.shares.split(",")]
fp4sim = os.path.abspath(options.fp4sim)
# 90 thousand weights and 6144 examples a rank: two messages of .18 MB after 30 ms of products.
batch, width, depth, pixels = 12288, 192, 3, 256
# Bytes that cross the link for each byte of a payload: Ethernet, IP and TCP headers of full segments (1514 of 1448).
framing = 1514 / 1448
burst = 5 * 1024  # as in slow_link.sh

folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
work = pathlib.Path(folder.name)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", work / "slow_reads.so", here / "slow_reads.c", "-ldl"], check=True)
count = 8192
(work / "images").write_bytes(struct.pack(">iiii", 0x803, count, 16, 16) + bytes((i * 31 + i // 256 * 7) % 251 for i in range(count * pixels)))
(work / "labels").write_bytes(struct.pack(">ii", 0x801, count) + bytes(i % 10 for i in range(count)))
words = ["--task", "classifier", "--recipe", "fp32", "--steps", str(options.steps), "--set", f"train.batch={batch}", "--set",
         f"width={width}", "--set", f"depth={depth}"]
files = ["--images", str(work / "images"), "--labels", str(work / "labels")]
reads = batch // 2  # of one rank in one step


def first():
    """Before other programs, as far as the system allows: what they take would be found as a stall."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except PermissionError:
        pass


def measure(rate, more, with_files, microseconds=(0, 0)):
    """The step times of one round of difference runs, by name."""
    environment = {**os.environ}
    if with_files:
        environment |= {"LD_PRELOAD": str(work / "slow_reads.so"), "SLOW_READ_US": str(microseconds[0]), "SLOW_COLD_US": str(microseconds[1])}
    command = [str(here / "slow_link.sh"), rate, "sh", "-c", 'exec "$0" cost stalls --measure --busy --json --repeats 1 "$@" ' + more, fp4sim,
               *words, *(files if with_files else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, preexec_fn=first)
    if done.returncode == 77:
        sys.exit("[test skipped] " + done.stdout)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return {run["run"]: run["step_seconds"] for run in json.loads(done.stdout)["runs"]}


mpirun = "mpirun --allow-run-as-root -n 2"
over_link = '--launch "$TWO_MACHINES"'
over_both = f'--launch-nodes "$TWO_MACHINES" --launch "{mpirun}"'
result = subprocess.run([*mpirun.split(), fp4sim, "train", "--json", "--quiet", "--gradients", "fp32", *words], capture_output=True, text=True, check=True)
sent = json.loads(result.stdout)["parallel"]["bytes_sent"] / options.steps  # by a rank in one step, in two messages


def rate_for(delay):
    """The rate, in bit/s, at which the two messages of a step take `delay` seconds, after the burst that passes at once."""
    return f"{(sent * framing - 2 * burst) / delay * 8:.0f}bit"


def note(table, stall, share, caused, found):
    row = [stall, f"{share:g}", f"{100 * caused:.2f}", f"{100 * found:.2f}"]
    table.writerow(row)
    print(*row, f"{100 * (found - caused):+.2f}", flush=True)


def free_runs():
    return measure("free", over_link, False), measure("free", over_both, True)


new = not options.out.exists()
with open(options.out, "a", encoding="utf-8", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    if new:
        table.writerow(head)
    for _ in range(options.rounds):
        link, both = free_runs()
        found = []
        for share in random.sample(shares, len(shares)):
            other = 1 - share
            delay = link["T1"] * share / (1 - share)
            run = measure(rate_for(delay), over_link, False)
            found.append(("interconnect", share, delay, run))
            prepare = both["T1"] * share / (1 - share)
            fetch = (both["T3"] + prepare) * other / (1 - other)
            network = both["T1"] * share
            run = measure(rate_for(network), over_both, True, (prepare / reads * 1e6, fetch / reads * 1e6))
            found += [("preparation", share, prepare, run), ("fetch", other, fetch, run), ("network", share, network, run)]
        again = free_runs()
        base = {"interconnect": lambda a, b: a["T1"] - a["T0"], "network": lambda a, b: b["Tm"] - b["T1"],
                "preparation": lambda a, b: b["T3"] - b["T1"], "fetch": lambda a, b: b["T2"] - b["T3"]}
        less = {"interconnect": "T0", "network": "T1", "preparation": "T1", "fetch": "T3"}
        more = {"interconnect": "T1", "network": "Tm", "preparation": "T3", "fetch": "T2"}
        for stall, share, delay, run in found:
            added = (base[stall](link, both) + base[stall](*again)) / 2 + delay
            lower, upper = run[less[stall]], run[more[stall]]
            slower = stall == "network"  # a slow-down, as a share of the smaller time
            note(table, stall, share, added / (lower if slower else lower + added), (upper - lower) / (lower if slower else upper))
        file.flush()
