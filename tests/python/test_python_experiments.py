"""Do verdicts, bundles, runs and tables of the package equal those of the command line?"""
import json
import os
import subprocess
import tempfile
import unittest

from support import command, f4, np


class Experiments(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def test_bundles_and_verdicts(self):
        golden = f"{self.folder}/golden"
        f4.golden_make("smoke", golden)
        self.assertEqual(f4.golden_check(golden), [])
        self.assertTrue(json.loads(command("golden", "check", golden, "--json"))["equal"])
        case = next(name for name in os.listdir(golden) if name.startswith("mxfp4.boundary"))
        x = np.load(f"{golden}/{case}/input.npy")
        for spec, equal in (("mxfp4", True), ("mxfp4,scale_rule=rceil", False)):
            q = f4.quantize(x, spec)
            arrays = {"codes": q.codes, "scales": q.scales, "dequantized": q.dequantize()}
            verdict = f4.verify(golden, arrays, case=case)
            path = f"{self.folder}/candidate.npz"
            np.savez(path, **arrays)
            words = ("verify", "--golden", golden, "--candidate", path, "--case", case)
            told = subprocess.run([os.environ["FP4SIM"], *words, "--json"], capture_output=True, text=True).stdout
            shown = subprocess.run([os.environ["FP4SIM"], *words], capture_output=True, text=True).stdout
            self.assertEqual(dict(verdict), json.loads(told))
            self.assertEqual(str(verdict), shown.rstrip("\n"))
            self.assertEqual((bool(verdict), verdict.equal), (equal, equal))
            self.assertEqual(verdict.explanation, "" if equal else "scale_rule=rceil")
            self.assertEqual(verdict.coverage["cases"], 1)
        # One byte of the bundle turned is found and named.
        with open(f"{golden}/{case}/codes.npy", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        self.assertTrue(any("codes.npy" in file for file, _ in f4.golden_check(golden)))
        with self.assertRaisesRegex(f4.Error, "damaged") as caught:
            f4.verify(golden, arrays, case=case)
        self.assertEqual(caught.exception.exit_code, 1)
        with self.assertRaisesRegex(f4.Error, "unknown word 'smok'; did you mean 'smoke'"):
            f4.golden_make("smok", f"{self.folder}/other")

    def test_what_is_said_to_a_verdict(self):
        golden = f"{self.folder}/said"
        f4.golden_make("smoke", golden)
        case = "mxfp4.boundary.8x64"
        marlin = f4.quantize(np.load(f"{golden}/{case}/input.npy"), "mxfp4").to_layout(scales="linear", nibbles="marlin_uint32")
        dump = {"codes": marlin["codes"]}
        self.assertEqual(f4.verify(golden, dump, case=case)["orders"], ["nibble_order=marlin_uint32"])
        said = f4.verify(golden, dump, case=case, nibbles="marlin_uint32")
        np.save(f"{self.folder}/codes.npy", marlin["codes"])
        told = command("verify", "--golden", golden, "--candidate", f"{self.folder}/codes.npy", "--case", case, "--stage", "codes",
                       "--nibbles", "marlin_uint32", "--json")
        self.assertEqual((said.equal, said["orders"], said["compared"]), (True, [], json.loads(told)["compared"]))
        self.assertFalse(f4.verify(golden, dump, case=case, nibbles="aiter_16x16"))
        self.assertFalse(f4.verify(golden, {"scales": marlin["scales"]}, case=case, scale_layout="8x4"))
        # the bits that a kernel drew: those of another seed, and the bundle's own
        drawn = next(name for name in os.listdir(golden) if name.startswith("mxfp4.rounding-stochastic"))
        x, words = np.load(f"{golden}/{drawn}/input.npy"), np.random.default_rng(5).integers(0, 256, 4 * 64, dtype=np.uint8)
        np.save(f"{self.folder}/words.npy", words)
        np.save(f"{self.folder}/x.npy", x)
        command("quantize", f"{self.folder}/x.npy", "--spec", "mxfp4,rounding=stochastic", "--random-words", f"{self.folder}/words.npy",
                "--out", f"{self.folder}/drawn")
        codes = {"codes": np.load(f"{self.folder}/drawn/codes.npy")}
        self.assertFalse(f4.verify(golden, codes, case=drawn))
        for given in (words, f"{self.folder}/words.npy"):
            self.assertTrue(f4.verify(golden, codes, case=drawn, random_words=given))
        # an epilogue: said, and found
        product = next(name for name in sorted(os.listdir(golden)) if name.startswith("gemm") and "nvfp4" in name)
        p = np.load(f"{golden}/{product}/output_fp32_block.npy")
        old, bias = np.float32(0.1) * np.arange(p.size, dtype=np.float32).reshape(p.shape), np.arange(p.shape[1], dtype=np.float32)
        out = {"output_fp32_block": (np.float32(0.3) * p + np.float32(2) * old) + bias}
        self.assertTrue(f4.verify(golden, out, case=product, alpha=0.3, beta=2, c=old, bias=bias))
        self.assertFalse(f4.verify(golden, out, case=product, alpha=0.3, beta=2, c=old, bias=bias, output_type="bf16"))
        found = f4.verify(golden, {"output_fp32_block": np.float32(0.3) * p}, case=product)
        self.assertEqual((found.equal, "epilogue=alpha" in found.explanation), (False, True))
        for wrong, message in ((dict(tolerance="reciprocal_ulp=9"), "1 to 8"), (dict(nibbles="marlin"), "did you mean"),
                               (dict(beta=1.0), "--beta needs --c"), (dict(output_type="f8"), "unknown word 'f8'"),
                               (dict(seconds=float("inf")), "--seconds: inf is no finite number")):
            with self.assertRaisesRegex(f4.Error, message):
                f4.verify(golden, dump, case=case, **wrong)

    def test_a_run_has_the_digest_of_the_command_line(self):
        told = json.loads(command("train", "--task", "classifier", "--recipe", "nvfp4_te", "--seed", 3, "--steps", 6,
                                  "--set", "lr=1/512", "--json", "--quiet"))
        seen = []
        run = f4.train("classifier", "nvfp4_te", seed=3, steps=6, set={"lr": 1 / 512},
                       progress=lambda step, steps, loss: seen.append((step, steps)))
        for name in ("digest", "metrics", "curve", "config", "config_hash", "products", "status"):
            self.assertEqual(run[name], told[name], name)
        self.assertEqual((run.digest, run.loss), (told["digest"], told["metrics"]["loss"]))
        self.assertEqual(seen[-1], (6, 6))

        def stop(step, steps, loss):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            f4.train("classifier", "mxfp4", steps=2, progress=stop)
        with self.assertRaisesRegex(f4.Error, "did you mean 'classifier'"):
            f4.train("clasifier")
        with self.assertRaisesRegex(f4.Error, "--set lrr=1: "):
            f4.train("classifier", set={"lrr": 1})

    def test_a_table_has_the_columns_of_the_command_line(self):
        grid = {"name": "tiny", "task": ["regression"], "seeds": 2, "axes": {"recipe": ["mxfp4", "bf16"]},
                "train": {"steps": 4}}
        with open(f"{self.folder}/tiny.json", "w") as file:
            json.dump(grid, file)
        told = command("sweep", "run", f"{self.folder}/tiny.json", "--out", f"{self.folder}/tiny.sweep", "--quiet")
        self.assertTrue(os.path.exists(f"{self.folder}/tiny.sweep/sweep.sqlite"), told)
        rows = json.loads(command("table", f"{self.folder}/tiny.sweep", "--json"))["rows"]
        table = f4.Sweep(f"{self.folder}/tiny.sweep").table()
        self.assertEqual(list(table), list(rows[0]))
        for name, column in table.items():
            for value, row in zip(column, rows):
                missing = row[name] is None and isinstance(value, float) and np.isnan(value)
                self.assertTrue(missing or value == row[name], (name, value, row[name]))
        only = f4.Sweep(f"{self.folder}/tiny.sweep").table(where="seed=1", sort=["-loss"])
        self.assertEqual(set(only["seed"].tolist()), {1})
        self.assertEqual(only["loss"].tolist(), sorted(only["loss"].tolist(), reverse=True))
        with self.assertRaisesRegex(f4.Error, "unknown word"):
            f4.Sweep(f"{self.folder}/tiny.sweep").table(where="sed=1")


if __name__ == "__main__":
    unittest.main()
