"""Does every function of the package give the bytes of the command line, for every kind of array?"""
import gc
import json
import os
import sys
import tempfile
import threading
import unittest
import weakref

from support import command, f4, files_of, np, numbers, result_of, same, torch

SPECS = [
    ("mxfp4", {}),
    ("nvfp4", {"rounding": "stochastic", "scale_rounding": "stochastic"}),
    ("mxfp4", {"block": [32, 32], "rounding": "stochastic", "random_bits": 4}),
    ("nvfp4", {"tensor_scale": "outer128"}),
    ("mxfp4", {"scale": "fp32", "block": "row"}),
    ("mxfp6_e2m3", {"block": "tensor"}),
    ("bf16", {}),
    ("fp32", {}),
    ("te_nvfp4", {}),
]
PLACE = {"seed": 7, "stream": 3, "step": 2}


class Quantising(unittest.TestCase):
    def check(self, x, spec, words, **keywords):
        made = f4.quantize(x, spec, **keywords)
        want = files_of(np.asarray(x), "--spec", words, "--seed", 7, "--stream", 3, "--step", 2)
        for name in ("codes", "tensor_scale"):
            self.assertTrue(same(getattr(made, name), want[name]), (words, name))
        self.assertTrue(same(made.dequantize(), want["dequantized"]), words)
        self.assertEqual(made.scales is None, "scales" not in want)
        if made.scales is not None:
            self.assertTrue(same(made.scales, want["scales"]), words)
        return made

    def test_equals_the_files_of_the_command_line(self):
        x = numbers(70, 90)
        for preset, fields in SPECS:
            words = ",".join([preset] + [f"{k}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in fields.items()])
            made = self.check(x, preset, words, **PLACE, **fields)
            again = f4.from_arrays(made.codes, made.scales, made.tensor_scale, spec=made.spec, shape=x.shape)
            self.assertTrue(same(again.dequantize(), made.dequantize()))
            self.assertEqual(f4.Spec(words), made.spec)

    def test_the_spec_quantises_again_alike_and_another_one_decodes(self):
        x = numbers(40, 96, seed=5)
        x[2] *= 1e-6
        presets = [row["name"] for row in f4.listing("presets").rows()]
        self.assertGreater(len(presets), 60)
        for preset in presets:
            made = f4.quantize(x, preset, **PLACE)
            again = f4.quantize(x, made.spec, **PLACE)
            self.assertEqual((f4.Spec(preset), again.spec), (made.spec, made.spec), preset)
            self.assertTrue(same(again.codes, made.codes) and same(again.scales, made.scales), preset)
            read = f4.from_arrays(made.codes, made.scales, made.tensor_scale, spec=made.decoding, shape=x.shape)
            self.assertTrue(same(read.dequantize(), made.dequantize()), preset)

    def test_codes_with_bits_beyond_their_format_are_refused(self):
        made = f4.quantize(numbers(4, 32), "mxfp6")
        codes = made.codes.copy()
        codes[2, 5] |= 0x40
        with self.assertRaisesRegex(ValueError, "row 2, column 5 holds"):
            f4.from_arrays(codes, made.scales, made.tensor_scale, spec=made.spec, shape=(4, 32))

    def test_statistics_are_those_of_the_command_line(self):
        x = numbers(64, 64, seed=3)
        x[3, 5], x[9, 9] = np.inf, np.nan
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", x)
            told = json.loads(command("quantize", f"{folder}/x.npy", "--spec", "mxfp4", "--out", f"{folder}/o", "--json"))
        got = f4.quantize(x, "mxfp4").statistics()
        self.assertEqual(got, {name: told[name] for name in got})
        self.assertGreater(got["nonfinite"], 0)

    def test_any_shape_and_any_strides(self):
        x = numbers(48, 64)
        deep = numbers(3, 4, 5, 64)
        for view in (x.T, x[::2], x[:, ::2], x[::-1], x[:, ::-1], x[3:4], np.asfortranarray(x), deep, deep[:, :, 1:4],
                     deep.transpose(1, 0, 2, 3), numbers(40), np.float32(3), np.zeros((0, 32), np.float32),
                     np.broadcast_to(x[0], (5, 64)), np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32)):
            for spec in ("mxfp4", "nvfp4,rounding=stochastic"):
                made, plain = (f4.quantize(y, spec, **PLACE) for y in (view, np.array(view, np.float32, order="C")))
                for name in ("codes", "scales", "tensor_scale"):
                    self.assertTrue(same(getattr(made, name), getattr(plain, name)), (view.shape, view.strides, name))
                self.assertTrue(same(made.dequantize(), plain.dequantize()))
        for other in (deep, numbers(40), np.float32(3), np.zeros((0, 32), np.float32)):
            self.check(other, "nvfp4", "nvfp4", **PLACE)
        turned = f4.quantize(x, "nvfp4,rounding=stochastic", transpose=True, seed=5)
        want = files_of(x, "--spec", "nvfp4,rounding=stochastic", "--transpose", "--seed", 5)
        self.assertTrue(same(turned.codes, want["codes"]) and same(turned.dequantize(), want["dequantized"]))

    def test_other_types_are_widened_or_rounded(self):
        x = numbers(16, 32)
        for kind in (np.float16, np.float64, ">f4"):
            with np.errstate(all="ignore"):
                self.check(x.astype(kind), "mxfp4", "mxfp4", **PLACE)

    def test_results_keep_their_memory_and_give_back_what_they_hold(self):
        x = numbers(64, 64)
        count = sys.getrefcount(x)
        codes = f4.quantize(x, "mxfp4").codes
        gc.collect()
        self.assertTrue(same(codes, f4.quantize(x, "mxfp4").codes))
        with self.assertRaises(ValueError):
            codes[0, 0] = 1
        for _ in range(200):
            made = f4.quantize(x, "mxfp4")
            made.codes, made.scales, made.dequantize(), made.nmse, made.to_layout()
        del made, codes
        gc.collect()
        self.assertEqual(sys.getrefcount(x), count)

    def test_threads_of_python_and_of_the_core(self):
        x = numbers(256, 256)
        want = f4.quantize(x, "nvfp4,rounding=stochastic", seed=1).codes.tobytes()
        wrong = []

        def work(threads):
            for _ in range(10):
                if f4.quantize(x, "nvfp4,rounding=stochastic", seed=1, threads=threads).codes.tobytes() != want:
                    wrong.append(threads)

        crew = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 1)]
        [t.start() for t in crew]
        [t.join() for t in crew]
        self.assertEqual(wrong, [])
        before = f4.get_num_threads()
        f4.set_num_threads(3)
        self.assertEqual(f4.get_num_threads(), 3)
        f4.set_num_threads(before)


