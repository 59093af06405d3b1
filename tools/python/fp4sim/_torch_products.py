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
    "linear", "bilinear", "matmul", "mm", "bmm", "mv", "addmm", "addbmm", "baddbmm", "einsum", "tensordot", "multi_dot",
    "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "scaled_dot_product_attention", "multi_head_attention_forward"))
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


def _in_function(function, depth, seen):
    """Names of the products in a function and in functions of the same project that it calls."""
    if depth > DEEPEST or function in seen:
        return set()
    seen.add(function)
    found, before = set(), None
    for instruction in _instructions(function.__code__):
        name = instruction.argval
        if instruction.opname in ("BINARY_MATRIX_MULTIPLY", "INPLACE_MATRIX_MULTIPLY") or (
                instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@=")):
            found.add("@")
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            called = function.__globals__.get(name) if isinstance(name, str) and instruction.opname == "LOAD_GLOBAL" else None
            if isinstance(called, types.FunctionType) and not called.__module__.startswith("torch"):
                found |= _in_function(called, depth + 1, seen)
            elif name in NAMES and not (before is not None and _is_self(before)):
                found.add(name)
        before = instruction
    return found


def own_products(module):
    """Names of the matrix products that a module's own code calls, sorted; torch's own classes are in TORCH_KINDS."""
    found, seen = set(), set()
    for cls in type(module).__mro__:
        if cls.__module__.partition(".")[0] in ("torch", "builtins", "fp4sim"):
            continue
        for member in vars(cls).values():
            member = getattr(member, "__func__", member)
            if isinstance(member, types.FunctionType) and member.__name__ != "__init__":
                found |= _in_function(member, 0, seen)
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
