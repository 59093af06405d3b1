"""Does a wrong argument give one clear line: an Error that names the place and what is accepted?"""
import unittest

from support import command, f4, files_of, np, numbers, torch

X = numbers(8, 64)
W = numbers(4, 64, seed=1)

# What is wrong, and what the one line has to say.
WRONG = [
    (lambda: f4.quantize(X, "mxpf4"), "--spec: preset: unknown word 'mxpf4'; did you mean 'mxfp4'"),
    (lambda: f4.quantize(X, "mxfp4", roundin="stochastic"), "--spec: .*roundin"),
    (lambda: f4.quantize(X, "mxfp4", rounding="stochstic"), "rounding: unknown word 'stochstic'; did you mean 'stochastic'"),
    (lambda: f4.quantize(X, "mxfp4", block=24), "--spec: .*block must be 8, 16, 32, 64 or 128"),
    (lambda: f4.quantize(X, "mxfp4", random_bits=5), "random_bits must be 4, 8, 16 or 32"),
    (lambda: f4.quantize(X, 3), "--spec: int is no spec"),
    (lambda: f4.quantize(X, "mxfp4", seed=-1), "--seed: -1 is out of range; accepted: 0 .. 18446744073709551615"),
    (lambda: f4.quantize(X, "mxfp4", seed="a"), "--seed: 'a' is no whole number"),
    (lambda: f4.quantize(X, "mxfp4", threads=0), "--threads: 0 is out of range; accepted: 1 .. 4096"),
    (lambda: f4.quantize(X, "mxfp4", backend="avx3"), "unknown word 'avx3'"),
    (lambda: f4.quantize(None, "mxfp4"), "x: None is no array"),
    (lambda: f4.quantize([["a"]], "mxfp4"), "x: <U1 is no type of real numbers; accepted: float32"),
    (lambda: f4.quantize(X.astype(complex), "mxfp4"), "x: complex128 is no type of real numbers"),
    (lambda: f4.quantize(object(), "mxfp4"), "x: object is no type of real numbers"),
    (lambda: f4.quantize(X, "mxfp4,ragged=refuse,block=128"), "multiple"),
    (lambda: f4.gemm(X, W[:, :32], "mxfp4"), "gemm: a has K = 64 and b has K = 32; both are .rows, K."),
    (lambda: f4.gemm(X, W), "gemm: both sides are floats; give spec"),
    (lambda: f4.gemm(X, W, "mxfp4", accumulator="k64_rx"), "--accumulator: unknown word 'k64_rx'; did you mean 'k64_rz'"),
    (lambda: f4.gemm(X, W, "mxfp4", accumulator={"kind": "aligned", "inner": 0}), "--accumulator: inner: 0 .*from 1 to 128"),
    (lambda: f4.gemm(X, W, "mxfp4", accumulator={"inner": np.int64(12)}), "--accumulator: .*int64.*accepted: words, finite numbers"),
    (lambda: f4.Element.from_values([0, 1, float("inf")]), "element: .*float values.*accepted: words, finite numbers"),
    (lambda: f4.compare([{"w": X}, {"w": W}], ["nvfp4"]), "w: two arrays have this name"),
    (lambda: f4.compare({"a/b": X, "a_b": W}, ["nvfp4"]), "a_b: two arrays have this name, / counting as _"),
    (lambda: f4.gemm(f4.quantize(X), W, hadamard=16), "--hadamard: a is quantised"),
    (lambda: f4.hadamard(X, 48), "48 is no Hadamard size; accepted: 0, 16, 32, 64, 128, 256"),
    (lambda: f4.hadamard(X, 0), "hadamard --size: 0 is no transform"),
    (lambda: f4.hadamard(X, 16, signs="some"), "signs: unknown word 'some'"),
    (lambda: f4.random(3, 10), "random --bits: 3 is not a draw's width; accepted: 1, 2, 4, 8, 16, 32"),
    (lambda: f4.random(8, 2, first=2**64 - 1), "random --first: positions end at 2\\^64 - 1"),
    (lambda: f4.quantize(X).to_layout(scales="128x5"), "scales: unknown word '128x5'; did you mean '128x4'"),
    (lambda: f4.quantize(X).to_layout(nibbles="first"), "nibbles: unknown word 'first'.*low_first, high_first"),
    (lambda: f4.quantize(X, "bf16").to_layout(), "scales: layout 128x4 is one of one-byte scales"),
    (lambda: f4.dequantize(X), "dequantize: codes alone say nothing"),
    (lambda: f4.dequantize(X, spec="mxfp4", shape=(8, 64)), "codes: has float32 .8, 64., the spec says uint8 .8, 32."),
    (lambda: f4.from_arrays(f4.quantize(X).codes, None, spec="mxfp4", shape=X.shape), "scales: None is no array"),
    (lambda: f4.from_arrays(f4.quantize(X).codes, spec="mxfp4", shape=X.shape).nmse, "scales: None is no array"),
    (lambda: f4.Spec("nvfp4", scale="e8m1"), "--spec: scale: unknown word 'e8m1'"),
    (lambda: f4.show("nothing_like_it"), "show: unknown word 'nothing_like_it'"),
    (lambda: f4.quantize(X).to_dlpack("code"), "to_dlpack: 'code' is no array of this tensor; accepted: codes, scales"),
    (lambda: f4.train("classifier", steps=-1), "--steps: -1 is out of range"),
    (lambda: f4.Sweep("no_such_folder").table(), "no_such_folder"),
    (lambda: f4.golden_check("no_such_folder"), "no_such_folder"),
    (lambda: f4.verify("no_such_folder", {}), "candidate: no arrays"),
    (lambda: f4.law("no_such_folder"), "no_such_folder"),
    (lambda: f4.law("ladder.csv", form="kaplan"), "--form: kaplan not in .quartet,chinchilla"),
    (lambda: f4.law("ladder.csv", at=(1e6,)), "--at: At least 2 required but received 1"),
    (lambda: f4.law("ladder.csv", held_out="x"), "--held-out: .*x"),
    (lambda: f4.pareto("no_such_folder"), "no_such_folder"),
    (lambda: f4.cost("nvpf4"), "unknown word 'nvpf4'"),
    (lambda: f4.cost("nvfp4", hardwar="b200"), "--hardwar"),
    (lambda: f4.sweep({"name": "x", "task": "classifer"}, out="never"), "unknown word 'classifer'; did you mean"),
    (lambda: f4.listing("formatz"), "formatz"),
    (lambda: f4.Table(a=[1]).plot("a", "b"), "plot: no column 'b'; accepted: a"),
    (lambda: f4.set_num_threads(5000), "--threads: 5000 is out of range"),
]


