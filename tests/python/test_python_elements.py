"""Elements of one's own: values by code, micro-exponents, callables for rounding and scale."""
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import f4, np

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 40)).astype(np.float32)


class Values(unittest.TestCase):
    def test_the_list_of_e2m1_gives_its_codes(self):
        mine = f4.Element.from_values(E2M1, signed=True, name="like_e2m1")
        for spec in ("mxfp4", "nvfp4"):
            for rounding in ("nearest_even", "stochastic", "toward_zero"):
                a = f4.quantize(X, spec, rounding=rounding, seed=3)
                b = f4.quantize(X, spec, element=mine, rounding=rounding, seed=3)
                self.assertTrue(np.array_equal(a.codes, b.codes))
                self.assertTrue(np.array_equal(a.scales, b.scales))
                self.assertTrue(np.array_equal(a.dequantize(), b.dequantize()))
        self.assertEqual(f4.quantize(X, "nvfp4", element=mine).nmse, f4.quantize(X, "nvfp4").nmse)

    def test_codes_follow_the_list(self):
        mine = f4.Element.from_values([-1, -0.25, 0, 0.5], name="four")
        q = f4.quantize(np.float32([[-1, -0.3, 0.1, 0.4]]), element=mine, scale="none")
        self.assertEqual(q.codes.ravel()[:4].tolist(), [0, 1, 2, 3])
        self.assertEqual(q.dequantize().tolist(), [[-1, -0.25, 0, 0.5]])
        self.assertEqual(mine.bits, 2)

    def test_it_is_the_object_of_files(self):
        mine = f4.Element.from_values([0, "0x1.8p-1", 2, None], signed=True, name="holes")
        self.assertEqual(json.loads(json.dumps(mine)), {"name": "holes", "signed": True, "values": [0, 0.75, 2, None]})
        spec = f4.Spec("nvfp4", element=mine)
        self.assertEqual(spec.element, mine)
        for again in (f4.Spec(spec.words), pickle.loads(pickle.dumps(spec)), f4.Spec(spec)):
            self.assertEqual(again, spec)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "holes.json")
            with open(file, "w") as f:
                json.dump(mine, f)
            self.assertEqual(f4.Element.from_file(file), mine)
            self.assertEqual(f4.Spec("nvfp4", element=file), spec)
        self.assertIn("holes", repr(mine))

    def test_products_comparisons_and_trainings_take_it(self):
        mine = f4.Element.from_values([0, 1, 2, 3, 4, 5, 6, 7], signed=True, name="steps")
        a, b = f4.quantize(X, "nvfp4", element=mine), f4.quantize(X, "nvfp4", element="int4")
        self.assertTrue(np.array_equal(f4.gemm(a, a), f4.gemm(b, b)))
        table = f4.compare(X, ["nvfp4", f4.Spec("nvfp4", element=mine), "nvfp4,element=int4"])
        self.assertEqual(table["nmse"][1], table["nmse"][2])
        runs = [f4.train("regression", "nvfp4", steps=3, set={"batch": 16, "*.*.element": element})
                for element in (mine, "int4", "e2m1")]
        self.assertEqual(runs[0]["digest"], runs[1]["digest"])
        self.assertNotEqual(runs[0]["digest"], runs[2]["digest"])

    def test_two_levels_and_choices(self):
        hif4 = f4.Element.with_micro("s1p2", [(8, 1), (4, 1)])
        self.assertEqual(hif4.bits, 4.375)
        a = f4.quantize(X, "hifloat4")
        self.assertTrue(np.array_equal(a.dequantize(), f4.quantize(X, "hifloat4", element=hif4).dequantize()))
        q = f4.quantize(X, "nvfp4", choice={"grids": ["e2m1", "int4_6"], "by": "mse"})
        self.assertTrue(np.array_equal(q.scales, f4.quantize(X, "if4").scales))
        self.assertEqual(f4.Spec("nvfp4", choice="e2m1|int4_6"), f4.Spec("if4"))

    def test_what_is_no_grid_is_refused(self):
        for values, more, what in ([1, 2], {}, "needs a 0"), ([0, -1], dict(signed=True), "magnitudes"), \
                ([0, 1], dict(name="e2m1"), "another name"), ([0, float("inf")], {}, ""):
            with self.assertRaisesRegex((f4.Error, ValueError), what):
                f4.Element.from_values(values, **more)


