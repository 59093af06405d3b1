"""Products with torch's sums: operands quantised bit for bit, decoded to bf16 with their block scales in, multiplied by torch."""
import torch

from ._core import Error
from ._torch_tensors import decoded, rotated
from ._words import Spec, words_of

# Bits of a significand; a power of two has none. What both together need, bf16 has while they are at most 8.
ELEMENTS = {"e3m0": 1, "e2m1": 2, "e1m2": 3, "e3m2": 3, "e5m2": 3, "e2m3": 4, "e4m3": 4, "bf16": 8}
SCALES = {"none": 0, "e8m0": 0, "ue4m3": 4, "ue5m3": 4, "ue5m3_61440": 4}
PRODUCTS = "fprop", "dgrad", "wgrad"
OPERAND = {"tensor_scale": ("none", "current"), "choice": ("none",), "source": ("high_precision",), "estimator": ("ste",),
           "scale_estimator": ("ste",), "scale_gradient": ("none",)}


def reason_against(recipe, by_torch=True):
    """Why a recipe, given as JSON has it, is not its products alone, or not by torch's sums; "" where it is."""
    for field in ("phases", "calls", "sparse", "attn", "weights"):
        if recipe.get(field) and (field != "weights" or any(recipe[field].values())):
            return field
    if isinstance(recipe["layers"], list) or not recipe["quantise"]:
        return "layers: rules of single ones"
    for name in PRODUCTS:
        h = recipe[name]["hadamard"]
        if recipe[name].get("split") or (h["size"] and (h["normalise"], h["output"]) != ("sqrt", "fp32")):
            return f"{name}: split, or a Hadamard that is not sqrt in fp32"
        if not (by_torch or isinstance(recipe[name]["accumulator"], str)):
            return f"{name}: an accumulator without a name"
        for side in "ab":
            o = recipe[name][side]
            bits = 9 if o["scale_rule"] == "encode" and o["scale"] != "e8m0" else SCALES.get(o["scale"], 9)  # 1/s needs 24
            if by_torch and ELEMENTS.get(str(o["element"]), 9) + bits > 8:
                return f"{name}.{side}: element {o['element']} with scale {o['scale']} is not exact in bf16"
            wrong = [f"{field} {o[field]}" for field, fits in OPERAND.items() if o.get(field, fits[0]) not in fits]
            if wrong:
                return f"{name}.{side}: {wrong[0]}"
    return ""


def words_of_products(recipe):
    """The specs of both operands of each product."""
    known = Spec().to_dict()
    return [[words_of(Spec(**{f: v for f, v in recipe[name][side].items() if f in known}), {}) for side in "ab"] for name in PRODUCTS]


class Sums:
    """The products of a recipe's layers by torch's sums."""

    def __init__(self, recipe, name):
        why = reason_against(recipe)
        if why:
            raise Error(f"sums: torch's cannot stand for those of recipe {name}: {why}; accepted: recipe")
        self.products, self.words = [recipe[name] for name in PRODUCTS], words_of_products(recipe)

    def multiply(self, number, product, sides, seed, step):
        """Q(A) Q(B)^T of a layer's product 0 (fprop), 1 or 2; the scales of whole tensors come in behind the sums."""
        h, values, factor = self.products[product]["hadamard"], [], 1
        for side, x in enumerate(sides):
            place, x = (seed, number * 128 + product * 32 + side * 16, step), x.detach().float()
            if h["size"]:
                x = rotated(x, h["size"], h["signs"], h["normalise"], False, *place)
            made, scale = decoded(x, self.words[product][side], *place)
            scale = scale / self.products[product]["ab"[side]]["prescale"]
            values.append((made / scale).to(torch.bfloat16))  # off by less than half a place of 8 bits: exact again
            factor = factor * scale
        if not values[0].is_cuda:
            return values[0].float() @ values[1].float().t() * factor
        more = {"out_dtype": torch.float32} if "dtype" in torch.ops.aten.mm.overloads() else {}  # since torch 2.8
        return torch.mm(values[0], values[1].t(), **more) * factor

    def forward(self, number, x, weight, bias, seed, step):
        y = self.multiply(number, 0, (x.reshape(-1, x.shape[-1]), weight), seed, step)
        return (y if bias is None else y + bias.float()).reshape(*x.shape[:-1], -1).to(x.dtype)

    def backward(self, number, dy, x, weight, bias, wanted, seed, step):
        dy, flat = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
        makers = (lambda: self.multiply(number, 1, (dy, weight.t()), seed, step).reshape(x.shape),
                  lambda: self.multiply(number, 2, (dy.t(), flat.t()), seed, step), lambda: dy.float().sum(0))
        return tuple((make() if asked else flat.new_empty(0)).to(x.dtype if t is None else t.dtype)
                     for make, asked, t in zip(makers, wanted, (x, weight, bias)))