class Refusals(unittest.TestCase):
    def test_one_clear_line_each(self):
        for number, (call, says) in enumerate(WRONG):
            with self.subTest(number=number, says=says):
                with self.assertRaisesRegex(f4.Error, says) as caught:
                    call()
                self.assertNotIn("\n", str(caught.exception))
                self.assertIsInstance(caught.exception, ValueError)
                self.assertIn(caught.exception.exit_code, (1, 2))

    def test_an_error_about_words_has_the_exit_code_2_wherever_it_is_raised(self):
        for call in (lambda: f4.quantize(X, "nvfp4", seed=-1), lambda: f4.quantize(X, "mxfp4", threads=0),
                     lambda: f4.random(8, -1), lambda: f4.quantize(X, 3), lambda: f4.gemm(X, W),
                     lambda: f4.quantize(X).to_dlpack("nope")):
            with self.assertRaises(f4.Error) as caught:
                call()
            self.assertEqual(caught.exception.exit_code, 2, str(caught.exception))

    def test_the_words_are_those_of_the_command_line(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", X)
            for words in ("mxpf4", "mxfp4,block=24", "mxfp4,rounding=stochstic", "mxfp4,,", "none.json"):
                told = command("quantize", f"{folder}/x.npy", "--spec", words, "--out", f"{folder}/out")
                with self.assertRaises(f4.Error) as caught:
                    f4.quantize(X, words)
                self.assertEqual(told, f"fp4sim: {caught.exception}\n")
                self.assertEqual(caught.exception.exit_code, 2)

    def test_the_environment_of_the_host_changes_no_bit(self):
        if torch is None:
            self.skipTest("torch is not installed")
        tiny = (numbers(8, 64) * np.float32(2.0**-130)).astype(np.float32)
        want = files_of(tiny, "--spec", "fp32")["dequantized"].tobytes()
        self.assertTrue(torch.set_flush_denormal(True))
        try:
            self.assertEqual(f4.quantize(tiny, "fp32").dequantize().tobytes(), want)
            self.assertEqual((torch.tensor([2.0**-130]) * 1).item(), 0)  # the caller's own is as it was
        finally:
            torch.set_flush_denormal(False)


if __name__ == "__main__":
    unittest.main()