class Callables(unittest.TestCase):
    def test_rounding_and_scale_of_ones_own_are_the_cores_where_they_say_the_same(self):
        values = [-v for v in reversed(E2M1[1:])] + E2M1
        array, asked = np.float64(values), []

        def nearest(u, bits):
            asked.append(bits)
            return int(np.argmin(np.abs(array - u)))

        mine = f4.Element.from_values(values, round=nearest, scale=lambda block: np.abs(block).max() / 6)
        plain = f4.Element.from_values(values)
        a, b = f4.quantize(X, "nvfp4", element=mine), f4.quantize(X, "nvfp4", element=plain)
        self.assertTrue(np.array_equal(a.dequantize(), b.dequantize()))
        self.assertEqual(set(asked), {0})
        f4.quantize(X, "nvfp4", element=mine, rounding="stochastic", random_bits=4)
        self.assertTrue(0 < max(asked) < 16)
        self.assertTrue(np.array_equal(f4.gemm(a, a), f4.gemm(b, b)))

    def test_an_exception_reaches_the_caller_and_the_next_call_is_fine(self):
        def broken(u, bits):
            raise KeyError("of the test")

        bad = f4.Element.from_values([0, 1, 2, 4], round=broken)
        good = f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: 1)
        for _ in range(2):
            with self.assertRaisesRegex(KeyError, "of the test"):
                f4.quantize(X, "nvfp4", element=bad)
            self.assertEqual(f4.quantize(np.float32([[3]]), element=good, scale="none").dequantize().tolist(), [[1]])
        with self.assertRaisesRegex(ValueError, "no code"):
            f4.quantize(X, "nvfp4", element=f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: 9))

    def test_ctrl_c_ends_a_slow_callable(self):
        slow = f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: time.sleep(0.01) or 1)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            f4.quantize(np.ones((40, 64), np.float32), "nvfp4", element=slow)  # 25 s of sleep
        self.assertLess(time.monotonic() - start, 5)
        quick = f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: 1)
        self.assertEqual(f4.quantize(np.float32([[3]]), element=quick, scale="none").dequantize().tolist(), [[1]])

    def test_a_scale_that_is_none_is_an_error_with_its_block(self):
        for made in float("nan"), -1, 0, float("inf"):
            bad = f4.Element.from_values(E2M1, signed=True, scale=lambda block: made)
            with self.assertRaisesRegex(ValueError, "scale gave .*, not a number above 0, for the block .*2.5"):
                f4.quantize(np.full((1, 16), 2.5, np.float32), "nvfp4", element=bad, tensor_scale="none")
        zeros = f4.Element.from_values(E2M1, signed=True, scale=lambda block: np.abs(block).max() / 6)
        self.assertFalse(f4.quantize(np.zeros((2, 32), np.float32), "nvfp4", element=zeros).dequantize().any())

    def test_the_interpreter_ends_while_callables_are_called(self):
        begin = """if True:
            import os, signal, sys, threading, time, numpy as np, fp4sim as f4
            slow = f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: time.sleep(0.001) or 1)
            work = lambda: f4.quantize(np.ones((200, 64), np.float32), "nvfp4", element=slow)
            """
        daemon = begin + """
            for _ in range(2):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.2)
            """
        stopped = begin + """
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                work()
            except KeyboardInterrupt:
                sys.exit(7)
            """
        for _ in range(3):
            for text, code in (daemon, 0), (stopped, 7):
                ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
                self.assertEqual((ended.returncode, ended.stderr), (code, ""))

    def test_callables_of_another_process_are_refused(self):
        mine = f4.Element.from_values([0, 1, 2, 4], round=lambda u, bits: 1)
        with self.assertRaisesRegex(f4.Error, "another process"):
            f4.compare(X, [f4.Spec("nvfp4", element=mine)])
        with self.assertRaisesRegex(f4.Error, "signed"):
            f4.Element.from_values(E2M1, signed=True, round=lambda u, bits: 1)


if __name__ == "__main__":
    unittest.main()
