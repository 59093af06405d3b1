"""Has every function of the package a command whose bytes it equals? A function that is added fails until it has one."""
import inspect
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PROGRAM, command, f4, files_of, np, numbers, result_of

SPEC = "nvfp4,rounding=stochastic"
PLACE = {"seed": 7, "stream": 3, "step": 2}
WORDS = ["--seed", 7, "--stream", 3, "--step", 2]
SETTINGS = {"set_num_threads", "get_num_threads"}  # of the process


def parsed(*words):
    return json.loads(subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True).stdout)


class Commands(unittest.TestCase):
    def setUp(self):
        self.a, self.b = numbers(33, 70, seed=1), numbers(20, 70, seed=2)

    def quantize(self):
        q, want = f4.quantize(self.a, SPEC, **PLACE), files_of(self.a, "--spec", SPEC, *WORDS)
        return [getattr(q, name) for name in ("codes", "scales", "tensor_scale")], [
            want[name] for name in ("codes", "scales", "tensor_scale")]

    def from_arrays(self):
        made = files_of(self.a, "--spec", SPEC, *WORDS)
        q = f4.from_arrays(made["codes"], made["scales"], made["tensor_scale"], spec=SPEC, shape=(33, 70))
        return [q.dequantize()], [made["dequantized"]]

    def dequantize(self):
        np.save(f"{self.folder}/a.npy", self.a)
        command("quantize", f"{self.folder}/a.npy", "--spec", SPEC, "--out", f"{self.folder}/q", "--no-sync")
        command("dequantize", f"{self.folder}/q", "--out", f"{self.folder}/back.npy", "--no-sync")
        arrays = [np.load(f"{self.folder}/q/{name}.npy") for name in ("codes", "scales", "tensor_scale")]
        return [f4.dequantize(*arrays, spec=SPEC, shape=(33, 70))], [np.load(f"{self.folder}/back.npy")]

    def gemm(self):
        words = ["--spec", SPEC, "--accumulator", "fused25_rz", *WORDS]
        return [f4.gemm(self.a, self.b, SPEC, accumulator="fused25_rz", **PLACE)], [
            result_of("gemm", [self.a, self.b], *words)]

    def hadamard(self):
        return [f4.hadamard(self.a, 32, signs="per_layer", **PLACE)], [
            result_of("hadamard", [self.a], "--size", 32, "--signs", "per_layer", *WORDS)]

    def random(self):
        return [f4.random(4, 77, first=5, **PLACE)], [
            result_of("random", [], "--bits", 4, "--count", 77, "--first", 5, *WORDS)]

    def bundle(self):
        path = pathlib.Path(self.folder) / "bundle"
        command("golden", "make", "--suite", "smoke", "--out", path, "--no-sync")
        return path

    def golden_make(self):
        mine, theirs = pathlib.Path(self.folder) / "mine", self.bundle()
        f4.golden_make("smoke", mine)
        files = [{str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()} for root in (mine, theirs)]
        self.assertGreater(len(files[0]), 100)
        self.assertEqual(sorted(files[0]), sorted(files[1]))
        return [[made[name] for name in sorted(made)] for made in files]

    def golden_check(self):
        bundle = self.bundle()
        damaged = next(bundle.rglob("codes.npy"))
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7e")
        told = parsed("golden", "check", bundle, "--json")["differences"]
        return f4.golden_check(bundle), [(d["file"], d["what"]) for d in told]

    def verify(self):
        bundle, case = self.bundle(), "mxfp4.boundary.8x64"
        words = ["--golden", bundle, "--candidate", bundle / case, "--case", case, "--json"]
        return dict(f4.verify(bundle, bundle / case, case=case)), parsed("verify", *words)

    def train(self):
        told = parsed("train", "--task", "regression", "--recipe", "mxfp8", "--seed", 4, "--steps", 3, "--json", "--quiet")
        run = f4.train("regression", "mxfp8", seed=4, steps=3)
        return [[r[name] for name in ("digest", "metrics", "curve", "config", "products")] for r in (run, told)]

    def law(self):
        ladder = f"{self.folder}/ladder.csv"
        with open(ladder, "w") as file:
            subprocess.run([sys.executable, "tests/support/planted_ladder.py"], stdout=file, check=True)
        told = parsed("law", ladder, "--samples", 40, "--held-out", 3e6, "--at", "1e6,2e7", "--json")
        del told["provenance"]
        return f4.law(ladder, samples=40, held_out=3e6, at=(1e6, 2e7)), told

    def show(self):
        names = [("nvfp4", "preset"), ("nvfp4", "recipe"), ("b200", "hardware"), ("k64_rz", "accumulator"), ("lm", "model"),
                 ("quick", "grid")]
        return [f4.show(*n) for n in names], [parsed("show", name, "--kind", kind) for name, kind in names]

    def signature(self):
        return [f4.signature()], [command("signature").split()[-1]]

    def test_every_function_equals_its_command(self):
        functions = {name for name in f4.__all__ if not inspect.isclass(getattr(f4, name))} - SETTINGS
        for name in sorted(functions):
            with self.subTest(name), tempfile.TemporaryDirectory() as self.folder:
                mine, theirs = getattr(self, name)()
                self.assertEqual(len(mine), len(theirs))
                self.assertGreater(len(mine), 0)
                if isinstance(mine, dict):
                    self.assertEqual(mine, theirs)
                for got, wanted in zip(mine, theirs):
                    if isinstance(got, np.ndarray):
                        self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape))
                        got, wanted = got.tobytes(), wanted.tobytes()
                    self.assertTrue(got == wanted)


if __name__ == "__main__":
    unittest.main()
