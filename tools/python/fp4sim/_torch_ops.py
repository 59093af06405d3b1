"""The products of converted layers as operators of torch, fp4sim::linear and the rest: what compilers, exporters and autograd see.

They name a group and a layer by numbers; seed and step are looked up when they run, and handed on in a tensor, so that the
backward draws what its forward drew. Their code is fp4d_linear of the library (tools/python/bound_layers.h), on memory of the
host or of a lent device.
"""
import contextlib
import ctypes
import functools
import math
import os
import struct
import weakref

import torch

from . import _core
from ._core import Error

LENT = {"cuda"}  # types of devices whose memory the library's kernels reach (HIP calls itself cuda, too)
GROUPS = weakref.WeakValueDictionary()  # by their numbers in the operators
EXPORTED = set()  # groups that a graph may outlive its model with
MATRICES = "x", "weight", "bias", "y", "dy", "dx", "dw", "db", "kept"


class Lender(ctypes.Structure):
    _fields_ = [("take", ctypes.c_void_p), ("give", ctypes.c_void_p), ("of", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("clock", ctypes.c_void_p), ("device", ctypes.c_int)]


class _Call(ctypes.Structure):
    _fields_ = [("lender", ctypes.POINTER(Lender)), ("seed", ctypes.c_uint64), ("mark", ctypes.c_uint64),
                ("step", ctypes.c_uint32),
                *((name, ctypes.c_int32) for name in ("number", "parts", "rows", "into", "out", "training", "threads", "bf16")),
                *((name, ctypes.c_void_p) for name in MATRICES)]

    def point(self, **matrices):
        """At tensors, None for none; a bit each for those of bfloat16."""
        for name, t in matrices.items():
            if t is not None:
                setattr(self, name, t.data_ptr())
                if t.dtype is torch.bfloat16:
                    self.bf16 |= 1 << MATRICES.index(name)


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def _take(size, stream):
    try:
        return torch._C._cuda_cudaCachingAllocator_raw_alloc(size, stream or 0)
    except RuntimeError:  # out of memory: the library says so
        return None


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def _give(memory, stream):
    torch._C._cuda_cudaCachingAllocator_raw_delete(memory)


def is_capturing(device):
    """Whether its calls become nodes of a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def lender_of(x, token=None):
    """What a call on memory of x's device takes memory and stream from; token: of that memory, seed and step of its random bits."""
    clock = None if token is None else token.data_ptr() + token.element_size()
    if x.device.type != "cuda":
        return Lender(clock=clock, device=0)
    stream = torch.cuda.current_stream(x.device).cuda_stream
    pointer = lambda function: ctypes.cast(function, ctypes.c_void_p)  # noqa: E731
    return Lender(pointer(_take), pointer(_give), stream, stream, clock, x.device.index)


@functools.lru_cache(None)
def _against(device):
    lender = lender_of(torch.empty(0, device=device))
    return _core.call("lent_reason", lender=ctypes.addressof(lender))


def reaches(group, x):
    """Whether the products of x are computed in x's own memory, and why not."""
    if x.device.type not in LENT:
        return x.device.type == "cpu", "the memory of this device is out of the library's reach"
    if group.device == "host" or os.environ.get("FP4SIM_TORCH") == "host":
        return False, "by `device`"
    why = group.facts["against_device"] or _against(x.device)
    return not why, why


def place_of(group, x):
    """Where the products of x run, in words."""
    lends, why = reaches(group, x)
    if group.by_torch is not None:
        return f"{x.device}, quantised exactly, summed by torch"
    return str(x.device) if lends or x.is_meta else f"host: {why}"


def _group(number):
    group = GROUPS.get(number)
    if group is None:
        raise Error("the model that this operator belongs to is gone; accepted: while it lives, in its process")
    return group


def _sizes(x, weight, wide=-1):
    """(parts, rows, in, out, shape of the result): X [.., K] by W [M, K], or of each leading index X [N, K] by W [M, K]; with
    `wide` -2 dY [.., M] in X's place."""
    out, into = weight.shape[-2:]
    rows = math.prod(x.shape[:-1]) if weight.dim() == 2 else x.shape[-2]
    return math.prod(weight.shape[:-2]), rows, into, out, (*x.shape[:-1], weight.shape[-3 - wide])


def _run(group, number, training, place, sizes, like, x, weight, bias, fill, token=None):
    """fill(call, new, dense) sets what the call computes, new(shape, like) being room for it; `training` and place, (seed, mark, step),
    are those of a token, or of now. token: whose seed and step the kernels read themselves."""
    lends, _ = reaches(group, like)
    home = like.device if lends else torch.device("cpu")
    parts, rows, into, out = sizes
    here = lends and like.device.type in LENT

    def kind(t):  # what kernels read and write
        return torch.bfloat16 if here and t.dtype is torch.bfloat16 and group.narrow[number] else torch.float32

    def dense(t):
        is_so = t.dtype is kind(t) and t.device == home and t.is_contiguous()
        return t if is_so else t.detach().to(home, kind(t)).contiguous()

    given = [None if t is None else dense(t) for t in (x, weight, bias)]
    call = _Call(None, *place, number, parts, rows, into, out, training, group.threads)
    call.point(x=given[0], weight=given[1], bias=given[2])
    if here:
        lender = lender_of(like, token)
        call.lender = ctypes.pointer(lender)
    new = lambda shape, like: torch.empty(shape, dtype=kind(like), device=home)  # noqa: E731
    kept = fill(call, new, dense)
    work = rows * parts * into * out // 64
    if home.type == "cuda":
        with torch.cuda.device(home):
            _core.run(lambda: _core.linear(group.handle.address, ctypes.byref(call)), asks=group.asks)
    else:
        _core.run(lambda: _core.linear(group.handle.address, ctypes.byref(call)), keep=(group, given, kept, call),
                  long=work > _core.LONG, asks=group.asks)
    return call, kept


def is_exporting():
    return getattr(getattr(torch, "compiler", None), "is_exporting", bool)()


def signed(seed):
    """A seed of 64 bits as an int of torch."""
    return seed - (seed >> 63 << 64)


def _token(mark, seed, step, training):
    """What a backward needs of its forward, a quarter as long as by torch.tensor()."""
    return torch.frombuffer(bytearray(struct.pack("4q", mark, signed(seed), step, training)), dtype=torch.int64)


def _codes(like, group=None, number=0, keeps=False, rows=0):
    """Room for what a forward keeps in X's place; none where it does not."""
    first, run, each = group.kept[number] if keeps else (0, 1, 0)
    return like.new_empty(first + (rows + run - 1) // run * each, dtype=torch.uint8)


def _forward(x, weight, bias, group, number, training, keeps):
    """(Y, what its backward is told, codes in X's place): numbers and None where the operator has tensors."""
    group = _group(group)
    clock = group.clock(x, number)
    seed, step = group.place(number, training)
    own = None if clock is None else clock.clone()
    token = (0, seed, step, training) if own is None else own
    *sizes, shape = _sizes(x, weight)
    if 0 in sizes:  # no product: the bias, or nothing
        return (x.new_zeros(shape) if bias is None else bias.to(x.dtype).expand(shape).clone()), token, None
    if group.by_torch is not None and group.quantised(number):
        return group.by_torch.forward(number, x, weight, bias, seed, step), token, None

    def fill(call, new, dense):
        y = new(shape, x)
        kept = _codes(y, group, number, keeps, sizes[1]) if keeps else None
        call.point(y=y, kept=kept)
        return y, kept

    call, (y, kept) = _run(group, number, training, (seed, 0, step), sizes, x, x, weight, bias, fill, own)
    return y.to(x.device, x.dtype), (call.mark, *token[1:]) if own is None else own, kept.to(x.device) if keeps else None


def _linear(x, *rest):
    y, token, kept = _forward(x, *rest)
    return y, _token(*token) if isinstance(token, tuple) else token, _codes(x) if kept is None else kept


def _gradients(dy, weight, bias, wanted, new):
    """Room for dX, dW and db; None for what is not wanted."""
    shapes = _sizes(dy, weight, -2)[4], weight.shape, () if bias is None else bias.shape
    return [new(shape, t) if asked else None for shape, t, asked in zip(shapes, (dy, weight, bias), wanted)]


def _typed(made, dy, weight, bias):
    return [g if g is None else g.to(dy.device, (dy if t is None else t).dtype) for g, t in zip(made, (dy, weight, bias))]


def _backward(dy, x, weight, bias, kept, token, group, number, wanted):
    """dX, dW and db, None for what is not wanted. token: of an operator or of _forward."""
    group = _group(group)
    own = None if isinstance(token, tuple) or not group.is_captured or token.device != dy.device else token
    mark, seed, step, training = token if isinstance(token, tuple) else token.tolist() if own is None else (0, group.seed_here(), 0, 1)
    group.count_backward(number)
    sizes = _sizes(dy, weight, -2)[:4]
    if 0 in sizes:
        made = _gradients(dy, weight, bias, wanted, lambda shape, like: dy.new_zeros(shape))
        if made[2] is not None:
            made[2] = dy.unsqueeze(0).sum(list(range(dy.dim())))
        return _typed(made, dy, weight, bias)
    if group.by_torch is not None and group.quantised(number):
        return group.by_torch.backward(number, dy, x, weight, bias, wanted, seed % 2**64, step)

    def fill(call, new, dense):
        given = dense(dy)
        codes = None if kept is None else kept.to(given.device)
        made = _gradients(dy, weight, bias, wanted, new)
        call.point(dy=given, kept=codes, **dict(zip(MATRICES[5:], made)))
        return made, given, codes

    _, (made, *_) = _run(group, number, training, (seed % 2**64, mark, step), sizes, dy, x, weight, bias, fill, own)
    return _typed(made, dy, weight, bias)


def _linear_backward(dy, *rest):
    return tuple(dy.new_empty(0) if g is None else g for g in _backward(dy, *rest))


def _linear_shapes(x, weight, bias, group, number, training, keeps):
    if is_exporting():
        EXPORTED.add(_group(group))
    *sizes, shape = _sizes(x, weight)
    token = torch.empty(4, dtype=torch.int64, device=x.device if x.is_meta else "cpu")
    return x.new_empty(shape), token, _codes(x, GROUPS.get(group), number, keeps, sizes[1])


def _backward_shapes(dy, x, weight, bias, kept, token, group, number, wanted):
    made = _gradients(dy, weight, bias, (True,) * 3, lambda shape, like: dy.new_empty(shape))
    return tuple(g if asked else dy.new_empty(0) for g, asked in zip(_typed(made, dy, weight, bias), wanted))


def _keep(ctx, inputs, output):
    x, weight, bias, ctx.group, ctx.number, _, keeps = inputs
    ctx.keeps = GROUPS.get(ctx.group)  # beyond the model
    reads = not keeps and (ctx.needs_input_grad[1] or ctx.keeps.kept[ctx.number] is None)
    ctx.told = output[1] if isinstance(output[1], tuple) else None
    ctx.save_for_backward(x if reads else None, weight, bias, output[2] if keeps else None, output[1] if ctx.told is None else None)


def _back(ctx, dy, *_):
    x, weight, bias, kept, token = ctx.saved_tensors
    wanted, told, where = [bool(n) for n in ctx.needs_input_grad[:3]], ctx.told, (ctx.group, ctx.number)
    if not torch.is_grad_enabled() and _is_direct(dy, x, weight):
        made = _backward(dy, x, weight, bias, kept, told or token, *where, wanted)
    else:
        made = call("linear_backward", dy, x, weight, bias, kept, _token(*told) if told else token, *where, wanted)
    return *(g if asked else None for g, asked in zip(made, wanted)), None, None, None, None


def _no_second(ctx, *gradients):
    raise Error("second derivatives of a converted layer do not exist: its gradient is made of quantised products; "
                "accepted: backward() without create_graph, or layers left out of convert() by skip=")


_is_old = not hasattr(torch.library, "register_autograd")
_below_autograd = contextlib.nullcontext if _is_old else torch._C._AutoDispatchBelowAutograd
_real, _plain = {"cpu", "cuda"}, {torch.Tensor, torch.nn.Parameter, type(None)}


def _is_direct(x, *others):
    """Whether nobody watches operators, so that their code is called itself: 5 microseconds less."""
    return (not _is_old and torch._C._len_torch_dispatch_stack() == 0 and x.device.type in _real and type(x) in _plain
            and all(type(t) in _plain for t in others))


# By operator (plain, eager, transformed): its code without a gradient, and its gradient as a Function: for eager calls, to which torch's
# register_autograd adds 20 microseconds, and for torch.func, whose transforms ask for more.
_ways = {}


def _refuse(*given):
    raise Error("fp4sim has no vmap, as a tensor scale is that of a whole product, and no forward derivatives; accepted: a batch "
                "as leading axes, grad, vjp")


def _ways_of(name, direct, setup, backward):
    operator = getattr(torch.ops.fp4sim, name).default

    def run(*inputs):
        with _below_autograd():
            return operator(*inputs)

    def quick(*inputs):
        return (direct if direct is not None and _is_direct(*inputs[:3]) else run)(*inputs)

    def run_and_keep(ctx, *inputs):
        output = quick(*inputs)
        setup(ctx, inputs, output)
        return output if direct is None else output[:1]

    methods = {"backward": backward, "vmap": _refuse, "jvp": _refuse}
    return quick, *(type(name, (torch.autograd.Function,), {key: staticmethod(f) for key, f in {**methods, **more}.items()})
                  for more in ({"forward": run_and_keep}, {"forward": run, "setup_context": setup}))


def call(name, *inputs):
    """The operator `name` with its gradient."""
    if not _is_old and torch.compiler.is_compiling():
        return getattr(torch.ops.fp4sim, name)(*inputs)
    plain, eager, transformed = _ways[name]
    if not _is_old and torch._C._are_functorch_transforms_active():
        return transformed.apply(*inputs)
    watched = torch.is_grad_enabled() or torch.autograd.forward_ad._current_level >= 0
    return eager.apply(*inputs) if watched else plain(*inputs)


def define(name, schema, run, shapes, setup=None, backward=None, direct=None):
    """An operator with its code, its shapes alone, and its gradient where it has one. direct: what eager calls take in its place."""
    unsafe = getattr(getattr(torch, "Tag", None), "cudagraph_unsafe", None)  # what a capture asks for is the user's to decide: compilers cut around it
    _library.define(name + schema, **({} if unsafe is None else {"tags": (unsafe,)}))
    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    if backward:
        _ways[name] = _ways_of(name, direct, setup, backward)
    if _is_old:
        return [_library.impl(name, shapes, key) for key in ("Meta", "AutogradMeta")]
    torch.library.register_fake("fp4sim::" + name, shapes, lib=_library)
    if backward:
        torch.library.register_autograd("fp4sim::" + name, backward, setup_context=setup, lib=_library)


_library = torch.library.Library("fp4sim", "DEF")
_layer = "Tensor x, Tensor weight, Tensor? bias"
for _name in ("linear", "product"):
    define(_name, f"({_layer}, int group, int number, bool training, bool keeps) -> (Tensor, Tensor, Tensor)", _linear, _linear_shapes,
           _keep, _back, _forward)
define("linear_backward", "(Tensor dy, Tensor? x, Tensor weight, Tensor? bias, Tensor? kept, Tensor token, int group, int number, "
       "bool[] wanted) -> (Tensor, Tensor, Tensor)",
        _linear_backward, _backward_shapes, lambda ctx, inputs, output: None, _no_second)
