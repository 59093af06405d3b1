"""Does the program give the same numbers, and no SIGILL, on a processor without AVX-512, and on one without AVX2?

qemu's user mode stands in for them: every preset quantises, decodes and is measured there and here.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from support import PROGRAM, np, numbers

QEMU = shutil.which("qemu-x86_64-static")
if QEMU is None or os.uname().machine != "x86_64":
    print("[test skipped] no qemu-x86_64-static, or not an x86-64")
    raise SystemExit(0)


class Processors(unittest.TestCase):
    def test_every_preset_has_its_numbers_on_older_processors(self):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", numbers(8, 256))
            rows = json.loads(subprocess.run([PROGRAM, "list", "presets", "--json"], capture_output=True, check=True).stdout)["rows"]
            told = [PROGRAM, "compare", f"{folder}/x.npy", "--json", "--threads", "1", "--specs", *(r["name"] for r in rows)]
            here = subprocess.run(told, capture_output=True, check=True).stdout
            self.assertGreater(len(json.loads(here)["rows"]), 60)
            for processor in ("Haswell", "SandyBridge"):  # AVX2 and FMA; neither
                there = subprocess.run([QEMU, "-cpu", processor, *told], capture_output=True)
                self.assertEqual((there.returncode, there.stdout), (0, here), (processor, there.stderr[-200:]))


if __name__ == "__main__":
    unittest.main()
