"""What runs in place of a module of PyTorch: the converted modules, and the classes that they get."""
import os
from typing import Any

import torch
from torch import nn

from ._core import Error
from ._torch_group import Group


class Converted:
    """What every converted module is: forward by its group, under its number."""

    def adopt(self, group, *numbers):
        self._group, self._number, self._numbers = group, numbers[0], numbers
        self._leaf = "weight" in self._parameters
        group.add(self, numbers)
        return self

    def __setstate__(self, state):
        super().__setstate__(state)
        if self._group.module(self._number) is None:  # not copy.copy, whose group has the original
            self._group.add(self, self._numbers)

    @property
    def step(self) -> int:
        """The step of its last training forward; 0 before the first. Of a captured model: the last that has ended."""
        return self._group.now()[0]

    @property
    def recipe(self) -> str:
        """Its name, its file, or the JSON of a dict."""
        return self._group.recipe

    def product(self, x, weight):
        if self._leaf and "weight" not in self._parameters:
            raise Error(f"{self._group.rows[self._number][0]}: its weight is no parameter any more; FSDP of torch 1 and the like "
                        "cannot be used, fully_shard and DDP can; prune and parametrise before convert()")
        return self._group.linear(self, self._number, x, weight, self.bias)

    def extra_repr(self):
        return ", ".join(filter(None, (super().extra_repr(), f"recipe={self._group.label()}")))


class Plain(Converted):
    """A linear layer that multiplies by its weight and does nothing else."""

    def forward(self, x):
        return self.product(x, self.weight)


class Turned(Converted):
    """The same with a weight [in, out], as in transformers' Conv1D."""

    def forward(self, x):
        return self.product(x, self.weight.t())


class _Watched(torch.overrides.TorchFunctionMode if hasattr(torch.overrides, "TorchFunctionMode") else object):
    """Makes layers' products of torch.nn.functional.linear by their own weights."""

    def __init__(self, module):
        super().__init__()
        self.module, self.met = module, False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is nn.functional.linear:
            given = dict(zip(("input", "weight", "bias"), args), **kwargs)
            number = self.module._number_of(given["weight"])
            if number is not None:
                self.met = True
                return self.module._group.linear(self.module, number, given["input"], given["weight"], given.get("bias"))
        return function(*args, **kwargs)


class Own(Converted):
    """A subclass of torch.nn.Linear with a forward of its own, which meets the layer's product in F.linear."""

    def _number_of(self, weight):
        return self._number if weight is self.weight else None

    def forward(self, *args, **kwargs):
        with _Watched(self) as watched:
            y = super().forward(*args, **kwargs)
        if not watched.met and all(t.numel() for t in args if isinstance(t, torch.Tensor)):
            raise Error(f"{self._group.rows[self._number][0]}: its forward did not multiply by its weight through "
                        "torch.nn.functional.linear, so nothing was quantised; accepted: convert(.., skip=[..])")
        return y


def stacks(module):
    """Weights [experts, out, in] by name."""
    return {name: p for name, p in module._parameters.items() if p is not None and p.dim() == 3}


class Experts(Own):
    """Experts of a mixture, whose forward meets the product of each in F.linear by a slice of their stacked weights."""

    def _number_of(self, weight):
        first = 0
        for stack in stacks(self).values():
            into, step = weight.data_ptr() - stack.data_ptr(), stack.stride(0) * stack.element_size()
            if weight.shape == stack.shape[1:] and 0 <= into < step * len(stack) and into % step == 0:
                return self._numbers[first + into // step]
            first += len(stack)
        raise Error(f"{self._group.rows[self._number][0]}: its forward multiplies by a weight {tuple(weight.shape)} that is "
                    "no slice of its stacks; accepted: convert(.., skip=[..])")


_classes = {}


def class_of(way, base):
    """The class `base` with the forward of a way of Converted; one for each pair, so that isinstance() still holds."""
    if base in (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear) and way is Plain:
        return Linear
    if (way, base) not in _classes:
        _classes[way, base] = type(base.__name__, (way, base), {
            "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
            "__reduce_ex__": lambda self, protocol: (blank, (way, base), self.__dict__)})
        allow((_classes[way, base], f"fp4sim.{way.__name__}.{base.__module__}.{base.__qualname__}"))
    return _classes[way, base]


def allow(*things):
    """Lets torch.load take them with weights_only=True."""
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals(list(things))


def blank(way, base):
    made = class_of(way, base)
    return made.__new__(made)


class Linear(Plain, nn.Linear):
    """torch.nn.Linear whose three products follow a recipe ("nvfp4_te", "mxfp4@wgrad", a .json file).

    layer is its number in the model, which with `seed` and the step places the random bits. A step is what lies between
    two changes of its weights (see fp4sim.torch.step); evaluation uses the last step and keeps no state.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *,
                 recipe: "str | dict[str, Any] | os.PathLike[str]" = "nvfp4_te",
                 seed: int = 0, layer: int = 0, steps: int = 0, threads: "int | None" = None, backend: str = "auto"):
        from ._checks import count_of_threads, recipe_of, seed_of, whole, word

        super().__init__(in_features, out_features, bias, device="cpu", dtype=torch.float32)
        number = whole(layer, "layer", 0, 2**20)
        rows = [("", 1, 1, False, False)] * number + [("linear", in_features, out_features, True, False)]
        self.adopt(Group(recipe_of(recipe), rows, seed_of(seed), whole(steps, "--steps", 0, 10**9),
                         count_of_threads(threads), word(backend, "--backend")), number)


allow(Group, blank, Plain, Turned, Own, Experts, Linear, set, nn.Linear, nn.MultiheadAttention,
      nn.modules.linear.NonDynamicallyQuantizableLinear)


def groups(model):
    """The groups of a model's converted modules, in its order."""
    found = {id(m._group): m._group for m in model.modules() if isinstance(m, Converted)}
    if not found:
        raise Error("the model has no converted layer; accepted: what fp4sim.torch.convert() gives")
    return list(found.values())
