"""Groups of layers under one recipe: their steps, and the products that torch's modules ask of them."""
import importlib
import itertools
import json
import os
import warnings
import weakref

import torch

from . import _core
from ._core import Error
from ._torch_ops import GROUPS, LENT, call, is_capturing, is_exporting, reaches, signed

TYPES = torch.float32, torch.bfloat16, torch.float16
SAMPLE = 64  # weights of a group's first layer that tell whether somebody writes past autograd


def rank():
    """Of this process among those of torch.distributed; 0 alone."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def seed_of_rank(seed, given=None):
    """The seed of this process's random bits."""
    return (seed + ((rank() if given is None else given) << 32)) % 2**64


def autocast_type(device):
    """What autocast computes linear layers in on a device ("cpu", "cuda"); None outside it."""
    if device == "meta":
        return None
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    if device == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def parameters_of(module):
    """Those of a module; quickly where it is a leaf."""
    return list(module.parameters()) if module._modules else [p for p in module._parameters.values() if p is not None]


def is_sharded(module, parameters):
    """Whether FSDP takes its weights away between its passes."""
    hooks = module._load_state_dict_post_hooks.values()
    return bool(hooks) and any((getattr(hook, "__module__", "") or "").startswith("torch.distributed.fsdp") for hook in hooks) or (
        "DTensor" in [type(p).__name__ for p in parameters])


_keys = itertools.count(1)