class Products(unittest.TestCase):
    def test_gemm_equals_the_command_line(self):
        a, b = numbers(20, 64, seed=1), numbers(12, 64, seed=2)
        for words, keywords in (
            (["--spec", "nvfp4", "--accumulator", "k64_rz"], {"spec": "nvfp4", "accumulator": "k64_rz"}),
            (["--spec", "mxfp4", "--spec-b", "mxfp6_e2m3"], {"spec": "mxfp4", "spec_b": "mxfp6_e2m3"}),
            (["--spec", "nvfp4,rounding=stochastic", "--seed", 3, "--stream", 8, "--step", 4],
             {"spec": f4.Spec("nvfp4", rounding=f4.Rounding.stochastic), "seed": 3, "stream": 8, "step": 4}),
            (["--spec", "mxfp4", "--hadamard", 32, "--signs", "per_step", "--normalise", "fold", "--seed", 3],
             {"spec": "mxfp4", "hadamard": 32, "signs": "per_step", "normalise": "fold", "seed": 3}),
        ):
            self.assertTrue(same(f4.gemm(a, b, **keywords), result_of("gemm", [a, b], *words)), words)

    def test_quantised_sides_give_the_same_product(self):
        a, b = numbers(20, 64, seed=1), numbers(12, 64, seed=2)
        want = result_of("gemm", [a, b], "--spec", "nvfp4,rounding=stochastic", "--seed", 3)
        spec = "nvfp4,rounding=stochastic"
        qa, qb = f4.quantize(a, spec, seed=3), f4.quantize(b, spec, seed=3, stream=16)
        for left, right in ((qa, qb), (qa, b), (a, qb)):
            self.assertTrue(same(f4.gemm(left, right, seed=3), want))

    def test_an_adder_by_its_parameters(self):
        a, b = numbers(4, 64, seed=1), numbers(4, 64, seed=2)
        described = {k: v for k, v in f4.show("k64_rz", "accumulator").items() if v is not None}
        self.assertTrue(same(f4.gemm(a, b, "nvfp4", accumulator=described), f4.gemm(a, b, "nvfp4", accumulator="k64_rz")))

    def test_hadamard_and_random_equal_the_command_line(self):
        x = numbers(9, 50)
        for words, keywords in (
            (["--size", 16, "--signs", "fixed"], {"size": 16, "signs": "fixed"}),
            (["--size", 64, "--signs", "per_step", "--seed", 3, "--step", 2, "--inverse", "--normalise", "fold"],
             {"size": 64, "signs": "per_step", "seed": 3, "step": 2, "inverse": True, "normalise": "fold"}),
        ):
            self.assertTrue(same(f4.hadamard(x, **keywords), result_of("hadamard", [x], *words)), words)
        want = result_of("random", [], "--bits", 8, "--count", 100, "--first", 4096, "--seed", 7, "--stream", 3)
        self.assertTrue(same(f4.random(8, 100, first=4096, seed=7, stream=3), want))

    def test_layouts_are_those_of_a_golden_bundle(self):
        with tempfile.TemporaryDirectory() as folder:
            command("golden", "make", "--suite", "smoke", "--out", f"{folder}/g", "--no-sync")
            with open(f"{folder}/g/manifest.json") as file:
                specs = {c["name"]: c["spec"] for c in json.load(file)["cases"]}
            seen = 0
            for case in os.listdir(f"{folder}/g"):
                if not os.path.exists(f"{folder}/g/{case}/scales_128x4.npy"):
                    continue
                here = {n[:-4]: np.load(f"{folder}/g/{case}/{n}") for n in os.listdir(f"{folder}/g/{case}")}
                q = f4.from_arrays(here["codes"], here["scales"], here["tensor_scale"], spec=f4.Spec(**specs[case]),
                                   shape=here["dequantized"].shape)
                for name in ("128x4", "amd_preshuffled"):
                    got = q.to_layout(scales=name, nibbles="high_first")
                    self.assertEqual(got["scales"].tobytes(), here[f"scales_{name}"].tobytes(), (case, name))
                    if "codes_high_first" in here:
                        self.assertEqual(got["codes"].tobytes(), here["codes_high_first"].tobytes(), case)
                seen += 1
            self.assertGreater(seen, 3)


