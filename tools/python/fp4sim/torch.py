"""Layers of PyTorch under a recipe; loaded only by `import fp4sim.torch`.

The three products of a layer are those of `fp4sim train`, by the same code: Y = Q(X) Q(W)^T + bias, dX = Q(dY) Q(W^T)^T,
dW = Q(dY^T) Q(X^T)^T, with the recipe's Hadamards, estimators, held scales and random bits, which lie at (seed, layer,
step). Parameters stay float32 in the host's memory; what stands around the layers is torch's own.
"""
import torch as _torch

from . import _core, _whole, _word, _threads, quantize
from ._core import Error


class _Product(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, layer, step, training):
        held = None if bias is None else bias.detach()
        call = layer._layers.forward(layer._number, x.detach(), weight.detach(), held, step, training,
                                     ctx.needs_input_grad[0], layer._threads)
        ctx.save_for_backward(x, weight)  # torch refuses a backward after one of them was changed
        ctx.call = call
        return _torch.from_numpy(call.value())

    @staticmethod
    @_torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        ctx.saved_tensors
        gradients = ctx.call.backward(gradient)
        dx, dw, db = (None if g is None else _torch.from_numpy(g) for g in gradients)
        wanted = ctx.needs_input_grad
        return (dx if wanted[0] else None, dw if wanted[1] else None,
                db[0] if db is not None and wanted[2] else None, None, None, None)


class Linear(_torch.nn.Linear):
    """torch.nn.Linear whose three products follow a recipe ("nvfp4_te", "mxfp4@wgrad", a .json file).

    layer is its number in the model, which with `seed` and the step places the random bits. The step counts forward
    passes of training by itself; set_step() gives it from outside. Evaluation uses the last step and keeps no state.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: str = "nvfp4_te",
                 seed: int = 0, layer: int = 0, steps: int = 0, threads: "int | None" = None, backend: str = "auto"):
        super().__init__(in_features, out_features, bias, device="cpu", dtype=_torch.float32)
        number = _whole(layer, "layer", 0, 2**20)
        rows = [("", 1, 1, False)] * number + [("linear", in_features, out_features, True)]
        layers = _core.Layers(_word(recipe, "--recipe"), rows, _whole(seed, "--seed", 0, 2**64 - 1),
                              _word(backend, "--backend"), _whole(steps, "--steps", 0, 10**9))
        self._adopt(layers, number, recipe, _threads(threads))

    def _adopt(self, layers, number, recipe, threads):
        self._layers, self._number, self.recipe, self._threads = layers, number, recipe, threads
        self.step = 0
        self.counts_steps = True

    def forward(self, x):
        """[..., in_features] -> [..., out_features], float32; other real types are computed in float32 and go back."""
        training = self.training and _torch.is_grad_enabled()
        if training and self.counts_steps:
            self.step += 1
        flat = x.reshape(-1, self.in_features).float()
        y = _Product.apply(flat, self.weight, self.bias, self, max(self.step, 1), training)
        return y.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def extra_repr(self):
        return f"{super().extra_repr()}, recipe={self.recipe}"


def _chosen(found, words, argument):
    """The names of the layers that `words` mean: whole names, or the last word of them."""
    words = [words] if isinstance(words, str) else list(words)
    for word in words:
        if not any(word in (name, name.rsplit(".", 1)[-1]) for name, _ in found):
            raise Error(f"{argument}: no linear layer '{word}'; accepted: {', '.join(name for name, _ in found)}")
    return {name for name, _ in found if name in words or name.rsplit(".", 1)[-1] in words}


def convert(model, recipe: str, *, skip=(), plain=(), seed: int = 0, steps: int = 0,
            threads: "int | None" = None, backend: str = "auto"):
    """Replaces every torch.nn.Linear of `model` by a Linear under one recipe; returns the model.

    Layers are numbered in the order of model.named_modules(); a layer whose name, or the last word of it, is in `skip`
    keeps its number and stays torch's, one in `plain` runs in fp32 by the trainer's own sums, as its heads do. The recipe's own choice of layers (skip_last, names) is among the others: what it
    leaves out runs in bfloat16, as in `fp4sim train`. steps: of the training, which a recipe with phases needs.
    Parameters are kept, not copied. Raises Error for a name in `skip`
    or `plain` that no layer has, and for a model without linear layers.
    """
    found = [(name, m) for name, m in model.named_modules() if type(m) is _torch.nn.Linear]
    if not found:
        raise Error("convert: the model has no torch.nn.Linear")
    skipped, in_fp32 = _chosen(found, skip, "skip"), _chosen(found, plain, "plain")
    for name, module in found:
        if name not in skipped and (module.weight.dtype, module.weight.device.type) != (_torch.float32, "cpu"):
            raise Error(f"convert: {name or 'the layer'} has {module.weight.dtype} weights on {module.weight.device.type};"
                        " accepted: torch.float32 on cpu")
    rows = [(name, m.in_features, m.out_features, name not in skipped | in_fp32) for name, m in found]
    layers = _core.Layers(_word(recipe, "--recipe"), rows, _whole(seed, "--seed", 0, 2**64 - 1),
                          _word(backend, "--backend"), _whole(steps, "--steps", 0, 10**9))
    for number, (name, module) in enumerate(found):
        if name not in skipped:
            module.__class__ = Linear
            module._adopt(layers, number, recipe, _threads(threads))
    return model


def set_step(model, step: int) -> None:
    """Gives every layer of `model` its step (1, 2, ...): it no longer counts forward passes itself."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.step, module.counts_steps = _whole(step, "--step", 1, 2**32 - 1), False


def state(model) -> dict:
    """What a checkpoint needs beside the state_dict: steps, and the held tensor scales of each recipe."""
    layers = [m for m in model.modules() if isinstance(m, Linear)]
    groups = list({id(m._layers): m._layers for m in layers}.values())
    return {"steps": [m.step for m in layers], "held": [g.state() for g in groups]}


def load_state(model, saved: dict) -> None:
    """Puts back what state() gave, for the same model converted in the same way."""
    layers = [m for m in model.modules() if isinstance(m, Linear)]
    groups = list({id(m._layers): m._layers for m in layers}.values())
    if (len(saved["steps"]), len(saved["held"])) != (len(layers), len(groups)):
        raise Error("load_state: the state belongs to another model")
    for module, step in zip(layers, saved["steps"]):
        module.step = step
    for group, held in zip(groups, saved["held"]):
        group.restore(held)


class _CrossEntropy(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        loss, ctx.gradient = _core.cross_entropy(logits.detach(), labels)
        return _torch.tensor(loss)

    @staticmethod
    @_torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return _torch.from_numpy(ctx.gradient) * gradient, None


def cross_entropy(logits, labels):
    """The mean loss of logits [N, classes] by labels [N], bit for bit the trainer's (torch's own differs by ulps)."""
    return _CrossEntropy.apply(logits.float(), [_whole(n, "labels", -2**31, 2**31 - 1) for n in labels.tolist()])


class _Fake(_torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, spec, keywords):
        return _torch.from_numpy(quantize(x.detach(), spec, **keywords).dequantize()).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


def fake_quantize(x, spec="mxfp4", **keywords):
    """x quantised and decoded again; its gradient passes straight through. Keywords as in fp4sim.quantize."""
    return _Fake.apply(x, spec, keywords)


__all__ = ["Linear", "convert", "cross_entropy", "fake_quantize", "load_state", "set_step", "state"]
