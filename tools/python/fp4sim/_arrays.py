"""Arrays of Python as the library reads them: float32 of the host where it lies, everything else as a copy of that."""
from ._core import Error
from ._numpy import np

ACCEPTED = "accepted: float32, float16, bfloat16, float64, integers"
HOST = 1, 3, 11  # DLPack: memory of the host, and pinned memory of CUDA and ROCm


def _by_dlpack(x, name):
    """numpy's view of a tensor of another library; bfloat16, which numpy lacks, as uint16."""
    device = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else HOST[0]
    if int(device) not in HOST:
        raise Error(f"{name}: lies in the memory of device type {int(device)}; accepted: memory of the host (x.cpu())")
    if hasattr(x, "resolve_neg"):  # a bit that DLPack does not hand on
        x = x.resolve_neg()
    if str(getattr(x, "dtype", "")) == "torch.bfloat16":
        import torch

        return np.from_dlpack(x.view(torch.int16)).view(np.uint16), True
    if str(getattr(x, "dtype", "")) == "bfloat16":  # jax: its numpy type is that of ml_dtypes
        return np.asarray(x).view(np.uint16), True
    return np.from_dlpack(x), False


def held(x, name):
    """(numpy's view of what x holds, whether it is bfloat16 seen as uint16)."""
    if x is None:
        raise Error(f"{name}: None is no array")
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        try:
            return _by_dlpack(x, name)
        except Error:
            raise
        except Exception as problem:  # a tensor that requires a gradient, for one
            raise Error(f"{name}: cannot be read by DLPack: {problem}") from None
    try:
        array = np.asarray(x)
    except Exception:
        raise Error(f"{name}: {type(x).__name__} is no array") from None
    if array.dtype.name == "bfloat16":  # of ml_dtypes
        return array.view(np.uint16), True
    return array, False


def floats(x, name):
    """x as float32, itself where it is float32."""
    array, is_bfloat16 = held(x, name)
    if is_bfloat16:
        return np.asarray(np.left_shift(array, 16, dtype=np.uint32)).view(np.float32)
    kind = array.dtype.kind
    if kind not in "fiub" and not (kind == "V" and array.dtype.type.__module__ == "ml_dtypes"):
        said = type(x).__name__ if array.dtype == object and array.ndim == 0 else array.dtype
        raise Error(f"{name}: {said} is no type of real numbers; {ACCEPTED}")
    return array.astype(np.float32, copy=False)


def _rows(array):
    """The step between rows, in elements, where the leading axes are one axis of rows; None where they are not."""
    step, rows = 0, 1
    for size, stride in zip(reversed(array.shape[:-1]), reversed(array.strides[:-1])):
        if size == 1:
            continue
        if rows > 1 and stride != step * rows:
            return None
        step, rows = (stride if rows == 1 else step), rows * size
    return step // 4


def _is_walkable(array):
    """No step backwards or in place, no element off its alignment."""
    if array.ctypes.data % 4:
        return False
    return all(size <= 1 or (stride > 0 and stride % 4 == 0) for size, stride in zip(array.shape, array.strides))


def operand(x, name):
    """(the argument for an operand [product of the leading axes, last axis], what keeps its memory)."""
    array = floats(x, name)
    step = _rows(array) if _is_walkable(array) else None
    if step is None:
        array = array.copy("C")
        step = _rows(array)
    cols = array.shape[-1] if array.ndim else 1
    return {"data": array.ctypes.data, "shape": array.shape, "row_stride": step or cols,
            "col_stride": array.strides[-1] // 4 if cols > 1 else 1}, array


def matrix(x, name):
    """The same, row by row without gaps."""
    return operand(np.ascontiguousarray(floats(x, name)), name)


def raw(x, name):
    """(the argument for an array whose bytes count, what keeps its memory); (None, None) for None."""
    if x is None:
        return None, None
    array = np.ascontiguousarray(held(x, name)[0])
    return {"data": array.ctypes.data, "type": str(array.dtype), "shape": np.shape(x)}, array


def to_dlpack(array):
    """A DLPack capsule over the memory of an array, which it keeps. numpy exports none that is read-only."""
    alias = np.asarray(_Alias(array))
    return alias.__dlpack__()


class _Alias:
    """The memory of an array, writable to numpy."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = dict(array.__array_interface__, data=(array.ctypes.data, False))
