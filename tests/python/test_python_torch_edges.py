"""What a layer meets at its edges: nothing to multiply, a bias of another shape, keys and masks that do not fit, copies that go."""
import copy
import unittest

from support import f4, np, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

RECIPES = "fp32", "bf16", "mxfp4", "nvfp4_te"


class GainLinear(nn.Linear):
    """Its bias is one number, or one for each row and column."""

    def forward(self, x):
        return F.linear(x, self.weight, self.gain)


def backward(layer, *shape):
    x = torch.randn(*shape, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    return x, y


def attention(**more):
    return ft.convert(nn.MultiheadAttention(32, 4, batch_first=True, **more), "attn_fp4")


class Empty(unittest.TestCase):
    def test_no_rows(self):
        for recipe, sums in [(r, "recipe") for r in RECIPES] + [("mxfp4", "torch")]:
            layer = ft.convert(nn.Linear(32, 9), recipe, sums=sums)
            x, y = backward(layer, 2, 0, 32)
            self.assertEqual((y.shape, x.grad.shape), ((2, 0, 9), (2, 0, 32)))
            for p in layer.parameters():
                self.assertEqual(float(p.grad.abs().max()), 0)
            backward(layer, 3, 32)  # goes on
            self.assertTrue(torch.isfinite(layer.weight.grad).all())

    def test_no_columns(self):
        layer = ft.convert(nn.Linear(0, 5), "mxfp4")
        for shape, rows in ((0,), 1), ((3, 0), 3), ((2, 3, 0), 6):
            layer.bias.grad = None
            _, y = backward(layer, *shape)
            self.assertTrue(torch.equal(y, layer.bias.expand(*shape[:-1], 5)))
            self.assertTrue(torch.equal(layer.bias.grad, torch.full((5,), float(rows))))
        x, y = backward(ft.convert(nn.Linear(5, 0), "mxfp4"), 3, 5)
        self.assertEqual((y.shape, float(x.grad.abs().max())), ((3, 0), 0))

    def test_no_queries(self):
        y, shares = attention()(torch.randn(0, 5, 32), *[torch.randn(0, 6, 32)] * 2)
        self.assertEqual((y.shape, shares.shape), ((0, 5, 32), (0, 5, 6)))


class Bias(unittest.TestCase):
    def test_other_shapes_are_torchs(self):
        for shape in (1,), (7, 64), (1, 64):
            plain = GainLinear(32, 64, bias=False)
            plain.gain = nn.Parameter(torch.randn(*shape))
            layer = ft.convert(copy.deepcopy(plain), "fp32")
            (x, y), (_, of_torch) = backward(layer, 7, 32), backward(plain, 7, 32)
            self.assertTrue(torch.allclose(y, plain(x), atol=1e-4))
            self.assertTrue(torch.equal(layer.gain.grad, plain.gain.grad))


class Attention(unittest.TestCase):
    def test_what_does_not_fit_is_refused(self):
        layer, q, k = attention(), torch.randn(2, 5, 32), torch.randn(2, 6, 32)
        wrong = [((q, k, torch.randn(2, 7, 32)), {}, r"value: is \(2, 7, 32\); accepted: \(2, 6\)"),
                 ((q, torch.randn(3, 6, 32), torch.randn(3, 6, 32)), {}, r"key: is \(3, 6, 32\); accepted: \(2, 6\)"),
                 ((q, k, k), {"key_padding_mask": torch.zeros(6, 2, dtype=torch.bool)}, r"key_padding_mask: is \(6, 2\)"),
                 ((q, k, k), {"attn_mask": torch.zeros(2, 5, 6)}, r"attn_mask: .*accepted: \(5, 6\) or \(8, 5, 6\)")]
        for given, more, said in wrong:
            with self.assertRaisesRegex(f4.Error, said):
                layer(*given, **more)

    def test_weights_are_those_after_dropout(self):
        layer = attention(dropout=0.5).train()
        self.assertGreater(float((layer(*[torch.randn(4, 8, 32)] * 3)[1] == 0).float().mean()), 0)


class Tensors(unittest.TestCase):
    def test_lazy_signs(self):
        x = torch.randn(4, 32, dtype=torch.complex64).conj().imag
        self.assertTrue(np.array_equal(f4.quantize(x, "fp32").dequantize(), x.resolve_neg().numpy()))

    def test_one_number_of_bfloat16(self):
        self.assertEqual(f4.quantize(torch.tensor(1.5, dtype=torch.bfloat16), "bf16").dequantize(), 1.5)

    def test_integers_have_no_fake(self):
        with self.assertRaisesRegex(f4.Error, "x: is torch.int64; accepted: floating types"):
            ft.fake_quantize(torch.tensor([[5, 7, 11, 100]]), "nvfp4")

    def test_infinite_loss(self):
        logits, label = torch.tensor([[-float("inf"), 0.0]]), torch.tensor([0])
        self.assertEqual(float(ft.cross_entropy(logits, label)), float(F.cross_entropy(logits, label)))

    def test_multipliers_do_not_fit_bf16(self):
        ft.convert(nn.Linear(50, 21), "design_space_2509_e8m0", sums="torch")
        for recipe in "design_space_2509", "nve0m3":
            with self.assertRaisesRegex(f4.Error, "is not exact in bf16"):
                ft.convert(nn.Linear(50, 21), recipe, sums="torch")


    def test_what_is_no_tensor_is_refused(self):
        x, layer = torch.randn(2, 32), ft.convert(nn.Linear(32, 4), "mxfp4")
        wrong = [(lambda: ft.quantize([[1.0]]), "x: list is no tensor"), (lambda: ft.gemm(x, None), "x: NoneType is no tensor"),
                 (lambda: ft.gemm(x, x, signs=None), "--signs"), (lambda: ft.hadamard(x, "16"), "--hadamard: '16' is no whole number"),
                 (lambda: layer(x.numpy()), "the layer: the input is ndarray; accepted: dense tensors"),
                 (lambda: layer(x.to_sparse()), "layer: the input is torch.sparse_coo"),
                 (lambda: ft.load_state(layer, {"groups": [{}]}), "load_state: the state belongs to another model"),
                 (lambda: ft.convert(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), "mxfp4", skip="1", plain=["0", "1"]), "1 is in both skip and plain")]
        for call, said in wrong:
            with self.assertRaisesRegex(f4.Error, said):
                call()

    def test_one_spec_is_a_list_of_one(self):
        x = np.ones((4, 32), np.float32)
        one, listed = f4.compare(x, f4.Spec("nvfp4")), f4.compare(x, ["nvfp4"])
        self.assertEqual(list(one["nmse"]), list(listed["nmse"]))

    def test_a_model_of_inference_mode(self):
        with torch.inference_mode():
            layer = ft.convert(nn.Linear(32, 4), "mxfp4")
            self.assertEqual(layer(torch.randn(2, 32)).shape, (2, 4))


class Steps(unittest.TestCase):
    def test_a_copy_that_goes_takes_no_step_along(self):
        model = ft.convert(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 1)), "mxfp4_sr")
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for step in range(1, 6):
            backward(model, 4, 32)
            optimizer.step()
            self.assertEqual(model[0].step, step)
            if step == 2:
                copy.copy(model[0])

    def test_forward_derivatives_are_refused_without_a_gradient_too(self):
        ad, layer = torch.autograd.forward_ad, ft.convert(nn.Linear(32, 4), "mxfp4")
        with torch.no_grad(), ad.dual_level(), self.assertRaisesRegex(f4.Error, "no forward derivatives"):
            layer(ad.make_dual(torch.randn(2, 32), torch.randn(2, 32)))


if __name__ == "__main__":
    unittest.main()
