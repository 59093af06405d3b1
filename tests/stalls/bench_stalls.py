#!/usr/bin/env python3
"""Causes every stall of `fp4sim cost stalls --measure` on purpose, in steps of 10 %, and says what was found again.

    tests/stalls/bench_stalls.py --fp4sim build/fp4sim --out runs.csv               # a round of a minute and a half; adds to runs.csv
    tests/stalls/bench_stalls.py --out runs.csv --table results/stalls/caused.csv   # medians over all rounds in it

interconnect, network: two ranks in two network namespaces, joined by a link of a chosen rate (slow_link.sh); a step sends a
known number of bytes, so it takes bytes / rate longer. preparation, fetch: every read of an example takes some microseconds
longer, or every read behind a dropped page cache (slow_steps.c, preloaded); the files lie in memory, where a disk adds
nothing. The work of a step is mostly a wait of known length. A round goes over all shares in an order of its own: for each,
one run over the slow link (interconnect), and one run with slow reads, slower cold reads and a slow second machine at once, of
a and 1 - a: differences have to tell them apart.
The first and last runs of a round cause nothing: their median over all rounds is what a delay is added to. found = what
`cost stalls` says; caused = what its formula gives for the run's smaller time with that median and the delay added.

Needs root (the ranks run before other programs, SCHED_FIFO), iproute2, mpirun, cc and two cores.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("--fp4sim", default="build/fp4sim")
parser.add_argument("--out", required=True, type=pathlib.Path, help="the step times of every run; appended to")
parser.add_argument("--table", type=pathlib.Path, help="measure nothing: write there what --out says")
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--shares", default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
options = parser.parse_args()
# The stalls: the longer and the shorter run, and whether the share is of the shorter one, a slow-down.
stalls = {"interconnect": ("T1", "T0", False), "preparation": ("T3", "T1", False), "fetch": ("T2", "T3", False), "network": ("Tm", "T1", True)}
columns = ["over", "share", *(f"{stall}_s" for stall in stalls), "T0", "T1", "T2", "T3", "Tm"]


def summarise():
    with open(options.out, encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    number = lambda run, name: float(run[name] or "nan")
    rows = []
    for stall, (more, less, slow_down) in stalls.items():
        over = "link" if stall == "interconnect" else "both"
        free = statistics.median(number(run, more) - number(run, less) for run in runs if run["over"] == over and run["share"] == "0")
        pairs = {}
        for run in runs:
            if run["over"] != over or run["share"] == "0":
                continue
            share = float(run["share"])
            lower, upper = number(run, less), number(run, more)
            added = free + number(run, f"{stall}_s")
            pairs.setdefault(round(1 - share if stall == "fetch" else share, 3), []).append(
                (100 * added / (lower if slow_down else lower + added), 100 * (upper - lower) / (lower if slow_down else upper)))
        for share, values in sorted(pairs.items()):
            errors = [found - caused for caused, found in values]
            rows.append([stall, f"{100 * share:g}", len(values), f"{statistics.median(c for c, _ in values):.1f}", f"{statistics.median(f for _, f in values):.1f}",
                         f"{statistics.median(errors):+.1f}", f"{max(errors, key=abs):+.1f}"])
    with open(options.table, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["stall", "added_percent", "rounds", "caused_percent", "found_percent", "error_points", "largest_error_of_a_round"])
        table.writerows(rows)
    for row in rows:
        print(*row)
    print(f"{sum(abs(float(row[5])) < 3 for row in rows)} of {len(rows)} within 3 points, largest error {max(abs(float(row[5])) for row in rows)}")


if options.table:
    summarise()
    sys.exit(0)

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
shares = [float(s) for s in options.shares.split(",")]
fp4sim = os.path.abspath(options.fp4sim)
# 90 thousand weights and 512 examples a rank: two messages of .18 MB after a few ms of products and a known wait, which
# makes a step's time the same whatever the machine does beside.
batch, width, depth, pixels, wait_us = 1024, 192, 3, 256, 20000
# Bytes that cross the link for each byte of a payload: full segments of 1448 bytes with their Ethernet, IP and TCP headers
# (1514), and for every second one of the other side an acknowledgement (66). Counted on the link: 1.069.
framing = (1514 + 66 / 2) / 1448
burst = 5 * 1024  # as in slow_link.sh

folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
work = pathlib.Path(folder.name)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", work / "slow_steps.so", here / "slow_steps.c", "-ldl"], check=True)
count = 8192
(work / "images").write_bytes(struct.pack(">iiii", 0x803, count, 16, 16) + bytes((i * 31 + i // 256 * 7) % 251 for i in range(count * pixels)))
(work / "labels").write_bytes(struct.pack(">ii", 0x801, count) + bytes(i % 10 for i in range(count)))
words = ["--task", "classifier", "--recipe", "fp32", "--set", f"train.batch={batch}", "--set",
         f"width={width}", "--set", f"depth={depth}"]
files = ["--images", str(work / "images"), "--labels", str(work / "labels")]
reads = batch // 2  # of one rank in one step


def first():
    """Before other programs, as far as the system allows: what they take would be found as a stall."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except PermissionError:
        pass


