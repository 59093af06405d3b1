#!/usr/bin/env python3
"""Causes every stall of `fp4sim cost stalls --measure` on purpose, in steps of 10 %, and writes what was found again.

    tools/bench/bench_stalls.py --fp4sim build/fp4sim --out results/stalls/stalls.csv

interconnect, network: two ranks in two network namespaces, joined by a link of a chosen rate (slow_link.sh); a step sends
a known number of bytes, so the delay of a step is bytes / rate. preparation, fetch: every read of an example takes some
microseconds longer, or every read behind a dropped page cache (slow_reads.c, preloaded). A round without any cause
gives the times that delays are added to: expected = what the formula gives with them. Needs root, iproute2,
mpirun, cc, two idle cores and a quarter of an hour: beside other programs errors are tens of points.
"""
import argparse
import csv
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--fp4sim", default="build/fp4sim")
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--repeats", type=int, default=1)
parser.add_argument("--shares", default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
options = parser.parse_args()
shares = [float(s) for s in options.shares.split(",")]
fp4sim = os.path.abspath(options.fp4sim)
batch, width, depth, pixels = 1024, 512, 3, 256
# Bytes that cross the link per payload byte: Ethernet, IP and TCP headers of full segments (1514 of 1448 bytes).
framing = 1514 / 1448
burst = 15 * 1024

folder = tempfile.TemporaryDirectory()
work = pathlib.Path(folder.name)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", work / "slow_reads.so", here / "slow_reads.c", "-ldl"], check=True)
count = 8192
(work / "images").write_bytes(struct.pack(">iiii", 0x803, count, 16, 16) +
                              bytes((i * 31 + i // 256 * 7) % 251 for i in range(count * pixels)))
(work / "labels").write_bytes(struct.pack(">ii", 0x801, count) + bytes(i % 10 for i in range(count)))
words = ["--task", "classifier", "--recipe", "fp32", "--steps", str(options.steps), "--images", str(work / "images"),
         "--labels", str(work / "labels"), "--set", f"train.batch={batch}", "--set", f"width={width}", "--set",
         f"depth={depth}"]
reads = batch // 2  # of one rank in one step


def measure(rate, more, environment=None):
    """The step times of one round, by run."""
    command = [str(here / "slow_link.sh"), rate, "sh", "-c",
               f'exec "$0" cost stalls --measure --busy --json --repeats {options.repeats} "$@" ' + more, fp4sim, *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode == 77:
        sys.exit("[test skipped] " + done.stdout)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return {run["run"]: run["step_seconds"] for run in json.loads(done.stdout)["runs"]}


link = '--launch "$TWO_MACHINES"'
local = '--launch "mpirun --allow-run-as-root -n 2"'
nodes = '--launch-nodes "$TWO_MACHINES" ' + local
preload = {"LD_PRELOAD": str(work / "slow_reads.so")}

# What a rank sends in one of the two messages of a step.
result = subprocess.run(["mpirun", "--allow-run-as-root", "-n", "2", fp4sim, "train", "--json", "--quiet", "--gradients",
                         "fp32", *words], capture_output=True, text=True, check=True)
message = json.loads(result.stdout)["parallel"]["bytes_sent"] / options.steps / 2


def rate_for(delay):
    """The rate, in bit/s, at which the two messages of a step take `delay` seconds."""
    return (2 * message * framing - burst) / delay * 8  # the first burst of a step passes at once


rows = []


def note(kind, share, expected, found):
    rows.append([kind, f"{share:g}", f"{100 * expected:.1f}", f"{100 * found:.1f}", f"{100 * (found - expected):.1f}"])
    print(*rows[-1], flush=True)


for share in shares:
    free = measure("free", link)
    base = free["T1"] - free["T0"]
    delay = free["T1"] * share / (1 - share)
    run = measure(f"{rate_for(delay):.0f}bit", link)
    expected = (base + delay) / (run["T0"] + base + delay)
    note("interconnect", share, expected, (run["T1"] - run["T0"]) / run["T1"])
    delay = free["T1"] * share
    run = measure(f"{rate_for(delay):.0f}bit", nodes)
    free = measure("free", nodes)
    note("network", share, (free["Tm"] - free["T1"] + delay) / free["T1"], (run["Tm"] - run["T1"]) / run["T1"])
    free = measure("free", local, preload)
    delay = free["T3"] * share / (1 - share)
    run = measure("free", local, {**preload, "SLOW_READ_US": str(delay / reads * 1e6)})
    base = free["T3"] - free["T1"]
    note("preparation", share, (base + delay) / (run["T1"] + base + delay), (run["T3"] - run["T1"]) / run["T3"])
    delay = free["T2"] * share / (1 - share)
    run = measure("free", local, {**preload, "SLOW_COLD_US": str(delay / reads * 1e6)})
    base = free["T2"] - free["T3"]
    note("fetch", share, (base + delay) / (run["T3"] + base + delay), (run["T2"] - run["T3"]) / run["T2"])

rows.sort(key=lambda row: row[0])
with open(options.out, "w", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["stall", "caused", "expected_percent", "found_percent", "error_points"])
    table.writerows(rows)
print("largest error", max(abs(float(row[4])) for row in rows), "points")
