"""Layers of PyTorch under a recipe; loaded only by `import fp4sim.torch`.

The three products of a layer are those of `fp4sim train`, by the same code: Y = Q(X) Q(W)^T + bias, dX = Q(dY) Q(W^T)^T,
dW = Q(dY^T) Q(X^T)^T, with the recipe's Hadamards, estimators, held scales and random bits, which lie at (seed + rank,
layer, step). Products are computed in float32 where their tensors lie; what stands around the layers is torch's own.
"""
from typing import Any as _Any

import torch as _torch

from . import _arrays, _core
from ._checks import seed_of as _seed_of
from ._checks import whole as _whole
from ._core import Error
from ._torch_convert import convert, report
from ._torch_layers import Linear, groups as _groups
from ._torch_tensors import Quantized, fake_quantize, gemm, hadamard, quantize


def step(model: _torch.nn.Module) -> None:
    """The optimizer has stepped: the next training forward of `model` begins a new step.

    Without this call a step begins where a parameter of a converted layer has changed since the last forward, which
    sees torch's optimizers, but none that writes through `.data`.
    """
    for group in _groups(model):
        group.begin()
        group.watches = False


def set_step(model: _torch.nn.Module, step: int) -> None:
    """Gives every layer of `model` its step (1, 2, ...), until it is set again."""
    for group in _groups(model):
        group.set_step(_whole(step, "--step", 1, 2**32 - 1))
        group.watches = False


def set_seed(model: _torch.nn.Module, seed: int) -> None:
    """Random bits of `model` from here on are those of this seed, in compiled models and captured graphs, too."""
    for group in _groups(model):
        group.set_seed(_seed_of(seed))


def state(model: _torch.nn.Module) -> "dict[str, _Any]":
    """What a checkpoint needs beside the state_dict: steps, and the held tensor scales of each recipe."""
    return {"groups": [dict(zip(("step", "begins"), g.now()), held=g.held()) for g in _groups(model)]}


def load_state(model: _torch.nn.Module, saved: "dict[str, _Any]") -> None:
    """Puts back what state() gave, for the same model converted in the same way; before or after load_state_dict."""
    groups = _groups(model)
    if "steps" in saved:
        raise Error("load_state: a state of fp4sim 0.2.0, whose held scales lie otherwise; accepted: load_state_dict(), then "
                    f"fp4sim.torch.set_step(model, {max(saved['steps'], default=0)}), which makes them anew")
    if [set(g) for g in saved.get("groups", ())] != [{"step", "begins", "held"}] * len(groups):
        raise Error("load_state: the state belongs to another model")
    for group, mine in zip(groups, saved["groups"]):
        group.restore(mine["held"])
        group.set_step(mine["step"], mine["begins"])
        group.versions = {}


class Converter:
    """convert() as torchtitan's ModelConverter: convert(model) before it is compiled and sharded."""

    def __init__(self, recipe: "str | dict[str, _Any]", **how: _Any):
        self.recipe, self.how = recipe, how

    def convert(self, model: _torch.nn.Module) -> None:
        convert(model, self.recipe, **self.how)

    def post_optimizer_hook(self, model: _torch.nn.Module) -> None:
        """Each optimizer tells its steps itself."""


def transformer_engine(recipe: "str | dict[str, _Any]", seed: int = 0) -> "_Any":
    """A recipe for transformer_engine.pytorch.autocast(recipe=..): TransformerEngine's modules multiply by its three products.

    Which layers are quantised is what autocast stands around; a step of any optimizer begins the next step. Error for recipes
    that are more than three products of whole operands with straight-through gradients.
    """
    from ._torch_engine import custom_recipe

    return custom_recipe(recipe, seed)


class _CrossEntropy(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        given, keep = _arrays.matrix(logits.detach(), "logits")
        made = _core.call("cross_entropy", logits=given, labels=labels, keep=keep)
        ctx.gradient = made["gradient"]
        return _torch.from_numpy(made["loss"])[0]

    @staticmethod
    @_torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return _torch.from_numpy(ctx.gradient) * gradient, None


def cross_entropy(logits: _torch.Tensor, labels: _torch.Tensor) -> _torch.Tensor:
    """The mean loss of logits [N, classes] by labels [N], bit for bit the trainer's (torch's own differs by ulps)."""
    return _CrossEntropy.apply(logits.float(), [_whole(n, "labels", -2**31, 2**31 - 1) for n in labels.tolist()])


__all__ = ["Converter", "Linear", "Quantized", "convert", "cross_entropy", "fake_quantize", "gemm", "hadamard", "load_state", "quantize",
           "report", "set_seed", "set_step", "state", "step", "transformer_engine"]
