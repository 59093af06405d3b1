"""Does one wheel give package and command to any CPython, without a network, and hold all that a system may lack?"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import command, f4, np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))
import backend  # noqa: E402

CHECK = """
import sys, fp4sim as f4
print(f4.__version__, f4.signature(), f4.train("regression", "mxfp4", steps=2).digest, f4.cost("bf16", hardware="b200")["step_time_s"], f4.__file__)
"""
ARRAYS = """
import numpy as np, fp4sim as f4
print(f4.quantize(np.float32([[0.3, -1.2, 5, 7]])).dequantize().tolist())
"""
VERSIONS = range(9, 15)


def interpreters():
    """{(3, n): a CPython of that version}, from PATH and from pyenv."""
    found = {}
    for path in [*(f"/usr/bin/python3.{n}" for n in VERSIONS), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")),
                 sys.executable]:
        if os.path.exists(path):
            told = subprocess.run([path, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
            if told.returncode == 0:
                found.setdefault(eval(told.stdout), path)
    return {version: path for version, path in found.items() if version >= (3, 9)}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        cls.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        cls.wheel = cls.run_in(ROOT, "tools/wheel.sh", f"{cls.folder}/dist", PYTHON=sys.executable).strip()

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def run_in(cls, where, *words, **more):
        done = subprocess.run(words, capture_output=True, text=True, cwd=where, env={**cls.environment, **more})
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_pip_installs_the_sources_into_a_clean_environment(self):
        self.run_in(self.folder, sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", "clean")
        python = f"{self.folder}/clean/bin/python3"
        self.run_in(ROOT, python, "-m", "pip", "install", "--no-index", "--no-cache-dir", ".", PIP_CONFIG_FILE=os.devnull)
        told = self.run_in(self.folder, python, "-c", CHECK + ARRAYS)
        self.assertIn(f"{f4.__version__} {f4.signature()} ", told)
        self.assertIn("site-packages", told)
        self.assertIn("[[0.5, -1.0, 4.0, 6.0]]", told)
        self.assertEqual(self.run_in(self.folder, f"{self.folder}/clean/bin/fp4sim", "--version"), command("--version"))
        self.assertRegex(self.run_in(self.folder, python, "-m", "pip", "show", "fp4sim"), r"(?m)^Requires: *$")  # numpy is an extra
        hidden = f"import sys; sys.modules['numpy'] = None\n{CHECK}\ntry:\n  f4.quantize([[1.0]])\nexcept ImportError as told:\n  print(told)"
        self.assertIn("fp4sim[numpy]", self.run_in(self.folder, python, "-c", hidden))
        self.run_in(self.folder, python, "-m", "pip", "uninstall", "-y", "fp4sim")
        self.assertFalse(os.path.exists(f"{self.folder}/clean/bin/fp4sim"))

    def test_the_same_wheel_runs_under_every_python_of_this_machine(self):
        numbers = str(pathlib.Path(np.__file__).parents[1])
        seen, want = [], None
        for version, python in sorted(interpreters().items()):
            bare = f"{self.folder}/bare.{version[1]}"
            os.makedirs(bare)
            with zipfile.ZipFile(self.wheel) as archive:
                archive.extractall(bare)
            os.chmod(f"{bare}/fp4sim/bin/fp4sim", 0o755)
            told = self.run_in(bare, python, "-c", CHECK, PYTHONPATH=bare).split()
            self.assertTrue(told[-1].startswith(bare), told)
            want = want or told[:-1]
            self.assertEqual(told[:-1], want, version)
            if version == sys.version_info[:2]:  # numpy of this version is here: with arrays, too
                self.assertIn("[[0.5, -1.0, 4.0, 6.0]]", self.run_in(bare, python, "-c", ARRAYS, PYTHONPATH=f"{bare}:{numbers}"))
            seen.append(version)
        self.assertIn(sys.version_info[:2], seen)
        if len(seen) == 1:
            self.skipTest("no other Python here")

    def test_equal_builds_give_equal_wheels_of_which_nothing_is_missing(self):
        again = self.run_in(ROOT, "tools/wheel.sh", f"{self.folder}/again", PYTHON=sys.executable).strip()
        self.assertEqual(pathlib.Path(self.wheel).read_bytes(), pathlib.Path(again).read_bytes())
        self.assertRegex(self.wheel, r"fp4sim-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        where = pathlib.Path(self.folder) / "whole"
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertIsNone(archive.testzip())
            archive.extractall(where)
        for name in ("__init__.py", "__init__.pyi", "torch.py", "py.typed", "_fp4sim.so", "bin/fp4sim"):
            self.assertTrue((where / "fp4sim" / name).exists(), name)
        binaries = [where / "fp4sim" / name for name in backend.BINARIES] + list((where / "fp4sim/lib").iterdir())
        carried = {path.name for path in binaries}
        for path in binaries:
            self.assertLessEqual(set(backend.needed(path)), carried, path)
        self.assert_notices(next(where.glob("*.dist-info/THIRD_PARTY_NOTICES.txt")).read_text("utf-8"), carried)
        (where / "fp4sim/bin/fp4sim").chmod(0o755)
        for path in binaries[:2]:  # found beside, not in the system
            for name, place in re.findall(r"(\S+) => (\S+) \(0x", self.run_in(where, "ldd", str(path))):
                self.assertEqual(os.path.realpath(place).startswith(str(where)), name in carried, (path, name))
        asked = max(backend.glibc([path]) for path in binaries)
        self.assertIn("manylinux_{}_{}_".format(*asked), self.wheel)

    def assert_notices(self, notices, carried):
        """Each part of others has its licence there: what the program holds, and the libraries beside it."""
        parts = dict(zip(*[iter(re.split(r"^======== (.*) ========$", notices, flags=re.M)[1:])] * 2))
        wanted = {"libcli11-dev/copyright": "Redistribution and use", "nlohmann-json3-dev/copyright": "Permission is hereby granted",
                  "libeigen3-dev/copyright": "Mozilla Public License"}
        if (ROOT / "node_modules/echarts").exists():
            wanted.update({"echarts/NOTICE": "The Apache Software Foundation", "echarts/LICENSE": "Apache License",
                           "echarts/licenses/LICENSE-d3": "Redistribution and use", "zrender/LICENSE": "BSD 3-Clause License",
                           "tslib/LICENSE.txt": "Permission to use", "tslib/CopyrightNotice.txt": "Microsoft Corporation"})
        for name, words in wanted.items():
            self.assertIn(words, parts[name], name)
        told = {name.split()[0].removeprefix("lib/"): text for name, text in parts.items() if name.startswith("lib/")}
        libraries = {name for name in carried if ".so." in name}
        self.assertEqual(set(told), libraries)
        for start, words in {"libfmt": "Permission is hereby granted", "libtbb": "Apache-2.0", "libsqlite3": "public-domain",
                             "libgomp": "GCC RUNTIME LIBRARY EXCEPTION"}.items():
            for name in libraries:
                if name.startswith(start):
                    self.assertIn(words, told[name], name)


if __name__ == "__main__":
    unittest.main()
