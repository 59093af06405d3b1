"""What runs in place of a product of PyTorch: groups of layers under one recipe, their steps, and the autograd functions."""
import functools
import json
import os
import sys
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from . import _arrays, _core
from ._core import Error

TYPES = torch.float32, torch.bfloat16, torch.float16
LARGE_STEP = 128  # backward passes of a layer under one step that hardly accumulate gradients


def rank():
    """Of this process among those of torch.distributed; 0 alone."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def autocast_type(device):
    """What autocast computes linear layers in on a device ("cpu", "cuda"); None outside it."""
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    if device == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def shape_alone(*tensors):
    """Whether one of them has no numbers: on torch's device `meta`, or a FakeTensor of its compiler and planners."""
    return any(t is not None and (t.is_meta or type(t).__name__ == "FakeTensor") for t in tensors)


def by_the_interpreter(function):
    """torch.compile ends a graph before this function and begins another behind it, instead of looking inside.

    Its compiler takes seconds to load, so torch.compiler.disable waits until somebody has loaded it.
    """
    if not hasattr(torch, "compiler"):  # torch before 2.1
        return function

    @functools.wraps(function)
    def run(*args, **keywords):
        if "torch._dynamo" not in sys.modules:
            return function(*args, **keywords)
        if not kept:
            kept.append(torch.compiler.disable(function))
        return kept[0](*args, **keywords)

    kept, run._torchdynamo_disable = [], True
    return run