class Group:
    """The layers of one conversion: their recipe, their held scales, and the step they are at.

    A step is what lies between two changes of the weights: forwards of several micro-batches, and those that checkpointing
    repeats, belong to one. The first training forward after a step of an optimizer that holds one of their parameters begins
    the next (torch tells it, fused and compiled ones included), and so does one that meets a parameter which autograd saw
    change. step() and set_step() say it from outside instead.

    Each lent device has a clock beside it, a token [0, seed, step, 1] of the forward to come. A CUDA graph replays calls without
    Python: from the first capture on kernels read seed and step there, and what ends a step advances it on the device, in a
    graph or outside.
    """

    def __init__(self, recipe, rows, seed, steps, threads, backend, rank_given=None, device="auto", sums="recipe"):
        self.recipe, self.rows, self.seed, self.steps = recipe, rows, seed, steps
        self.threads, self.backend, self.rank, self.device, self.sums = threads, backend, rank_given, device, sums
        self.step, self.begins, self.watches = 0, False, True
        self.open(recipe)

    def open(self, recipe):
        self.handle = _core.call("layers", recipe=recipe, rows=self.rows, backend=self.backend, steps=self.steps)
        self.facts = _core.call("layers_facts", layers=self.handle.address)
        self.asks = '"calls"' in json.dumps(self.facts["recipe"])  # Python's own rounding or scale
        self.by_torch = None
        if self.sums == "torch":
            from ._torch_sums import Sums  # it stands on operators

            self.by_torch = Sums(self.facts["recipe"], self.label())
        # By layer what it keeps for its backward in X's place, bytes by rows; None: X.
        self.kept = [None if self.by_torch else row[2] for row in self.facts["rows"]]
        # By layer whether kernels take bf16 as it is: not the plain product of fp32, which phases may bring.
        self.narrow = [not self.facts["recipe"].get("phases") and "fp32" not in row[1] for row in self.facts["rows"]]
        self.modules = {}  # number: reference to the module that multiplies
        self.versions, self.seen = {}, set()  # of their parameters by number; numbers with a forward in this step
        self.first, self.sample, self.passes, self.warned = None, None, 0, False
        self.clocks, self.is_captured = {}, False
        self.key = next(_keys)
        GROUPS[self.key] = self

    def add(self, module, numbers):
        for number in numbers:
            self.modules[number] = weakref.ref(module)

    def module(self, number):
        return self.modules.get(number, lambda: None)()

    def parameters(self):
        found = {id(m): m for m in map(self.module, self.modules) if m is not None}
        return [p for module in found.values() for p in module.parameters()]

    def label(self):
        return self.facts["recipe"]["name"] if self.recipe.startswith("{") else os.path.basename(self.recipe)

    def quantised(self, number):
        return self.facts["rows"][number][0]

    # Copies and pickles have the library's state in place of its handle.
    def __getstate__(self):
        kept = {name: value for name, value in self.__dict__.items()
                if name not in ("handle", "facts", "asks", "by_torch", "kept", "narrow", "modules", "versions", "seen", "first", "sample", "passes", "warned",
                                "clocks", "is_captured", "key")}
        step, begins = self.now()
        return dict(kept, step=step, begins=begins, held=self.held(), canonical=self.facts["recipe"])

    def __setstate__(self, state):
        if "sums" not in state:
            raise _core.SAVED_WHOLE
        state = dict(state)
        held, canonical = state.pop("held"), state.pop("canonical")
        self.__dict__.update(state)
        self.open(json.dumps(canonical))
        self.restore(held)

    def held(self):
        return _core.call("layers_state", layers=self.handle.address)

    def restore(self, held):
        _core.call("layers_restore", layers=self.handle.address, state=held)

    def version(self, number):
        """The sum over its parameters; None for none that counts."""
        module = self.module(number)
        if module is None or is_sharded(module, own := parameters_of(module)):
            return None
        return sum([p._version for p in own if not p.is_inference()])

    def changed(self, numbers=None):
        """Whether autograd has seen a parameter change since this step began."""
        return self.watches and any(self.versions[n] != self.version(n) for n in (numbers or self.versions) if n in self.versions)

    def now(self):
        """(the step, whether the next training forward begins another)."""
        for clock in self.clocks.values() if self.is_captured else ():
            return max(int(clock[2]) - 1, 0), True
        return self.step, self.begins or self.changed()

    def begin(self):
        """The next training forward begins a step."""
        if not self.begins or (self.is_captured and not is_capturing(next(iter(self.clocks)))):
            self.begins = True
            self.advance()

    def advance(self):
        for clock in self.clocks.values():
            clock[2].add_(1)

    def set_seed(self, seed):
        self.seed = seed
        for clock in self.clocks.values():
            clock[1].fill_(signed(self.seed_here()))

    def set_step(self, step, begins=False):
        self.step, self.begins = step, begins
        for clock in self.clocks.values():
            clock[2].fill_(step + begins)

    def clock(self, x, number):
        """Where the kernels of x's device read their step; None where Python says it."""
        captures = is_capturing(x.device)
        if captures and not self.is_captured:
            why = self.against_capture(x)
            if why:
                raise Error(f"{self.rows[number][0]}: a CUDA graph would keep the numbers of this step: {why}")
            self.is_captured = True
        if x.device not in self.clocks and x.device.type in LENT:
            step, begins = self.now() if self.is_captured else (self.step, self.begins)
            with torch.inference_mode(False):
                self.clocks[x.device] = torch.tensor([0, signed(self.seed_here()), step + begins, 1]).to(x.device)
        return self.clocks[x.device] if self.is_captured and x.device in self.clocks else None

    def against_capture(self, x):
        """Why only Python can make each of its steps; empty where a device can."""
        lends, why = reaches(self, x)
        recipe = self.facts["recipe"]
        reasons = {"accepted: after a training step outside of it": x.device not in self.clocks,
                   "this torch tells no step of an optimizer; accepted: fp4sim.torch.step(model) after each": self.watches and not TELLS,
                   f"its products run on the host, {why}": not lends, "its rounding or scale is Python's": self.asks,
                   "sums='torch' draws for each call": self.by_torch is not None,
                   f"recipe {recipe['name']} has phases": bool(recipe.get("phases")),
                   f"recipe {recipe['name']} holds scales": max(self.held()) >= 0}
        return next((reason for reason, holds in reasons.items() if holds), "")

    def at(self, number, training):
        """The step of a forward pass, as Python counts."""
        if not training:
            return max(self.step, 1)
        if self.step == 0 or self.begins or self.changed((number,) if TELLS and number not in self.seen else None):
            if not self.begins:
                self.advance()
            self.step, self.begins, self.passes, self.first = self.step + 1, False, 0, number
            self.seen.clear()
            self.versions = {n: self.version(n) for n in self.versions}
            self.sample = self.sampled(number)
        elif number == self.first and not self.is_captured:
            self.doubt(number)
        self.seen.add(number)
        if number not in self.versions:
            self.versions[number] = self.version(number)
        return self.step

    def sampled(self, number):
        module = self.module(number)
        weight = None if module is None else next((p.detach() for p in module.parameters() if p.requires_grad), None)
        if weight is None or not self.watches or self.warned:
            return None
        return weight.reshape(-1)[::max(weight.numel() // SAMPLE, 1)].clone()

    def doubt(self, number):
        """Warns where weights were changed and nobody said so: looks after 1, 2, 4, .. backward passes of one step."""
        if self.sample is None or self.passes & (self.passes - 1) or self.passes == 0:
            return
        now = self.sampled(number)
        if now is not None and (now.shape != self.sample.shape or not torch.equal(now, self.sample)):
            self.warned = True
            warnings.warn(f"fp4sim: weights changed after backward pass {self.passes} of step {self.step}, past autograd and "
                          "torch.optim, so that steps share their random bits; call fp4sim.torch.step(model) after them")

    def count_backward(self, number):
        self.passes += number == self.first

    def place(self, number, training):
        """(seed, step) of a forward pass that runs now."""
        return self.seed_here(), self.at(number, training)

    def seed_here(self):
        return seed_of_rank(self.seed, self.rank)

    def refuse_traces(self, number):
        if torch.jit.is_tracing():
            raise Error(f"{self.rows[number][0]}: a trace (torch.jit.trace, ONNX) would keep this call's numbers as constants; "
                        "accepted: torch.export, or the model before convert()")

    def product(self, module, number, x, weight):
        """[.., N, K] and [.., M, K] -> [.., N, M], a product for each leading index."""
        self.refuse_traces(number)
        return call("product", x, weight, None, self.key, number, module.training, False)[0]

    def linear(self, module, number, x, weight, bias):
        """[..., in] -> [..., out]; types as torch.nn.Linear has them, computed in float32."""
        name, into, out = self.rows[number][0] or "the layer", *self.rows[number][1:3]
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
            raise Error(f"{name}: the input is {getattr(x, 'layout', type(x).__name__)}; accepted: dense tensors of torch")
        self.refuse_traces(number)
        if type(weight).__name__ == "DTensor":
            raise Error(f"{name}: its weight is a DTensor, sharded over processes; accepted: fully_shard of torch 2, which gives "
                        "whole weights to a forward, and DistributedDataParallel")
        if tuple(weight.shape) != (out, into):
            raise Error(f"{name}: its weight was {(out, into)} when convert() saw it and is {tuple(weight.shape)}; accepted: resize "
                        "first, then convert (FSDP of torch 1 is refused)")
        if x.dim() == 0 or x.shape[-1] != into:
            raise Error(f"{name}: the input is {tuple(x.shape)}; accepted: [..., {into}]")
        if x.dtype not in TYPES:
            raise Error(f"{name}: the input is {x.dtype}; accepted: {', '.join(map(str, TYPES))}")
        kind = autocast_type(x.device.type)
        if kind is not None:  # all three, as torch's linear layers
            x, weight, bias = (t if t is None else t.to(kind) for t in (x, weight, bias))
        if bias is not None and tuple(bias.shape) != (out,):  # what torch broadcasts
            return self.linear(module, number, x, weight, None) + bias
        # On the CPU codes in X's place take a fifth of a layer's time; a device has less memory.
        keeps = (self.kept[number] is not None and x.device.type in LENT and weight.requires_grad and torch.is_grad_enabled()
                 and not is_exporting())
        return call("linear", x, weight, bias, self.key, number, module.training, keeps)[0]


def _stepped(optimizer, *rest):
    """torch calls this after each step of an optimizer."""
    stepped = {id(p) for part in optimizer.param_groups for p in part["params"]}
    for group in list(GROUPS.values()):
        if group.watches and any(id(p) in stepped for p in group.parameters()):
            group.begin()


_optimizer = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it
TELLS = hasattr(_optimizer, "register_optimizer_step_post_hook")


def on_step(told):
    """told(optimizer, ..) after each step of any optimizer, where torch tells it."""
    if TELLS:
        _optimizer.register_optimizer_step_post_hook(told)


on_step(_stepped)
