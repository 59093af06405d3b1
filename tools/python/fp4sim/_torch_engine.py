"""A recipe as TransformerEngine's CustomRecipe; loaded by fp4sim.torch.transformer_engine().

Its quantizers keep tensors as they are. Their qgemm, which TransformerEngine calls for fprop, dgrad and wgrad, quantises
both operands as the product of the recipe says and multiplies them, by fp4sim::gemm.
"""
import itertools

import torch
from transformer_engine.common.recipe import CustomRecipe
from transformer_engine.pytorch.quantized_tensor import QuantizedTensorStorage, Quantizer

from . import _core
from ._checks import recipe_of, seed_of
from ._core import Error
from ._torch_group import on_step, seed_of_rank
from ._torch_ops import is_capturing, signed
from ._torch_sums import PRODUCTS, reason_against, words_of_products


class Operand(QuantizedTensorStorage):
    """A matrix on its way to its products, in the places that TransformerEngine has for codes and scales."""

    custom = True

    def __init__(self, x, quantizer):
        self._quantizer = quantizer
        self.fill(x)

    def fill(self, x):
        self.data = x.detach().reshape(-1, x.shape[-1])
        self.dtype, self.device, self.original_shape = x.dtype, x.device, x.shape
        return self

    @property
    def data_t(self):
        return None if self.data is None else self.data.t()

    @property
    def scale(self):  # asked for, and not used
        return self.data

    scale_t = scale

    def prepare_for_saving(self):
        data, self.data = self.data, None
        return [data], self

    def restore_from_saved(self, tensors):
        self.data = tensors[0]
        return tensors[1:]

    def update_usage(self, rowwise_usage=None, columnwise_usage=None):
        """Rows and columns are one."""

    def size(self, *dims):
        return self.data.size(*dims)


class Operands(Quantizer):
    """What makes the operands of one tensor of a module."""

    custom = True
    with_amax_reduction, amax_reduction_group = False, None

    def __init__(self, products, number):
        super().__init__(rowwise=True, columnwise=True)
        self.internal, self.products, self.number = True, products, number

    def quantize(self, tensor, *, out=None, dtype=None, **how):
        return Operand(tensor, self) if out is None else self.update_quantized(tensor, out)

    def update_quantized(self, src, dst, *, noop_flag=None):
        return dst if noop_flag is not None and noop_flag.item() != 0 else dst.fill(src)

    def qgemm(self, qx, qw, m_params, out_dtype, sx, sw, bias=None, out=None, accumulate=False, gemm_type=None,
              qresult_x=None, qresult_w=None):
        """[M, K] and [N, K] -> [M, N] in out_dtype, summed and biased in float32."""
        y = self.products.multiply(gemm_type.value, self.number, qx, qw)
        if bias is not None and bias.numel():
            y += bias.float()
        return y.to(out_dtype) if not accumulate else out.add_(y.to(out.dtype))


class Products:
    """The factory of a recipe's quantizers: each call of it is for one tensor of a module."""

    def __init__(self, recipe, seed):
        handle = _core.call("layers", recipe=recipe, rows=[("linear", 16, 16, True, False)], backend="auto", steps=0)
        self.recipe = _core.call("layers_facts", layers=handle.address)["recipe"]
        why = reason_against(self.recipe, by_torch=False)
        if why:
            raise Error(f"transformer_engine: recipe {self.recipe['name']}: {why}; accepted: recipes of whole products without it")
        self.words = words_of_products(self.recipe)
        self.seed, self.step, self.numbers = seed, 1, itertools.count()

    def __call__(self, role=None):
        return Operands(self, next(self.numbers))

    def advance(self, *optimizer):
        self.step += 1

    def multiply(self, name, number, a, b):
        if is_capturing(a.device):
            raise Error("transformer_engine: a CUDA graph would keep the random bits of this step; accepted: steps without one")
        product, place = self.recipe[name], PRODUCTS.index(name)
        h = product["hadamard"]
        return torch.ops.fp4sim.gemm(a, b, *self.words[place], product["accumulator"], h["size"], h["signs"], h["normalise"],
                                     signed(seed_of_rank(self.seed)), number * 128 + place * 32, self.step)


def custom_recipe(recipe, seed):
    products = Products(recipe_of(recipe), seed_of(seed))
    on_step(products.advance)
    return CustomRecipe(qfactory=products)
