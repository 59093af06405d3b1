"""Do recipes with an element of one's own train, in the trainer and in converted models, and to the program's bits?"""
import copy
import json
import pathlib
import pickle
import tempfile
import unittest

from support import command, f4, np, numbers, same, torch

HALF = f4.Element.from_values([0, 0.5, 1, 1.5, 2, 3, 3.5, 6], signed=True, name="half_s")
GRID = [-6, -3, -1, 0, 1, 3, 6]
SMALL = {"batch": 2, "inputs": 16, "width": 16, "depth": 1, "outputs": 4, "curve_points": 1}


def recipe(element, base="nvfp4"):
    return {"name": "own", "doc": "of the test", "base": base, "all": {"*": {"element": element}}}


def nearest(u, bits):
    return int(np.argmin(np.abs(np.float64(GRID) - u)))


class Trainer(unittest.TestCase):
    def test_a_training_uses_it_as_the_program_does(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "half.json").write_text(json.dumps(HALF))
            (folder / "own.json").write_text(json.dumps(recipe(HALF)))
            (folder / "by_file.json").write_text(json.dumps(recipe(str(folder / "half.json"))))
            told = [json.loads(command("train", "--task", "regression", "--steps", 2, "--seed", 1, "--json", "--quiet",
                                       *(word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")), *more))
                    for more in (("--recipe", folder / "own.json"), ("--recipe", folder / "by_file.json"),
                                 ("--recipe", "nvfp4", "--set", f"*.*.element={folder}/half.json"))]
            runs = [f4.train("regression", given, steps=2, set=SMALL)
                    for given in (folder / "own.json", recipe(HALF), recipe(f4.Element.from_file(folder / "half.json")))]
        self.assertEqual(len({run["digest"] for run in told + runs}), 1)
        others = [f4.train("regression", given, steps=2, set=SMALL)["digest"]
                  for given in ("nvfp4", recipe(f4.Element.with_micro("s1p2", [(8, 1), (4, 1)])))]
        self.assertEqual(len({runs[0]["digest"], *others}), 3)

    def test_rounding_of_ones_own_trains(self):
        called, plain = f4.Element.from_values(GRID, round=nearest), f4.Element.from_values(GRID)
        runs = [f4.train("regression", recipe(element), steps=1, set=SMALL) for element in (called, plain)]
        self.assertEqual(*(run["metrics"]["loss"] for run in runs))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            f4.train("regression", recipe(f4.Element.from_values(GRID, round=lambda u, bits: 1 // 0)), steps=1, set=SMALL)

    def test_costs_and_statistics_take_a_dict(self):
        own = f4.cost(recipe(HALF), hardware="b200")
        self.assertEqual(own["recipe"], "own")
        self.assertEqual(f4.cost([recipe("e2m1"), "nvfp4"], study="compare", hardware="b200").table.height, 2)
        rows = [f4.stats("regression", given, set=SMALL) for given in (recipe("e2m1"), "nvfp4", recipe(HALF))]
        self.assertEqual(rows[0]["rows"], rows[1]["rows"])
        self.assertNotEqual(rows[0]["rows"], rows[2]["rows"])
        with self.assertRaisesRegex(f4.Error, "another process"):
            f4.cost(recipe(f4.Element.from_values(GRID, round=nearest)))
        for wrong, what in (({"name": {1, 2}}, "--recipe: .*not JSON"), (3, "--recipe: 3 is no word"), ({"bass": 1}, "bass")):
            with self.assertRaisesRegex(f4.Error, what):
                f4.train("regression", wrong, steps=1)


@unittest.skipIf(torch is None, "no torch")
class Torch(unittest.TestCase):
    def setUp(self):
        import fp4sim.torch

        self.ft = fp4sim.torch
        torch.manual_seed(0)
        self.plain, self.x = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Linear(16, 4)), torch.from_numpy(numbers(6, 32))

    def trained(self, given, model=None):
        """The weights after three steps."""
        model = model or self.ft.convert(copy.deepcopy(self.plain), given, seed=3)
        optimizer = torch.optim.SGD(model.parameters(), 2.0**-6)
        for _ in range(3):
            optimizer.zero_grad()
            model(self.x).square().mean().backward()
            optimizer.step()
        return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])

    def test_a_converted_model_multiplies_what_quantize_gives(self):
        layer = self.ft.convert(torch.nn.Linear(32, 16, bias=False), recipe(HALF))
        spec = f4.Spec("nvfp4", element=HALF)
        self.assertTrue(same(layer(self.x).detach(), f4.gemm(self.x, layer.weight.detach(), spec)))
        self.assertFalse(same(layer(self.x).detach(), f4.gemm(self.x, layer.weight.detach(), "nvfp4")))
        self.assertIn("recipe=own", repr(layer))
        self.assertTrue(same(self.ft.Linear(32, 16, recipe=recipe(HALF))(self.x * 0).detach()[0].shape, (16,)))

    def test_recipes_from_dicts_files_and_rows_are_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "own.json")
            file.write_text(json.dumps(recipe(HALF)))
            want = self.trained(file)
            self.assertTrue(same(self.trained(str(file)), want))
            model = self.ft.convert(copy.deepcopy(self.plain), file, seed=3)
        self.assertTrue(same(self.trained(recipe(HALF)), want))
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.assertTrue(same(self.trained(None, again), want))
        e2m1 = f4.Element.from_values([0, 0.5, 1, 1.5, 2, 3, 4, 6], signed=True, name="like_e2m1")
        self.assertTrue(same(self.trained(recipe(e2m1)), self.trained("nvfp4")))
        self.assertFalse(same(want, self.trained("nvfp4")))
        self.assertTrue(np.isfinite(self.trained(recipe(f4.Element.with_micro("s1p2", [(8, 1), (4, 1)]), "mxfp4"))).all())

    def test_rounding_of_ones_own_trains_a_converted_model(self):
        called = f4.Element.from_values(GRID, round=nearest)
        want = self.trained(recipe(f4.Element.from_values(GRID)))
        self.assertTrue(same(self.trained(recipe(called)), want))
        for part in ("forward", "backward"):
            calls, limit = [], 700 if part == "forward" else 2000

            def broken(u, bits):
                calls.append(u)
                if len(calls) > limit:
                    raise KeyError("of the test")
                return nearest(u, bits)

            model = self.ft.convert(copy.deepcopy(self.plain), recipe(f4.Element.from_values(GRID, round=broken)), seed=3)
            limit = 100 if part == "forward" else 10**9
            if part == "forward":
                with self.assertRaisesRegex(KeyError, "of the test"):
                    model(self.x)
            else:
                y = model(self.x).sum()
                limit = len(calls)
                with self.assertRaisesRegex(KeyError, "of the test"):
                    y.backward()
            self.assertTrue(same(self.trained(recipe(called)), want), part)  # nothing is left of it


if __name__ == "__main__":
    unittest.main()
