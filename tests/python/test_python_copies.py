"""Can objects be copied and pickled, and is memory shared where a copy is not needed?"""
import copy
import pickle
import tempfile
import tracemalloc
import unittest

from support import f4, np, numbers, same, torch

SPECS = ("mxfp4", "nvfp4", "nvfp4,tensor_scale=outer128", "mxfp4,scale=fp32,block=row", "mxfp6_e2m3", "mxfp4,block=32x32",
         "bf16", "fp32")


def again(thing):
    return copy.copy(thing), copy.deepcopy(thing), *(pickle.loads(pickle.dumps(thing, n)) for n in (2, 4, 5))


class Copies(unittest.TestCase):
    def test_quantised_tensors(self):
        for words in SPECS:
            q = f4.quantize(numbers(6, 5, 70), words)
            for other in again(q):
                self.assertTrue(same(other.codes, q.codes) and same(other.tensor_scale, q.tensor_scale))
                self.assertTrue(same(other.dequantize(), q.dequantize()))
                self.assertEqual((other.spec, other.shape, repr(other)), (q.spec, q.shape, repr(q)))
                if q.scales is not None:
                    self.assertTrue(same(other.scales, q.scales))
        with self.assertRaisesRegex(f4.Error, "this tensor was made of codes"):
            pickle.loads(pickle.dumps(q)).statistics()

    def test_specs_words_and_results(self):
        spec = f4.Spec("nvfp4", rounding="stochastic", block=[32, 32])
        run = f4.train("regression", "mxfp4", steps=2)
        table = f4.Table(a=np.arange(3))
        for thing in (spec, f4.Rounding.stochastic, run, f4.Sweep("somewhere"), f4.Error("wrong")):
            for other in again(thing):
                self.assertIs(type(other), type(thing))
                self.assertEqual(str(other.folder if isinstance(thing, f4.Sweep) else other),
                                 str(thing.folder if isinstance(thing, f4.Sweep) else thing))
        self.assertTrue(all(other.digest == run.digest for other in again(run)))
        self.assertTrue(all(same(other["a"], table["a"]) for other in again(table)))
        self.assertEqual({spec, *again(spec)}, {spec})
        with tempfile.TemporaryDirectory() as folder:
            f4.golden_make("smoke", f"{folder}/g")
            q = np.load(f"{folder}/g/mxfp4.boundary.8x64/codes.npy")
            verdict = f4.verify(f"{folder}/g", {"codes": q}, case="mxfp4.boundary.8x64")
        for other in again(verdict):
            self.assertEqual((dict(other), str(other), bool(other)), (dict(verdict), str(verdict), bool(verdict)))


class Memory(unittest.TestCase):
    def peak(self, x):
        """Bytes that numpy takes while x is quantised; codes and scales are the core's own."""
        tracemalloc.start()
        f4.quantize(x, "mxfp4")
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    def test_strided_floats_are_read_where_they_lie(self):
        x = numbers(256, 512)
        deep = x.reshape(4, 64, 512)
        for view in (x, x.T, x[::2], x[:, ::2], x[3:, 5:], deep, deep[:, :, 1::3], np.asfortranarray(x)):
            self.assertLess(self.peak(view), 20000, view.strides)
        for view in (x[::-1], x[:, ::-1], x.astype(np.float64), deep.transpose(1, 0, 2)):
            self.assertGreater(self.peak(view), view.size * 4, view.strides)


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_from_dlpack_shares_memory(self):
        q = f4.quantize(numbers(64, 64), "nvfp4")
        for name in ("codes", "scales", "tensor_scale"):
            array, tensor = getattr(q, name), torch.from_dlpack(q.to_dlpack(name))
            self.assertEqual((tensor.data_ptr(), tuple(tensor.shape)), (array.ctypes.data, array.shape))
            self.assertTrue(same(tensor, array))
        for made in (q.dequantize(), f4.gemm(q, q), f4.hadamard(numbers(4, 32), 16)):
            self.assertEqual(torch.from_dlpack(made).data_ptr(), made.ctypes.data)
        want = q.codes.copy()
        codes = torch.from_dlpack(q.to_dlpack())
        q.to_dlpack()  # nobody takes it
        del q, array, tensor
        self.assertTrue(same(codes, want))
        with self.assertRaisesRegex(f4.Error, "to_dlpack: 'scales' is no array of this tensor"):
            f4.quantize(numbers(2, 32), "bf16").to_dlpack("scales")

    def test_tensors_of_torch_are_not_copied(self):
        x = torch.from_numpy(numbers(256, 512))
        for view in (x, x.t(), x[:, ::2]):
            self.assertLess(Memory.peak(self, view), 20000)

    def test_a_copied_model_goes_on_by_itself(self):
        import fp4sim.torch as ft

        name = next(w.value for w in f4.Recipe if "'hold'" in str(f4.show(w.value, "recipe")))
        layers = torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)
        model = ft.convert(torch.nn.Sequential(*layers), name, seed=3)
        x = torch.from_numpy(numbers(16, 32))
        model(x).sum().backward()
        ft.step(model)
        others = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        want = model(x * 5)  # a held scale decides its bits
        want.sum().backward()
        for other in others:
            self.assertIs(other[0]._group, other[2]._group)
            self.assertIsNot(other[0]._group, model[0]._group)
            self.assertEqual(ft.state(other)["groups"][0]["step"], 1)
            other.zero_grad()
            made = other(x * 5)
            made.sum().backward()
            self.assertTrue(same(made.detach(), want.detach()))
        model.zero_grad()
        fresh = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)), name, seed=3)
        fresh.load_state_dict(model.state_dict())
        ft.set_step(fresh, 2)
        self.assertFalse(same(fresh(x * 5).detach(), want.detach()))


if __name__ == "__main__":
    unittest.main()
