"""Bit-exact FP4 arithmetic for numpy, PyTorch and everything else that speaks DLPack.

>>> import numpy as np, fp4sim as f4
>>> q = f4.quantize(np.float32([[0.3, -1.2, 5.0, 7.0]]), "mxfp4")
>>> q.dequantize().tolist()
[[0.5, -1.0, 4.0, 6.0]]

Every result has the bits of the command line `fp4sim`. Specs are words, keyword arguments or `Spec`; whatever is wrong
raises `Error` with the command line's message. Python's lock is free while the core computes.
"""
import json
import operator

from . import _core
from ._core import Error, signature
from ._experiments import Run, Sweep, Table, Verdict, golden_check, golden_make, law, train, verify
from ._words import Spec, Word, make_enums, words_of

__version__ = _core.version()
_enums = make_enums()
globals().update(_enums)


def _whole(value, name, low, high):
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{name}: {value!r} is no whole number; accepted: {low} .. {high}") from None
    if not low <= number <= high:
        raise Error(f"{name}: {number} is out of range; accepted: {low} .. {high}")
    return number


def _number(value, name, low):
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Error(f"{name}: {value!r} is no number") from None
    if not low <= number < float("inf"):
        raise Error(f"{name}: {number} is out of range; accepted: from {low}")
    return number


def _word(value, name):
    if not isinstance(value, str):
        raise Error(f"{name}: {value!r} is no word")
    return str(value)


def _threads(threads):
    return 0 if threads is None else _whole(threads, "--threads", 1, 4096)


def _place(seed, stream, step):
    return (_whole(seed, "--seed", 0, 2**64 - 1), _whole(stream, "--stream", 0, 2**32 - 1),
            _whole(step, "--step", 0, 2**32 - 1))


def _way(seed, stream, step, backend, threads):
    return (*_place(seed, stream, step), _word(backend, "--backend"), _threads(threads))


def set_num_threads(threads: int) -> None:
    """How many threads a call may use that does not say it itself (at first all cores). They never change a result."""
    _core.set_num_threads(_whole(threads, "--threads", 1, 4096))


def get_num_threads() -> int:
    """What a call uses that does not say it itself."""
    return _core.get_num_threads()