class Group:
    """The layers of one conversion: their recipe, their held scales, and the step they are at.

    A step is what lies between two changes of the weights: the first training forward after one begins the next step, so
    forwards of several micro-batches, and those that checkpointing repeats, belong to one. step() and set_step() say it
    from outside instead.
    """

    def __init__(self, recipe, rows, seed, steps, threads, backend, rank_given=None):
        self.recipe, self.rows, self.seed, self.steps = recipe, rows, seed, steps
        self.threads, self.backend, self.rank = threads, backend, rank_given
        self.step, self.begins, self.watches = 0, False, True
        self.open(recipe)

    def open(self, recipe):
        self.handle = _core.call("layers", recipe=recipe, rows=self.rows, backend=self.backend, steps=self.steps)
        self.facts = _core.call("layers_facts", layers=self.handle.address)
        self.asks = '"calls"' in json.dumps(self.facts["recipe"])  # Python's own rounding or scale
        self.known, self.weights, self.total = {}, [], None  # watched parameters, and the sum of their versions
        self.passes, self.warned = 0, False

    def label(self):
        return self.facts["recipe"]["name"] if self.recipe.startswith("{") else os.path.basename(self.recipe)

    def quantised(self, number):
        return self.facts["rows"][number][0]

    # Copies and pickles have the library's state in place of its handle.
    def __getstate__(self):
        kept = {name: value for name, value in self.__dict__.items()
                if name not in ("handle", "facts", "asks", "known", "weights", "total", "passes", "warned")}
        return dict(kept, begins=self.begins or self.changed(), held=self.held(), canonical=self.facts["recipe"])

    def __setstate__(self, state):
        state = dict(state)
        held, canonical = state.pop("held"), state.pop("canonical")
        self.__dict__.update(state)
        self.open(json.dumps(canonical))
        self.restore(held)

    def held(self):
        return _core.call("layers_state", layers=self.handle.address)

    def restore(self, held):
        _core.call("layers_restore", layers=self.handle.address, state=held)

    def watch(self, number, module):
        """Counts the module's parameters among those whose change begins a step."""
        mark = id(next(module.parameters(), None))
        if self.known.get(number) == mark:
            return
        self.known[number] = mark
        seen = {id(p) for p in self.weights}
        fresh = [p for p in module.parameters() if id(p) not in seen]
        self.weights += fresh
        if self.total is not None:
            self.total += sum(p._version for p in fresh)

    def changed(self):
        return self.watches and self.total is not None and sum(p._version for p in self.weights) != self.total

    def at(self, training):
        """The step of a forward pass."""
        if not training:
            return max(self.step, 1)
        if self.watches and self.total is None:
            self.total = sum(p._version for p in self.weights)
        if self.step == 0 or self.begins or self.changed():
            self.step, self.begins, self.passes = self.step + 1, False, 0
            self.total = sum(p._version for p in self.weights)
        return self.step

    def count_backward(self, number):
        if number == 0 and self.watches:
            self.passes += 1
            if self.passes > LARGE_STEP and not self.warned:
                self.warned = True
                warnings.warn(f"fp4sim: {self.passes} backward passes with unchanged weights are one step, with the same "
                              "random bits; where the optimizer writes past autograd (p.data), call fp4sim.torch.step(model)")

    def place(self, training):
        mine = rank() if self.rank is None else self.rank
        return {"seed": (self.seed + (mine << 32)) % 2**64, "step": self.at(training), "training": training,
                "threads": self.threads}

    @by_the_interpreter
    def product(self, module, number, x, weight, bias=None, parts=1, sizes=(0, 0)):
        """`parts` products X [N, K] W[out, K]^T + bias of one layer, one behind the other; float32 of the host."""
        if torch.jit.is_tracing():
            raise Error(f"{self.rows[number][0]}: a trace (torch.jit.trace, ONNX) would keep this call's numbers as constants; "
                        "accepted: the model before convert()")
        self.watch(number, module)
        training = module.training
        records = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
        return _Product.apply(x, weight, bias, self, number, parts, sizes, training, records)

    @by_the_interpreter
    def linear(self, module, number, x, weight, bias):
        """[..., in] -> [..., out]; types as torch.nn.Linear has them, computed in float32 by the host."""
        row = self.rows[number]
        # fully_shard gives whole weights to a forward and hooks itself to the module that owns them.
        sharded = any((getattr(hook, "__module__", "") or "").startswith("torch.distributed.fsdp")
                      for hook in module._load_state_dict_post_hooks.values())
        if sharded or tuple(weight.shape) != (row[2], row[1]) or type(weight).__name__ == "DTensor":
            raise Error(f"{row[0]}: its weight is {type(weight).__name__} {tuple(weight.shape)}, not {(row[2], row[1])}; "
                        "FSDP and the like cannot be used, DDP can")
        if x.dim() == 0 or x.shape[-1] != row[1]:
            raise Error(f"{row[0]}: the input is {tuple(x.shape)}; accepted: [..., {row[1]}]")
        if x.dtype not in TYPES:
            raise Error(f"{row[0]}: the input is {x.dtype}; accepted: {', '.join(map(str, TYPES))}")
        if shape_alone(x, weight, bias):  # nothing is computed: torch's product has the shape, the type and the gradients
            return nn.functional.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
        x = x.to(autocast_type(x.device.type) or x.dtype)
        flat = x.reshape(-1, row[1]).to("cpu", torch.float32)
        y = self.product(module, number, flat, on_host(weight), None if bias is None else on_host(bias), 1, (row[1], row[2]))
        return y.reshape(*x.shape[:-1], row[2]).to(x.device, x.dtype)


def on_host(t):
    return t.to("cpu", torch.float32)


