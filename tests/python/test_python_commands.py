"""Has every function of the package a command whose bytes it equals? A function that is added fails until it has one."""
import contextlib
import inspect
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import PROGRAM, command, f4, files_of, np, numbers, result_of

SPEC = "nvfp4,rounding=stochastic"
PLACE = {"seed": 7, "stream": 3, "step": 2}
WORDS = ["--seed", 7, "--stream", 3, "--step", 2]
SETTINGS = {"set_num_threads", "get_num_threads"}  # of the process
GRID = {"name": "tiny", "task": ["regression"], "seeds": 2, "axes": {"recipe": ["mxfp4", "bf16"]}, "train": {"steps": 4}}


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
        for name in files[0]:  # the manifest says how the bundle was made
            if name == "manifest.json":
                for made in files:
                    made[name] = {k: v for k, v in json.loads(made[name]).items() if k not in ("command", "provenance")}
        one = f4.golden_make(out=f"{self.folder}/one", spec="nvfp4", input=numbers(4, 64))
        self.assertEqual(f4.golden_check(one), [])
        return [[made[name] for name in sorted(made)] for made in files]

    def golden_check(self):
        bundle = self.bundle()
        damaged = next(bundle.rglob("codes.npy"))
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7e")
        told = parsed("golden", "check", bundle, "--json")["differences"]
        self.assertGreater(len(told), 0)
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
        words = ("law", ladder, "--samples", 40, "--held-out", 3e6, "--at", "1e6,2e7", "--json")
        return f4.law(ladder, samples=40, held_out=3e6, at=(1e6, 2e7)), parsed(*words)

    def swept(self):
        """A small sweep."""
        if not hasattr(type(self), "_swept"):
            type(self)._swept = tempfile.TemporaryDirectory()
            self.addClassCleanup(type(self)._swept.cleanup)
            f4.sweep(GRID, out=f"{self._swept.name}/s", progress=False)
        return f"{self._swept.name}/s"

    def sweep(self):
        with open(f"{self.folder}/tiny.json", "w") as file:
            json.dump(GRID, file)
        mine = f4.sweep(GRID, out=f"{self.folder}/mine", progress=False)
        theirs = f4.Sweep(f"{self.folder}/theirs")
        command("sweep", "run", f"{self.folder}/tiny.json", "--out", theirs.folder, "--quiet")
        self.assertEqual(mine.check()["rows"], theirs.check()["rows"])
        self.assertEqual(mine.status()["missing"] if "missing" in mine.status() else 0, 0)
        rows = [sorted((r["config_hash"], r["seed"], r["digest"]) for r in s.table().rows()) for s in (mine, theirs)]
        self.assertEqual(f4.merge([mine, theirs.folder], f"{self.folder}/merged").table().height, len(rows[0]))
        self.assertEqual(repr(mine.table(weights={"sr": 2}).rows()), repr(f4.table(mine, weight={"sr": 2}).rows()))
        with self.assertRaisesRegex(f4.Error, "GRID: .*int64"):
            f4.sweep({**GRID, "seeds": np.int64(1)}, out=mine)
        back = os.getcwd()
        os.chdir(self.folder)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            pathlib.Path("outer.json").write_text(json.dumps(GRID))
            self.assertEqual(f4.sweep("outer.json", dry_run=True).folder, "tiny.sweep")
            tuned = {**GRID, "tune": {"train.lr": {"start": 0.01}}}
            self.assertEqual(f4.sweep(tuned, fixed={"train.lr": 0.01}, dry_run=True).folder, "tiny.fixed.sweep")
        os.chdir(back)
        self.assertIn("to do", said.getvalue())
        return rows

    def table(self):
        told = parsed("table", self.swept(), "--json", "--sort=-loss")
        mine = f4.table(self.swept(), sort="-loss")
        self.assertEqual(list(mine), told["columns"])
        blank = lambda cell: None if isinstance(cell, float) and cell != cell else cell  # noqa: E731
        return [{k: blank(v) for k, v in row.items()} for row in mine.rows()], told["rows"]

    def pareto(self):
        front = f4.Sweep(self.swept()).front(task="regression")
        self.assertTrue(all(p["interval"] in ("simultaneous", "raw") for p in front.points))
        return front, parsed("pareto", self.swept(), "--task", "regression", "--json")

    def effects(self):
        return f4.effects(self.swept(), "recipe"), parsed("effects", self.swept(), "--axis", "recipe", "--json")

    def report(self):
        page = f4.report(self.swept(), f"{self.folder}/page.html")
        command("report", self.swept(), "--out", f"{self.folder}/theirs.html")
        size = [pathlib.Path(p).stat().st_size // 1000 for p in (page, f"{self.folder}/theirs.html")]
        self.assertGreater(size[0], 100)
        return [size[0]], [size[1]]

    def edge(self):
        words = dict(seeds=4, share=0.5, widest=2, threads=1)
        grid = {**GRID, "axes": {"recipe": ["mxfp4"]}}
        with open(f"{self.folder}/e.json", "w") as file:
            json.dump(grid, file)
        mine = f4.edge(f"{self.folder}/e.json", out=f"{self.folder}/mine", quiet=True, **words)
        told = parsed("edge", f"{self.folder}/e.json", "--out", f"{self.folder}/theirs", "--quiet", "--json",
                      *(f"--{k}={v}" for k, v in words.items()))
        return mine, told

    def listing(self):
        return f4.listing("formats", "layouts").rows(), parsed("list", "formats", "layouts", "--json")["rows"]

    def explain(self):
        return f4.explain("rceil"), parsed("help", "rceil", "--json")

    def command(self):
        return f4.command("cost", "weights"), parsed("cost", "weights", "--json")

    def compare(self):
        np.save(f"{self.folder}/w.npy", self.a)
        told = parsed("compare", f"{self.folder}/w.npy", "--specs", "mxfp4", "nvfp4", "--json")["rows"]
        mine = f4.compare({"w": self.a}, ["mxfp4", "nvfp4"])
        self.assertEqual(f4.compare(f"{self.folder}/w.npy", "mxfp4").height, 1)
        names = [k for k in told[0] if k not in ("tensor", "file")]
        return [[row[n] for n in names] for row in mine.rows()], [[row[n] for n in names] for row in told]

    def model(self):
        folder = pathlib.Path(self.folder) / "model"
        folder.mkdir()
        self.save_model(folder, {"a.weight": self.a[:32, :64]})
        return folder

    def save_model(self, folder, tensors, odd=False):
        head, body = {}, b""
        entries = [(name, "F32", x.shape, x.astype(np.float32).tobytes()) for name, x in tensors.items()]
        if odd:  # bytes that no scheme reads
            entries.append(("odd.weight", "U8", (2, 16), bytes(range(32))))
        for name, kind, shape, raw in entries:
            head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
            body += raw
        text = json.dumps(head).encode()
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)

    def inspect(self):
        model = self.model()
        return f4.inspect(model), parsed("inspect", model, "--json")

    def convert_model(self):
        model = self.model()
        mine = f4.convert_model(model, "modelopt_nvfp4", f"{self.folder}/mine", progress=False)
        command("quantize", model, "--scheme", "modelopt_nvfp4", "--out", f"{self.folder}/theirs")
        pairs = [(mine, f"{self.folder}/theirs")]
        head = "model.embed_tokens.weight"
        self.save_model(model, {"l.q_proj.weight": self.a[:32, :64], "l.k_proj.weight": self.a[:16, :64] / 8, head: self.a[:8, :64]})
        cases = {"fuse": ({"fuse": "none"}, ["--fuse", "none"]), "keep": ({"keep": ["*.k_proj.*"]}, ["--keep", "*.k_proj.*"]),
                 "only": ({"keep_only": "none", "activations": "none"}, ["--keep-only", "none", "--activations", "none"]),
                 "tensors": ({"tensors": [head, "*.k_proj.*"]}, ["--tensors", head, "*.k_proj.*"]),
                 "tiles": ({"nibbles": "high_first", "scale_layout": "128x4"}, ["--nibbles", "high_first", "--scale-layout", "128x4"])}
        for name, (options, words) in cases.items():
            made = f4.convert_model(model, "modelopt_nvfp4", f"{self.folder}/{name}", progress=False, **options)
            command("quantize", model, "--scheme", "modelopt_nvfp4", "--out", f"{self.folder}/{name}2", *words)
            pairs.append((made, f"{self.folder}/{name}2"))
        found = [[p.read_bytes() for pair in pairs for p in sorted(pathlib.Path(pair[side]).glob("*.safetensors"))] for side in (0, 1)]
        self.assertEqual(len(set(found[0])), len(pairs))  # every option changes the file
        self.save_model(model, {"a.weight": self.a[:32, :64]}, odd=True)
        with self.assertRaisesRegex(f4.Error, "odd.weight"):
            f4.convert_model(model, "modelopt_nvfp4", f"{self.folder}/left", progress=False)
        f4.convert_model(model, "modelopt_nvfp4", f"{self.folder}/left", progress=False, allow_left=True)
        return found

    def load(self):
        made = f4.convert_model(self.model(), "modelopt_nvfp4", f"{self.folder}/quantised", progress=False)
        command("dequantize", made, "--out", f"{self.folder}/decoded")
        raw = pathlib.Path(self.folder, "decoded", "model.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        begin, end = json.loads(raw[8:8 + size])["a.weight"]["data_offsets"]
        return [f4.load(made)["a.weight"].tobytes()], [raw[8 + size + begin:8 + size + end]]

    def decode_model(self):
        model, pairs = self.model(), []
        orders = {"nibbles": "high_first", "scale_layout": "128x4"}
        for name, options in (("plain", {}), ("tiles", orders)):
            made = f4.convert_model(model, "modelopt_nvfp4", f"{self.folder}/{name}", progress=False, **options)
            pairs.append(f4.decode_model(made, f"{self.folder}/{name}.d", type="bf16", progress=False, **options))
        command("dequantize", f"{self.folder}/plain", "--type", "bf16", "--out", f"{self.folder}/theirs")
        return [[pathlib.Path(folder, "model.safetensors").read_bytes() for folder in which]
                for which in (pairs, [f"{self.folder}/theirs"] * 2)]

    def convert_layout(self):
        q = f4.quantize(self.a, "mxfp4")
        np.save(f"{self.folder}/scales.npy", q.scales)
        size = "x".join(map(str, q.scales.shape))
        f4.convert_layout(f"{self.folder}/scales.npy", f"{self.folder}/mine.npy", scale_layout="linear:128x4", size=size)
        return [np.load(f"{self.folder}/mine.npy").reshape(-1)], [q.to_layout(scales="128x4")["scales"].reshape(-1)]

    def witness(self):
        return f4.witness("k64_rz", "exact", count=2), parsed("witness", "k64_rz", "exact", "--count", 2, "--json")

    def evaluate(self):
        path = f"{self.folder}/checkpoint"
        command("train", "--task", "classifier", "--steps", 4, "--checkpoint", path, "--quiet", "--no-sync")
        made = (f4.evaluate(path, ["bf16", "mxfp4"], progress=False),
                parsed("eval", "--checkpoint", path, "--recipe", "bf16", "--recipe", "mxfp4", "--json"))
        return [[{k: v for k, v in row.items() if k != "seconds"} for row in one["rows"]] for one in made]

    def serve(self):
        command("train", "--task", "classifier", "--recipe", "bf16", "--steps", 60, "--set", "width=32", "--checkpoint",
                f"{self.folder}/a.ck", "--quiet", "--no-sync")
        service = pathlib.Path(self.folder) / "service.json"
        service.write_text(json.dumps({
            "name": "toy", "model": "resnet50", "members": [{"checkpoint": "a.ck", "recipe": r} for r in ("bf16", "mxfp4@fprop")],
            "targets": [{"accuracy": 0.6, "latency_ms": 100}], "trace": {"arrivals": "bursts", "rate": 60, "seconds": 10, "period": 10},
            "instance": {"share": 0.001, "losses_per_hour": 600, "start_up_s": 1, "tick_s": 1}}))
        return f4.serve(service, seeds=1), parsed("serve", service, "--seeds", 1, "--json")

    def stats(self):
        words = ["--at", 2]
        return (f4.stats("regression", "mxfp4", at=2),
                parsed("stats", "--task", "regression", "--recipe", "mxfp4", *words, "--json"))

    def trace_plot(self):
        command("train", "--task", "regression", "--steps", 12, "--trace", f"{self.folder}/t", "--quiet", "--no-sync")
        mine = f4.trace_plot(f"{self.folder}/t", f"{self.folder}/mine.svg")
        command("trace", "plot", f"{self.folder}/t", "--out", f"{self.folder}/theirs.svg")
        return [pathlib.Path(mine).read_bytes()], [pathlib.Path(f"{self.folder}/theirs.svg").read_bytes()]

    def cost(self):
        told = parsed("cost", "--recipe", "nvfp4_te", "--hardware", "b200", "--model", "llama3_8b", "--json")
        several = f4.cost(["nvfp4_te", "mxfp8"], study="compare", hardware="b200")
        self.assertEqual(several["rows"], parsed("cost", "compare", "nvfp4_te", "mxfp8", "--hardware", "b200", "--json")["rows"])
        self.assertEqual(f4.cost("mxfp8", study="explain"), parsed("cost", "explain", "--recipe", "mxfp8", "--json"))
        return f4.cost("nvfp4_te", hardware="b200", model="llama3_8b"), told

    def advise(self):
        words = dict(samples=40)
        return f4.advise(hardware="b200", **words), parsed("advise", "--hardware", "b200", "--samples", 40, "--json")

    def bench(self):
        mine = f4.bench("quantize", elements=65536, rounds=1, threads=1)
        told = parsed("bench", "quantize", "--elements", 65536, "--rounds", 1, "--threads", 1, "--json")
        names = [[(r["bench"], r["backend"], r["size"]) for r in made["rows"]] for made in (mine, told)]
        return names

    def merge(self):
        return self.sweep()

    def show(self):
        names = [("nvfp4", "preset"), ("nvfp4", "recipe"), ("b200", "hardware"), ("k64_rz", "accumulator"), ("lm", "model"),
                 ("quick", "grid")]
        return [f4.show(*n) for n in names], [parsed("show", name, "--kind", kind) for name, kind in names]

    def signature(self):
        return [f4.signature()], [command("signature").split()[-1]]

    def test_every_command_has_a_function_or_a_reason(self):
        commands = re.findall(r"^  (\w+) ", command("--help"), re.M)
        self.assertGreater(len(commands), 25)
        self.assertEqual(set(f4.COMMANDS), set(commands))
        for name, what in f4.COMMANDS.items():
            self.assertTrue(what.startswith("(") or callable(getattr(f4, what, None)), name)

    def test_every_function_equals_its_command(self):
        functions = {name for name in f4.__all__ if inspect.isfunction(getattr(f4, name))} - SETTINGS
        for name in sorted(functions):
            with self.subTest(name), tempfile.TemporaryDirectory() as self.folder:
                mine, theirs = getattr(self, name)()
                for made in (mine, theirs):
                    if isinstance(made, dict):  # where and how it was made differs
                        made.pop("provenance", None)
                        made.pop("seconds", None)
                self.assertEqual(len(mine), len(theirs))
                self.assertGreater(len(mine), 0)
                if isinstance(mine, dict):
                    self.assertEqual(dict(mine), theirs)
                for got, wanted in zip(mine, theirs):
                    if isinstance(got, np.ndarray):
                        self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape))
                        got, wanted = got.tobytes(), wanted.tobytes()
                    self.assertTrue(got == wanted)


if __name__ == "__main__":
    unittest.main()
