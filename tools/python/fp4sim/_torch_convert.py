"""convert(): every product of a model gets a fate - converted, bf16 by the recipe, or left, with the reason."""
import copy
import logging
import os
import warnings
from typing import Any, TypeVar

import torch
from torch import nn

from ._checks import count_of_threads, one_of, recipe_of, seed_of, whole, word
from ._core import Error
from ._results import Table
from ._torch_attention import Attention, rows_of
from ._torch_group import TYPES, Group
from ._torch_layers import Converted, Experts, Own, Plain, Turned, class_of, stacks
from ._torch_ops import place_of
from ._torch_products import has_own_forward, is_conv1d, own_products, torch_kind

CONVERTED, BY_RECIPE, PLAIN, LEFT = "converted", "bf16 by the recipe", "fp32 by `plain`", "left"
OF_TORCH = "fp32 by the recipe"  # products of attention without a rule

Model = TypeVar("Model", bound=nn.Module)


class Site:
    """One module that multiplies matrices: what can be done with it (`way`), or why not (`reason`)."""

    def __init__(self, name, module, way=None, reason="", asked=False):
        self.name, self.module, self.way, self.reason, self.asked = name, module, way, reason, asked
        self.numbers, self.products = [], []

    def rows(self):
        """(linear layers, products of attention) as the library numbers them."""
        m = self.module
        if self.way is Attention:
            return rows_of(self.name, m, True)
        if self.way is Experts:
            return [(f"{self.name}.{name}.{i}", p.shape[2], p.shape[1], True, False) for name, p in stacks(m).items()
                    for i in range(len(p))], []
        turned = self.way is Turned or is_conv1d(m)
        out, size = reversed(m.weight.shape) if turned else m.weight.shape
        return [(self.name, size, out, True, False)], []