class _Call:
    """One forward pass inside the library, and the memory it reads; the number it shows to numpy is its address."""

    def __init__(self, handle, keep):
        self.handle, self.keep = handle, keep
        self.number = np.array([handle.address], np.int64)
        self.__array_interface__ = self.number.__array_interface__


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, group, number, parts, sizes, training, records):
        sent = [_arrays.matrix(t.detach(), name) if t is not None else (None, None)
                for t, name in ((x, "x"), (weight, "weight"), (bias, "bias"))]
        arguments, keep = zip(*sent)
        work = keep[0].size * (keep[1].shape[0] // parts) // 64
        made = _core.call("layer_forward", layers=group.handle.address, number=number, parts=parts, x=arguments[0],
                          weight=arguments[1], bias=arguments[2], records=records, needs_input=ctx.needs_input_grad[0],
                          **{"in": sizes[0], "out": sizes[1]}, **group.place(training), keep=(group, keep),
                          long=work > _core.LONG, asks=group.asks)
        if records:
            # The pass lives in a saved tensor: what drops those and computes them again (checkpointing) drops it, too.
            token = torch.from_numpy(np.asarray(_Call(made["call"], (group, keep))))
            ctx.save_for_backward(x, weight, token)  # torch refuses a backward after x or the weight was changed
            ctx.watch = group, number
        return torch.from_numpy(made["value"])

    @staticmethod
    def backward(ctx, gradient):
        x, weight, token = ctx.saved_tensors
        group, number = ctx.watch
        group.count_backward(number)
        dx, dw, db = _Gradients.apply(gradient, x, weight, token, group.asks)
        wanted = ctx.needs_input_grad
        return (dx if wanted[0] else None, dw if wanted[1] else None, db if wanted[2] else None, None, None, None, None,
                None, None)


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradient, x, weight, token, asks):
        given, keep = _arrays.matrix(gradient.detach(), "gradient")
        work = keep.size * x.shape[-1] // 64
        made = _core.call("layer_backward", call=int(token[0]), gradient=given, keep=(keep, token),
                          long=work > _core.LONG, asks=asks)
        dx, dw, db = (None if made[name] is None else torch.from_numpy(made[name]) for name in ("x", "weight", "bias"))
        return dx, dw, None if db is None else db[0]

    @staticmethod
    def backward(ctx, *gradients):
        raise Error("second derivatives of a converted layer do not exist: its gradient is made of quantised products; "
                    "accepted: backward() without create_graph, or layers left out of convert() by skip=")


class Converted:
    """What every converted module is: forward by its group, under its number."""

    def adopt(self, group, number):
        self._group, self._number = group, number
        self._leaf = "weight" in self._parameters
        return self

    @property
    def step(self) -> int:
        """The step of its last training forward; 0 before the first."""
        return self._group.step

    @property
    def recipe(self) -> str:
        """Its name, its file, or the JSON of a dict."""
        return self._group.recipe

    def product(self, x, weight):
        if self._leaf and "weight" not in self._parameters:
            raise Error(f"{self._group.rows[self._number][0]}: its weight is no parameter any more; FSDP and the like "
                        "cannot be used, DDP can")
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
    """Makes a layer's product of torch.nn.functional.linear by the layer's own weight."""

    def __init__(self, module):
        super().__init__()
        self.module, self.met = module, False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is nn.functional.linear:
            given = dict(zip(("input", "weight", "bias"), args), **kwargs)
            if given["weight"] is self.module.weight:
                self.met = True
                return self.module._group.linear(self.module, self.module._number, given["input"], given["weight"],
                                                 given.get("bias"))
        return function(*args, **kwargs)


class Own(Converted):
    """A subclass of torch.nn.Linear with a forward of its own, which meets the layer's product in F.linear."""

    def forward(self, *args, **kwargs):
        with _Watched(self) as watched:
            y = super().forward(*args, **kwargs)
        if not watched.met:
            raise Error(f"{self._group.rows[self._number][0]}: its forward did not multiply by its weight through "
                        "torch.nn.functional.linear, so nothing was quantised; accepted: convert(.., skip=[..])")
        return y


_classes = {}


def class_of(way, base):
    """The class `base` with the forward of a way of Converted; one for each pair, so that isinstance() still holds."""
    if base in (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear) and way is Plain:
        return Linear
    if (way, base) not in _classes:
        _classes[way, base] = type(base.__name__, (way, base), {
            "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
            "__reduce_ex__": lambda self, protocol: (blank, (way, base), self.__dict__)})
    return _classes[way, base]


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


def groups(model):
    """The groups of a model's converted modules, in its order."""
    found = {id(m._group): m._group for m in model.modules() if isinstance(m, Converted)}
    if not found:
        raise Error("the model has no converted layer; accepted: what fp4sim.torch.convert() gives")
    return list(found.values())
