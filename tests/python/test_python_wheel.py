"""Does `pip install .` give package and command to a clean environment, without a network and without a build?"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import command, f4

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = """
import fp4sim as f4
assert "site-packages" in f4.__file__, f4.__file__
print(f4.__version__, f4.signature(), f4.quantize([[0.3, -1.2, 5, 7]]).dequantize().tolist())
"""


class Wheel(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run_in(self, where, *words, **more):
        done = subprocess.run(words, capture_output=True, text=True, cwd=where, env={**self.environment, **more})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_clean_environment(self):
        self.run_in(self.folder, sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", "clean")
        python = f"{self.folder}/clean/bin/python3"
        self.run_in(ROOT, python, "-m", "pip", "install", "--no-index", "--no-cache-dir", ".", PIP_CONFIG_FILE=os.devnull)
        told = self.run_in(self.folder, python, "-c", CHECK)
        self.assertEqual(told.strip(), f"{f4.__version__} {f4.signature()} [[0.5, -1.0, 4.0, 6.0]]")
        self.assertEqual(self.run_in(self.folder, f"{self.folder}/clean/bin/fp4sim", "--version"), command("--version"))
        self.assertIn("numpy", self.run_in(self.folder, python, "-m", "pip", "show", "fp4sim"))
        self.run_in(self.folder, python, "-m", "pip", "uninstall", "-y", "fp4sim")
        self.assertFalse(os.path.exists(f"{self.folder}/clean/bin/fp4sim"))

    def test_equal_builds_give_equal_wheels(self):
        wheels = [self.run_in(ROOT, "tools/wheel.sh", f"{self.folder}/{n}", PYTHON=sys.executable).strip() for n in "ab"]
        first, second = (pathlib.Path(path).read_bytes() for path in wheels)
        self.assertEqual(first, second)
        with zipfile.ZipFile(wheels[0]) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
        for name in ("fp4sim/__init__.py", "fp4sim/__init__.pyi", "fp4sim/torch.py", "fp4sim/py.typed"):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