class Names(unittest.TestCase):
    def test_enums_and_specs_come_from_the_tables(self):
        listed = json.loads(command("list", "scale-rules", "presets", "--json"))["rows"]
        rules = {row["name"]: row["doc"] for row in listed if row["topic"] == "scale-rules"}
        self.assertEqual({word.value: word.__doc__ for word in f4.ScaleRule}, rules)
        for row in listed:
            if row["topic"] != "presets":
                continue
            spec = f4.Spec(row["name"])
            self.assertEqual(spec, f4.Spec(spec.words), row["name"])
            self.assertEqual(spec.to_dict(), json.loads(command("show", row["name"], "--kind", "preset")))
        self.assertEqual(f4.Spec("mxfp4", scale_rule=f4.ScaleRule.rceil).scale_rule, f4.ScaleRule.rceil)
        self.assertEqual(f4.signature(), command("signature").split()[-1])


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_tensors_are_read_where_they_lie(self):
        x = numbers(32, 64)
        t = torch.from_numpy(x)
        for view, same_view in ((t, x), (t.T, x.T), (t[:, ::2], x[:, ::2]), (t.to(torch.float64), x)):
            self.assertTrue(same(f4.quantize(view, "nvfp4").codes, f4.quantize(same_view, "nvfp4").codes))
        half = t.to(torch.bfloat16)
        self.assertTrue(same(f4.quantize(half, "mxfp4").codes, f4.quantize(half.float().numpy(), "mxfp4").codes))
        self.assertTrue(same(torch.from_numpy(f4.quantize(t).dequantize()).numpy(), f4.quantize(x).dequantize()))
        with self.assertRaisesRegex(f4.Error, "^x: cannot be read by DLPack: .*requires? grad"):
            f4.quantize(t.clone().requires_grad_(), "mxfp4")

    def test_a_tensor_is_given_back(self):
        t = torch.zeros(64, 64)
        alive = weakref.ref(t)
        made = f4.quantize(t, "mxfp4")
        del t, made
        gc.collect()
        self.assertIsNone(alive())


if __name__ == "__main__":
    unittest.main()
