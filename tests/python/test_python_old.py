"""Is what Python packages of earlier versions saved (tests/old) read with their numbers, or refused by name?"""
import json
import os
import pickle
import sys
import tempfile
import unittest

from support import f4, np, torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import old_version  # noqa: E402

OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "old")


def versions():
    """Each version's facts, with its files in the current folder."""
    before = os.getcwd()
    for name in sorted(os.listdir(OLD)):
        with open(os.path.join(OLD, name), encoding="utf-8") as f:
            given = json.load(f)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                old_version.unpack(given)
                yield given
            finally:
                os.chdir(before)


def pickled(name):
    with open(f"python/{name}.pickle", "rb") as f:
        return pickle.load(f)


class Old(unittest.TestCase):
    def test_pickles_and_folders(self):
        for given in versions():
            with self.subTest(given["version"]):
                self.assertEqual(np.asarray(f4.load("q")).tobytes(), np.load("q/dequantized.npy").tobytes())
                if "python" in given:
                    self.assertEqual(pickled("tensor").dequantize().tobytes().hex(), given["python"]["values"])
                    self.assertEqual(pickled("spec"), f4.Spec("nvfp4", rounding="stochastic"))
                    self.assertIs(pickled("word"), f4.Rounding.stochastic)
                for scheme in filter(os.path.isdir, ("modelopt_nvfp4", "compressed_tensors_mxfp4", "ggml_nvfp4")):
                    read = f4.load(scheme)
                    self.assertEqual(sorted(np.asarray(read[name]).size for name in read), [8, 256, 256])

    @unittest.skipIf(torch is None, "no torch")
    def test_trainings_go_on(self):
        import fp4sim.torch as ft

        for given in versions():
            with self.subTest(given["version"]):
                if "python" not in given:
                    continue
                saved = torch.load("python/state.pt")
                model = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 8, bias=False)), "nvfp4_te")
                model.load_state_dict(saved["model"])
                self.goes_on(given, lambda: ft.load_state(model, saved["fp4sim"]) or model, "state")
                self.goes_on(given, lambda: torch.load("python/model.pt", weights_only=False), "model")

    @unittest.skipIf(torch is None, "no torch")
    def test_what_the_first_package_saved_is_refused_by_name(self):
        import fp4sim.torch as ft

        with self.assertRaisesRegex(f4.Error, "saved whole by fp4sim 0.3.0 or older; accepted: its state_dict"):
            pickle.loads(b"cfp4sim._core\nLayers\n.")  # as a layer of 0.2.0 refers to its class
        model = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 8)), "nvfp4_te")
        with self.assertRaisesRegex(f4.Error, r"a state of fp4sim 0.2.0, .*set_step\(model, 7\)"):
            ft.load_state(model, {"steps": [7], "held": [[-1.0] * 6]})

    def goes_on(self, given, read, what):
        refusal = given["python"]["refused"].get(what)
        if refusal:
            with self.assertRaisesRegex(f4.Error, refusal):
                read()
            return
        model = read()
        for _ in range(2):
            old_version.step(model)
        self.assertEqual(model[0].weight.detach().numpy().tobytes().hex(), given["python"]["weights"])


if __name__ == "__main__":
    unittest.main()