class Quantized:
    """A quantised tensor; its arrays are views of the core's memory and cannot be written.

    codes         uint8 [rows, K'/2 rounded up], two FP4 codes a byte, the even column in the low nibble; wider elements
                  one code in the smallest unsigned integer, [rows, K']; K' is K padded to the block
    scales        uint8 codes (real scales: float32) [rows, K'/B]; None for scale `none`
    tensor_scale  float32 [1]; row: [rows]; outer128: [rows, K/128 rounded up]
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor):
        self._tensor = tensor

    @property
    def codes(self) -> "np.ndarray":
        """Element codes, uint8, uint16 or uint32."""
        return self._tensor.codes

    @property
    def scales(self) -> "np.ndarray | None":
        """Block scales, or None."""
        return self._tensor.scales

    @property
    def tensor_scale(self) -> "np.ndarray":
        """The second-level scale, float32."""
        return self._tensor.tensor_scale

    @property
    def shape(self) -> "tuple[int, ...]":
        """Of the decoded tensor."""
        return self._tensor.shape

    @property
    def spec(self) -> Spec:
        """How it was quantised."""
        return Spec(**self._tensor.spec_fields())

    def dequantize(self, *, threads: "int | None" = None) -> "np.ndarray":
        """The decoded values, float32, in the shape of the input."""
        return self._tensor.dequantize(_threads(threads))

    def statistics(self, *, threads: "int | None" = None) -> dict:
        """nmse, clipped, zeros and underflows (shares), nonfinite (a count): what `fp4sim quantize` prints.

        Measured at the first call against the input, which is kept, not copied: do not change it before.
        """
        return self._tensor.statistics(_threads(threads))

    @property
    def nmse(self) -> float:
        """Sum of (x - decoded)^2 over sum of x^2; see statistics()."""
        return self.statistics()["nmse"]

    def to_dlpack(self, name: str = "codes"):
        """A DLPack capsule over codes, scales or tensor_scale, for torch.from_dlpack and its like: shared, not copied.

        What it gives must not be written to.
        """
        array = getattr(self, name, None) if name in ("codes", "scales", "tensor_scale") else None
        if array is None:
            raise Error(f"to_dlpack: {name!r} is no array of this tensor; accepted: codes, scales, tensor_scale")
        return _core.to_dlpack(array)

    def to_layout(self, *, scales: str = "128x4", nibbles: str = "low_first") -> dict:
        """{"codes", "scales", "tensor_scale"} as a kernel wants them, copied.

        scales: linear, 128x4 (cuBLAS, CUTLASS), amd_preshuffled (AITER), 8x4, gfx950, deepgemm or column_major;
        nibbles: low_first, high_first, unpacked, marlin_uint32 and others of `fp4sim list layouts`, of FP6 codes
        fp6_low_first. Other orders
        than linear, low_first and high_first come as padded uint8 bytes.
        """
        return self._tensor.to_layout(_word(scales, "scales"), _word(nibbles, "nibbles"))

    def __copy__(self):
        return self  # nothing in it can change

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _restored, (self.codes, self.scales, self.tensor_scale, self.spec.words, self.shape)

    def __repr__(self):
        return f"<fp4sim.Quantized {self.shape} {self.spec.words}>"


def _restored(codes, scales, tensor_scale, words, shape):
    return from_arrays(codes, scales, tensor_scale, spec=words, shape=shape)


def quantize(x, spec: "str | Spec" = "mxfp4", *, transpose: bool = False, seed: int = 0, stream: int = 0, step: int = 0,
             threads: "int | None" = None, backend: str = "auto", **fields) -> Quantized:
    """Quantises x, of any rank, as [product of the leading axes, last axis] along the last axis.

    x      numpy array or anything with __dlpack__ in the host's memory; float32 is read where it lies, with its
           strides, other real types are widened or rounded to float32 first
    spec   words of --spec ("nvfp4", "mxfp4,block=32x32"), a Spec, or fields: quantize(x, "nvfp4", rounding="stochastic")
    seed, stream, step   where the random bits lie
    transpose            quantise the transpose of the matrix: blocks along axis 0
    """
    return Quantized(_core.quantize(x, words_of(spec, fields), bool(transpose),
                                    *_way(seed, stream, step, backend, threads)))


def from_arrays(codes, scales=None, tensor_scale=None, *, spec: "str | Spec", shape) -> Quantized:
    """The quantised tensor whose arrays are given, as `quantize` shapes them; `shape` is that of the decoded tensor.

    Raises Error for an array whose type or shape the spec does not have.
    """
    sizes = [_whole(n, "shape", 0, 2**62) for n in shape]
    return Quantized(_core.from_arrays(words_of(spec, {}), sizes, codes, scales, tensor_scale))


def dequantize(codes, scales=None, tensor_scale=None, *, spec: "str | Spec | None" = None, shape=None,
               threads: "int | None" = None) -> "np.ndarray":
    """Decoded values, float32: of a Quantized, or of the arrays that from_arrays() takes."""
    if isinstance(codes, Quantized):
        return codes.dequantize(threads=threads)
    if spec is None or shape is None:
        raise Error("dequantize: codes alone say nothing; give spec and shape")
    return from_arrays(codes, scales, tensor_scale, spec=spec, shape=shape).dequantize(threads=threads)


def gemm(a, b, spec: "str | Spec | None" = None, *, spec_b: "str | Spec | None" = None, accumulator="fp32_block",
         factor: str = "tensor_scales", hadamard: int = 0, signs: str = "none", normalise: str = "sqrt", seed: int = 0, stream: int = 0, step: int = 0,
         threads: "int | None" = None, backend: str = "auto") -> "np.ndarray":
    """C = Q(A) Q(B)^T, float32 [M, N], from A [M, K] and B [N, K].

    Either side is a Quantized or floats; floats are quantised by `spec` (b by `spec_b` where given), or like the other
    side. accumulator: a name (`fp4sim list accumulators`), a .json file, or a dict that describes an adder; factor:
    tensor_scales, amaxes or amaxes_inverse, what the tensor scales put into the product; hadamard, signs and normalise
    rotate both sides first.
    """
    if spec is None:
        ready = a if isinstance(a, Quantized) else b if isinstance(b, Quantized) else None
        if ready is None:
            raise Error("gemm: both sides are floats; give spec")
        spec = ready.spec
    if isinstance(accumulator, dict):
        accumulator = json.dumps(accumulator)
    sides = [x._tensor if isinstance(x, Quantized) else x for x in (a, b)]
    return _core.gemm(*sides, words_of(spec, {}), words_of(spec if spec_b is None else spec_b, {}),
                      _word(accumulator, "--accumulator"), _word(factor, "--factor"), *_rotation(hadamard, signs, normalise),
                      *_way(seed, stream, step, backend, threads))


def _rotation(size, signs, normalise):
    return _whole(size, "--hadamard", 0, 2**31 - 1), _word(signs, "--signs"), _word(normalise, "--normalise")


def hadamard(x, size: int, *, signs: str = "none", normalise: str = "sqrt", inverse: bool = False, seed: int = 0,
             stream: int = 0, step: int = 0, threads: "int | None" = None, backend: str = "auto") -> "np.ndarray":
    """The rows of x rotated, float32 [rows, K padded to size]; size 16, 32, 64, 128 or 256."""
    return _core.hadamard(x, *_rotation(size, signs, normalise), bool(inverse),
                          *_way(seed, stream, step, backend, threads))


def random(bits: int, count: int, *, first: int = 0, seed: int = 0, stream: int = 0, step: int = 0) -> "np.ndarray":
    """The draws of positions first .. first + count - 1 as uint32, as stochastic rounding uses them."""
    return _core.random(_whole(bits, "--bits", 0, 32), _whole(count, "--count", 0, 2**40),
                        _whole(first, "--first", 0, 2**64 - 1), *_place(seed, stream, step))


def show(name: str, kind: str = "") -> dict:
    """A recipe, preset, grid, hardware profile, model or accumulator in full; `fp4sim show`."""
    return _core.show(_word(name, "show"), _word(kind, "show --kind"))


__all__ = ["Error", "Quantized", "Run", "Spec", "Sweep", "Table", "Verdict", "Word", "dequantize", "from_arrays", "gemm",
           "get_num_threads", "golden_check", "golden_make", "hadamard", "law", "quantize", "random", "set_num_threads", "show",
           "signature", "train", "verify", *_enums]