def measure(rate, more, steps, with_files, microseconds=(0, 0)):
    """The step times of one round of difference runs, by name."""
    environment = {**os.environ, "SLOW_STEP_US": str(wait_us), "SLOW_READ_US": str(microseconds[0]), "SLOW_COLD_US": str(microseconds[1])}
    command = [str(here / "slow_link.sh"), rate, "sh", "-c", f'export LD_PRELOAD={work}/slow_steps.so; exec "$0" cost stalls --measure --busy --json --repeats 1 "$@" ' + more, fp4sim,
               *words, "--steps", str(steps), *(files if with_files else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=first,
                          start_new_session=True) as process:
        try:
            out, errors = process.communicate()
        except BaseException:  # interrupted: the ranks end, and slow_link.sh removes its namespaces
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode == 77:
        sys.exit("[test skipped] " + out)
    if process.returncode != 0:
        sys.exit(out + errors)
    return {run["run"]: run["step_seconds"] for run in json.loads(out)["runs"]}


mpirun = "mpirun --allow-run-as-root -n 2"
over_link = '--launch "$TWO_MACHINES"'
over_both = f'--launch-nodes "$TWO_MACHINES" --launch "{mpirun}"'


def sent(more):
    """Bytes that a rank sends in one step, in two messages."""
    command = [*mpirun.split(), fp4sim, "train", "--json", "--quiet", "--gradients", "fp32", *words, "--steps", "2", *more]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["parallel"]["bytes_sent"] / 2


def rate_for(sent_bytes, delay):
    """The rate, in bit/s, at which the two messages of a step take `delay` seconds, after the bursts that pass at once."""
    return f"{(sent_bytes * framing - 2 * burst) / delay * 8:.0f}bit"


sent_made_up, sent_files = sent([]), sent(files)
new = not options.out.exists()
with open(options.out, "a", encoding="utf-8", newline="") as file:
    table = csv.DictWriter(file, columns, lineterminator="\n")
    if new:
        table.writeheader()

    def note(over, share, run, **delays):
        table.writerow({"over": over, "share": f"{share:g}", **delays, **run})
        file.flush()
        print(over, f"{share:g}", *(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in run.items()), flush=True)

    for _ in range(options.rounds):
        for _ in range(2):
            note("link", 0, link := measure("free", over_link, 20, False))
        note("both", 0, both := measure("free", over_both, 20, True))
        for share in random.sample(shares, len(shares)):
            delay = link["T1"] * share / (1 - share)
            steps = max(8, int(24 * (1 - share)))
            note("link", share, measure(rate_for(sent_made_up, delay), over_link, steps, False), interconnect_s=delay)
            prepare = both["T1"] * share / (1 - share)
            fetch = (both["T3"] + prepare) * (1 - share) / share
            network = both["T1"] * share
            run = measure(rate_for(sent_files, network), over_both, 8, True, (prepare / reads * 1e6, fetch / reads * 1e6))
            note("both", share, run, preparation_s=prepare, fetch_s=fetch, network_s=network)
        note("link", 0, measure("free", over_link, 20, False))
        note("both", 0, measure("free", over_both, 20, True))
