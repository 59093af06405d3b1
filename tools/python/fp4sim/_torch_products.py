"""Which modules of a model multiply matrices, and by what: the tables and the look into a forward that convert() goes by."""
import dis
import types

from torch import nn

# What torch's own modules multiply by without a torch.nn.Linear inside.
TORCH_KINDS = (
    (nn.modules.conv._ConvNd, "a convolution"),
    (nn.RNNBase, "recurrent products inside one kernel"),
    (nn.RNNCellBase, "recurrent products inside one kernel"),
    (nn.Bilinear, "a bilinear form"),
)

NAMES = frozenset((
    "linear", "bilinear", "matmul", "mm", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm", "inner", "einsum", "tensordot",
    "multi_dot", "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "grouped_mm", "_grouped_mm", "scaled_mm", "_scaled_mm", "scaled_grouped_mm", "_scaled_grouped_mm", "_int_mm",
    "scaled_dot_product_attention", "flex_attention", "multi_head_attention_forward"))
DEEPEST = 3  # functions that a forward calls, and those they call


def _instructions(code):
    found = list(dis.get_instructions(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _instructions(constant)
    return found


def _is_self(instruction):
    value = instruction.argval
    return value == "self" or (isinstance(value, tuple) and value[-1] == "self")


def _foreign(thing):
    """Whether it is a function of Python that is not torch's."""
    return isinstance(thing, types.FunctionType) and not (thing.__module__ or "").startswith("torch")


def _meant(function, name, instruction, before, cls):
    """The function behind a name that code loads: a global, one that a decorator keeps, or a method of self; else None."""
    if instruction.opname == "LOAD_GLOBAL":
        return function.__globals__.get(name)
    if instruction.opname == "LOAD_DEREF" and name in function.__code__.co_freevars:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not filled yet
            return None
    if before is not None and _is_self(before):
        return getattr(getattr(cls, name, None), "__func__", getattr(cls, name, None))
    return None


def _in_function(function, depth, seen, cls):
    """Names of the products in a function, in functions of the same project that it calls, and in what it decorates."""
    if depth > DEEPEST or function in seen:
        return set()
    seen.add(function)
    found, before = set(), None
    if _foreign(getattr(function, "__wrapped__", None)):
        found |= _in_function(function.__wrapped__, depth, seen, cls)
    for instruction in _instructions(function.__code__):
        name = instruction.argval
        if instruction.opname in ("BINARY_MATRIX_MULTIPLY", "INPLACE_MATRIX_MULTIPLY") or (
                instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@=")):
            found.add("@")
        elif isinstance(name, str) and instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_DEREF",
                                                                      "LOAD_NAME")):
            called = _meant(function, name, instruction, before, cls)
            if _foreign(called):
                found |= _in_function(called, depth + 1, seen, cls)
            elif name in NAMES and not (before is not None and _is_self(before)):
                found.add(name)
        before = instruction
    return found


def own_products(module):
    """Names of the matrix products that a module's own code calls, sorted; torch's own classes are in TORCH_KINDS.

    Its own code is each method of its class, and of base classes as far as the one that has its forward; what lies above
    it is looked at where this code calls it.
    """
    found, seen = set(), set()
    for cls in type(module).__mro__:
        if cls.__module__.partition(".")[0] in ("torch", "builtins", "fp4sim"):
            continue
        goes_up = False
        for member in vars(cls).values():
            member = getattr(member, "__func__", member)
            if isinstance(member, types.FunctionType) and member.__name__ != "__init__":
                found |= _in_function(member, 0, seen, type(module))
                goes_up |= member.__name__ == "forward" and "super" in member.__code__.co_names
        if "forward" in vars(cls) and not goes_up:
            break
    return sorted(found)


def torch_kind(module):
    """What a module of torch's own multiplies by; "" for none."""
    return next((what for kind, what in TORCH_KINDS if isinstance(module, kind)), "")


def is_conv1d(module):
    """transformers' Conv1D, a linear layer with a weight [in, out]."""
    weight = getattr(module, "weight", None)
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf") and getattr(weight, "ndim", 0) == 2


def has_own_forward(module, base):
    """Whether a subclass computes something else than its base class."""
    return type(module).forward is not base.forward