def _way(module):
    """(how a module's products can be reached, why they cannot, products it has besides); (None, "", []) without any."""
    others = own_products(module)
    if isinstance(module, torch.jit.ScriptModule):
        return None, "compiled by TorchScript: its products cannot be seen", []
    if isinstance(module, nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return None, "not initialised yet; convert after a first forward", []
    if isinstance(module, nn.Linear):
        if type(module).__module__.startswith("torch.ao") or type(module).__module__.startswith("torch.nn.q"):
            return None, "quantised by torch", []
        if not has_own_forward(module, nn.Linear):
            return Plain, "", []
        if "linear" in others or _calls_up(module):
            return Own, "", [name for name in others if name != "linear"]
        return None, f"its forward multiplies by {', '.join(others) or 'means of its own'}", []
    if isinstance(module, nn.MultiheadAttention):
        if has_own_forward(module, nn.MultiheadAttention):
            return None, "a subclass of MultiheadAttention with a forward of its own", []
        return Attention, "", []
    if is_conv1d(module):
        return Turned, "", []
    if others == ["linear"] and stacks(module):
        return Experts, "", []
    what = torch_kind(module)
    if what:
        return None, what, []
    return None, "", others


def _calls_up(module):
    return any("super" in f.__code__.co_names for cls in type(module).__mro__
               for name, f in vars(cls).items() if name == "forward" and hasattr(f, "__code__"))


def sites_of(model):
    """The sites of a model in the order of named_modules(), modules inside converted attention left out."""
    found, inside = [], ()
    for name, module in model.named_modules():
        if inside and name.startswith(inside):
            continue
        if any(cls.__name__ in ("FullyShardedDataParallel", "FSDPModule") for cls in type(module).__mro__):
            raise Error(f"convert: {name or 'the model'} is sharded by FSDP, which takes weights away from their layers; "
                        "accepted: DistributedDataParallel")
        way, reason, others = _way(module)
        if way is not None or reason:
            found.append(Site(name, module, way, reason))
        if others:
            calls = ", ".join(others)
            found.append(Site(name, module, None, f"{calls} in its own code, where the products are torch's"))
        if way is Attention:
            inside += (name + "." if name else "",)
    return found


def _chosen(sites, words, argument):
    """The sites that `words` mean: whole names, or the last word of them."""
    words = [words] if isinstance(words, str) else list(words)
    names = [s.name for s in sites if s.way is not None]
    for w in words:
        if not any(w in (name, name.rsplit(".", 1)[-1]) for name in names):
            raise Error(f"{argument}: no linear layer '{w}'; accepted: {', '.join(names)}")
    return {name for name in names if name in words or name.rsplit(".", 1)[-1] in words}


def _check_weights(site, group):
    """How its weights come to the kernels, where that is not as they are; Error for types that cannot."""
    for name, p in site.module.named_parameters():
        if p.dtype not in TYPES:
            raise Error(f"convert: {site.name or 'the layer'}: {name} is {p.dtype} on {p.device.type}; accepted: "
                        "torch.float32 on cpu, and by way of it float32, bfloat16 and float16 on any device")
        if not p.is_meta and (p.dtype, p.device.type) != (torch.float32, "cpu"):
            where = place_of(group, p)
            yield (f"{str(p.dtype)[6:]} on {p.device.type}; products are computed in float32 " +
                   (f"on {p.device.type}" if where == str(p.device) else f"on the {where}"))


# long: most of it is what its users read
def convert(model: "Model", recipe: "str | dict[str, Any] | os.PathLike[str]", *, skip: "str | list[str] | tuple[str, ...]" = (),
            plain: "str | list[str] | tuple[str, ...]" = (), seed: int = 0, steps: int = 0, strict: bool = False,
            rank: "int | None" = None, threads: "int | None" = None, backend: str = "auto",
            device: str = "auto", sums: str = "recipe") -> "Model":
    """Puts every product of `model` that can be reached under a recipe; returns the model, and report() tells the rest.

    Reached are torch.nn.Linear, its subclasses (also with a forward of their own around F.linear), weights behind
    parametrisations, transformers' Conv1D and experts (stacked weights, multiplied by slices in F.linear), and torch.nn.MultiheadAttention whole: Q, K, V and out as linear layers, QK^T
    and PV by the recipe's rules for `qk` and `pv`. What else multiplies matrices is left as it is and named by a warning;
    with `strict` it is an Error, and the model stays what it was.

    recipe: its name, the path of its .json file, or a dict as such a file holds it.

    Layers are numbered in the order of model.named_modules(); a layer whose name, or the last word of it, is in `skip`
    keeps its number and stays torch's, one in `plain` runs in fp32 by the trainer's own sums, as its heads do. The
    recipe's own choice of layers (skip_last, names) is among the others: what it leaves out runs in bfloat16, as in
    `fp4sim train`. steps: of the training, which a recipe with phases needs. rank: whose random bits these are; None: the
    rank in torch.distributed. device: "auto" computes products of CUDA tensors in their own memory, in a build with device
    code and where the recipe's kernels are there; "host", or FP4SIM_TORCH=host, by way of the host. sums: "recipe", those of its accumulator, bit for bit; "torch": operands
    quantised bit for bit, decoded to bf16 exactly and multiplied by torch, an Error where bf16 does not hold them. Parameters are kept, not
    copied; those of 16 bits are computed by way of float32. Raises Error for a name in `skip` or `plain` that no layer has, for a model without layers that
    can be reached, and for one that is converted already.
    """
    again = next((name for name, m in model.named_modules() if isinstance(m, Converted)), None)
    if again is not None:
        raise Error(f"convert: the model is converted already ({again or 'the layer'}); accepted: a model of torch's layers")
    sites = sites_of(model)
    reached = [s for s in sites if s.way is not None]
    if not reached:
        raise Error("convert: the model has no torch.nn.Linear" + "".join(f"; {s.name}: {s.reason}" for s in sites[:3]))
    skipped, in_fp32 = _chosen(sites, skip, "skip"), _chosen(sites, plain, "plain")
    if skipped & in_fp32:
        raise Error(f"convert: {', '.join(sorted(skipped & in_fp32))} is in both skip and plain; accepted: one of them")
    rows, later = [], []
    for s in reached:
        layers, products = s.rows()
        s.numbers = list(range(len(rows), len(rows) + len(layers)))
        rows += [(*row[:3], s.name not in skipped | in_fp32, False) for row in layers]
        s.products = products
        s.asked = s.name in skipped
    for s in reached:
        if s.products and not s.asked:
            s.numbers += range(len(rows) + len(later), len(rows) + len(later) + len(s.products))
            later += s.products
    group = Group(recipe_of(recipe), rows + later, seed_of(seed), whole(steps, "--steps", 0, 10**9),
                  count_of_threads(threads), word(backend, "--backend"),
                  None if rank is None else whole(rank, "rank", 0, 2**31 - 1), one_of(device, "device", ("auto", "host")),
                  one_of(sums, "sums", ("recipe", "torch")))
    table = _fates(sites, group, in_fp32)
    left = [row for row in table if row["fate"] == LEFT and not row.pop("asked")]
    for row in table:
        row.pop("asked", None)
    lines = "".join(f"\n  {row['module'] or '(the model)'} ({row['kind']}): {row['reason']}" for row in left)
    if strict and left:
        raise Error(f"convert: {len(left)} products would be left as torch's:{lines}".replace("\n ", ""))
    ways = {way for s in reached if not s.asked for way in _check_weights(s, group)}
    for s in reached:
        if not s.asked:
            s.module.__class__ = class_of(s.way, type(s.module))
            s.module.adopt(group, *s.numbers)
            config = getattr(s.module, "config", None)
            if s.way is Experts and hasattr(config, "_experts_implementation"):  # transformers' grouped kernels go past F.linear
                s.module.config = copy.copy(config)
                s.module.config._experts_implementation = "eager"
    _close_fused_paths(model)
    model.__dict__["_fp4sim_report"] = table
    if left:
        warnings.warn(f"fp4sim: {len(left)} products are left as torch's (fp4sim.torch.report(model)):{lines}", stacklevel=2)
    if ways:
        warnings.warn(f"fp4sim: weights are {', '.join(sorted(ways))}", stacklevel=2)
    for note in group.facts["notes"]:
        warnings.warn(f"fp4sim: recipe {group.label()}: {note}; not done here", stacklevel=2)
    logging.getLogger("fp4sim").info("converted under %s: %d layers, %d left", group.label(), len(rows), len(left))
    return model


def _fates(sites, group, in_fp32):
    """The rows of report()."""
    shared = {}
    table = []
    for s in sites:
        kind = type(s.module).__name__
        if s.way is None or s.asked:
            reason = "by `skip`" if s.asked else s.reason
            table.append(_row(s.name, kind, LEFT, ("",) * 3, -1, reason, s.asked))
            continue
        weight = s.module._parameters.get("weight")
        reason = "" if weight is None else shared.setdefault(id(weight), s.name)
        reason = f"its weight is that of {reason}" if reason and reason != s.name else ""
        for number in s.numbers:
            name = group.rows[number][0]
            follows, words, _ = group.facts["rows"][number]
            if number >= len(group.rows) - sum(len(t.products) for t in sites if not t.asked):
                why = "" if follows else "no rule of the recipe: torch's own product"
                table.append(_row(name, kind, CONVERTED if follows else OF_TORCH, words if follows else ("",) * 3, number, why))
                continue
            fate = CONVERTED if follows else PLAIN if s.name in in_fp32 else BY_RECIPE
            table.append(_row(name, kind, fate, words, number, reason))
    return table


def _row(name, kind, fate, words, number, reason, asked=False):
    return dict(module=name, kind=kind, fate=fate, fprop=words[0], dgrad=words[1], wgrad=words[2], number=number,
                reason=reason, asked=asked)


def _close_fused_paths(model):
    """Encoder layers in evaluation call one fused fp32 kernel instead of their layers where this number is not 0."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and any(isinstance(m, Converted) for m in module.modules()):
            module.activation_relu_or_gelu = 0
        if isinstance(module, nn.TransformerEncoder):
            for name in ("enable_nested_tensor", "use_nested_tensor"):
                if hasattr(module, name):
                    setattr(module, name, False)


def report(model: nn.Module) -> Table:
    """What became of each product of a converted model, a row each: module, kind, fate, the formats of fprop, dgrad and
    wgrad, the layer's number, where its products run now ("cpu", "cuda:0", "host: why"), and the reason where it is left."""
    rows = model.__dict__.get("_fp4sim_report")
    if rows is None:
        raise Error("report: the model is not what fp4sim.torch.convert() returned")
    made = {n: (m._group, m) for m in model.modules() if isinstance(m, Converted) for n in m._numbers}
    for row in rows:
        group, module = made.get(row["number"], (None, None))
        weight = None if module is None else next(module.parameters(), None)
        row["where"] = "" if weight is None else place_of(group, weight)
    return Table.of(rows)
