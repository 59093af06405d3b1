"""Do TransformerEngine's three products under fp4sim.torch.transformer_engine() have the bits of converted layers?

TransformerEngine needs a GPU to be imported. What it calls of a custom recipe stands here as its commit d0067d0d has it:
custom_gemm() gives rows to fprop, rows and columns to dgrad, columns to wgrad, and asks the first operand's quantizer.
"""
import collections
import enum
import sys
import types
import unittest

from support import f4, same, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)


class Quantizer:
    def __init__(self, *, rowwise, columnwise):
        self.rowwise_usage, self.columnwise_usage, self.internal = rowwise, columnwise, False

    def __call__(self, tensor):
        return self.quantize(tensor)


class Type(enum.Enum):
    FPROP, DGRAD, WGRAD = "fprop", "dgrad", "wgrad"


def stand_in(name, **things):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(things)


if "transformer_engine" not in sys.modules:
    for name in ("transformer_engine", "transformer_engine.common", "transformer_engine.pytorch"):
        stand_in(name)
    stand_in("transformer_engine.common.recipe", CustomRecipe=collections.namedtuple("CustomRecipe", "qfactory"))
    stand_in("transformer_engine.pytorch.quantized_tensor", Quantizer=Quantizer, QuantizedTensorStorage=object)

import fp4sim.torch as ft  # noqa: E402
from torch import nn  # noqa: E402


def custom_gemm(a, b, kind, bias=None):
    sides = {Type.FPROP: ("data", "data"), Type.DGRAD: ("data", "data_t"), Type.WGRAD: ("data_t", "data_t")}[kind]
    scales = [getattr(x, side.replace("data", "scale")) for x, side in zip((a, b), sides)]
    assert a.custom and b.custom and a._quantizer.custom and all(s is not None for s in scales)
    y = a._quantizer.qgemm(*(getattr(x, side) for x, side in zip((a, b), sides)), None, a.dtype, *scales, bias, gemm_type=kind,
                           qresult_x=a, qresult_w=b)
    return y.view(*a.original_shape[:-1], -1) if kind is Type.FPROP and len(a.original_shape) > 2 else y


class Multiply(torch.autograd.Function):
    """As TransformerEngine's linear layer: operands are saved as its quantizers give them."""

    @staticmethod
    def forward(ctx, x, weight, bias, makers):
        a, b = makers[0](x), makers[1](weight)
        y = custom_gemm(a, b, Type.FPROP, bias)
        saved = [operand.prepare_for_saving() for operand in (a, b)]
        ctx.save_for_backward(*(t for tensors, _ in saved for t in tensors))
        ctx.operands, ctx.maker = [operand for _, operand in saved], makers[2]
        return y

    @staticmethod
    def backward(ctx, dy):
        left = list(ctx.saved_tensors)
        for operand in ctx.operands:
            left = operand.restore_from_saved(left)
        (a, b), g = ctx.operands, ctx.maker(dy)
        return custom_gemm(g, b, Type.DGRAD).view(a.original_shape), custom_gemm(g, a, Type.WGRAD), g.data.sum(0), None


class Engine(unittest.TestCase):
    def passes(self, multiply, layer):
        x = torch.randn(3, 5, 64, generator=torch.Generator().manual_seed(2)).requires_grad_()
        y = multiply(x, layer)
        y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(3)))
        made = [y.detach(), x.grad, layer.weight.grad.clone()]  # the bias's is TransformerEngine's own sum
        layer.zero_grad()
        return made

    def test_products_are_those_of_converted_layers(self):
        for name in ("mxfp4_all", "mxfp8", "nvfp4"):
            torch.manual_seed(0)
            plain, model = nn.Linear(64, 48), nn.Sequential(nn.Linear(64, 48))
            model[0].load_state_dict(plain.state_dict())
            ft.convert(model, name)
            factory = ft.transformer_engine(name).qfactory
            makers = [factory(role) for role in ("input", "weight", "grad_output")]
            mine = self.passes(lambda x, layer: Multiply.apply(x, layer.weight, layer.bias, makers), plain)
            for what, a, b in zip(("y", "dx", "dw"), mine, self.passes(lambda x, layer: model(x), model[0])):
                self.assertTrue(same(a, b), (name, what))

    def test_tensors_and_steps_have_random_bits_of_their_own(self):
        plain, factory = nn.Linear(64, 48), ft.transformer_engine("mxfp4_sr", seed=4).qfactory
        layers = [[factory(None) for _ in range(3)] for _ in range(2)]
        run = lambda makers: self.passes(lambda x, layer: Multiply.apply(x, layer.weight, layer.bias, makers), plain)  # noqa: E731
        first, again, other = run(layers[0]), run(layers[0]), run(layers[1])
        self.assertTrue(all(same(a, b) for a, b in zip(first, again)))
        self.assertFalse(all(same(a, b) for a, b in zip(first, other)))
        if hasattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook"):
            torch.optim.SGD(nn.Linear(2, 2).parameters(), 1).step()
            self.assertFalse(all(same(a, b) for a, b in zip(first, run(layers[0]))))

    def test_what_is_more_than_three_products_is_refused(self):
        for name, why in (("quartet", "estimator"), ("tetrajet", "recipes of whole products")):
            with self.assertRaisesRegex(f4.Error, f"transformer_engine: recipe {name}: .*{why}"):
                ft.transformer_engine(name)


if __name__ == "__main__":
    unittest.main()
