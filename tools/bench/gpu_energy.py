#!/usr/bin/env python3
"""Joules that device 0 uses while a program runs, by NVML's energy counter (millijoules since the driver started).

Prints one JSON object: joules, seconds and watts of the run, watts of two idle seconds before it, the largest of the
readings of the power sensor. Exits with the program's code.
  gpu_energy.py NAME PROGRAM [WORD..]
Without NVML or its counter it prints "[test skipped]" and the reason, and runs nothing.
"""
import ctypes
import json
import subprocess
import sys
import time


class Counter:
    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.check(self.nvml.nvmlInit_v2(), "nvmlInit_v2")
        self.check(self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)), "device 0")

    @staticmethod
    def check(code, call):
        if code != 0:
            raise OSError(f"NVML: {call} failed with code {code}")

    def joules(self):
        value = ctypes.c_ulonglong()
        self.check(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(value)), "energy counter")
        return value.value * 1e-3

    def watts(self):
        value = ctypes.c_uint()
        self.check(self.nvml.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(value)), "power sensor")
        return value.value * 1e-3


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        counter = Counter()
        begin, joules = time.monotonic(), counter.joules()
        time.sleep(2)
        idle = (counter.joules() - joules) / (time.monotonic() - begin)
        counter.watts()
    except (OSError, AttributeError) as error:
        print(f"[test skipped] no energy counter: {error}")
        return 0
    largest = 0.0
    begin, joules = time.monotonic(), counter.joules()
    with subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL) as program:
        while program.poll() is None:
            largest = max(largest, counter.watts())
            time.sleep(0.05)
    seconds, used = time.monotonic() - begin, counter.joules() - joules
    print(json.dumps({"energy": sys.argv[1], "command": " ".join(sys.argv[2:]), "exit": program.returncode,
                      "joules": round(used, 1), "seconds": round(seconds, 2), "watts": round(used / seconds, 1),
                      "idle_watts": round(idle, 1), "largest_watts": round(largest, 1)}))
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


sys.exit(main())
