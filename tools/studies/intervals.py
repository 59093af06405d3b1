"""Means with t intervals, as `fp4sim effects --values` computes them: the one place that knows Student's quantiles."""
import json
import os
import pathlib
import subprocess
import tempfile

FP4SIM = os.environ.get("FP4SIM", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "fp4sim"))


def intervals(lists, family=0):
    """{name: [values]} to {name: (mean, low, high)}; `family` intervals (0: all of them) hold together at 95 %."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        for name, values in lists.items():
            file.write(f'"{name}",{",".join(repr(float(value)) for value in values)}\n')
        file.flush()
        command = [FP4SIM, "effects", file.name, "--values", *(["--family", str(family)] if family else [])]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["name"]: (row["mean"], row["low"], row["high"]) for row in rows}
