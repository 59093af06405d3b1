"""Quantised tensors, products, Hadamards and random draws."""
import math
import os

from . import _core
from ._checks import count_of_threads, place, who, whole, word
from ._core import Error
from ._results import short
from ._words import Spec, words_of


class Quantized:
    """A quantised tensor; its arrays are views of the core's memory and cannot be written.

    codes         uint8 [rows, K'/2 rounded up], two FP4 codes a byte, the even column in the low nibble; wider elements
                  one code in the smallest unsigned integer, [rows, K']; K' is K padded to the block
    scales        uint8 codes (real scales: float32) [rows, K'/B]; None for scale `none`
    tensor_scale  float32 [1]; row: [rows]; outer128: [rows, K/128 rounded up]
    """

    __slots__ = ("_handle", "_statistics", "_spec", "_shape")

    def __init__(self, handle, shape, statistics=None):
        self._handle, self._shape, self._statistics, self._spec = handle, tuple(shape), statistics, None

    def _call(self, name, /, **arguments):
        return _core.call(name, tensor=self._handle.address, keep=self, **arguments)

    @property
    def codes(self) -> "np.ndarray":
        """Element codes, uint8, uint16 or uint32."""
        return self._call("tensor_array", name="codes")

    @property
    def scales(self) -> "np.ndarray | None":
        """Block scales, or None."""
        return self._call("tensor_array", name="scales")

    @property
    def tensor_scale(self) -> "np.ndarray":
        """The second-level scale, float32."""
        return self._call("tensor_array", name="tensor_scale")

    @property
    def shape(self) -> "tuple[int, ...]":
        """Of the decoded tensor."""
        return self._shape

    @property
    def size(self) -> int:
        """Elements of the decoded tensor."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and tensor scale."""
        return sum(0 if array is None else array.nbytes for array in (self.codes, self.scales, self.tensor_scale))

    @property
    def spec(self) -> Spec:
        """How it was quantised: quantising again by it gives the same codes."""
        if self._spec is None:
            self._spec = Spec._of(self._call("tensor_spec"))
        return self._spec

    @property
    def decoding(self) -> Spec:
        """What its arrays are read by: `spec`, maybe without words that only chose the codes."""
        return Spec._of(self._call("tensor_decoding"))

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a tensor without axes")
        return self._shape[0]

    def __array__(self, dtype=None, copy=None) -> "np.ndarray":
        """The decoded values, so that np.asarray(q) is q.dequantize()."""
        if copy is False:
            raise ValueError("the decoded values of a quantised tensor are made, not shared; accepted: copy=None, True")
        decoded = self.dequantize()
        return decoded if dtype is None else decoded.astype(dtype, copy=False)

    def dequantize(self, *, threads: "int | None" = None) -> "np.ndarray":
        """The decoded values, float32, in the shape of the input."""
        return self._call("tensor_dequantize", threads=count_of_threads(threads), long=self.size > _core.LONG)

    def statistics(self, *, threads: "int | None" = None) -> dict:
        """nmse, clipped, zeros and underflows (shares), nonfinite (a count): what `fp4sim quantize` prints.

        Measured by quantize() against the input as it was then; `threads` changes nothing any more.
        """
        if self._statistics is None:
            raise Error("statistics: this tensor was made of codes, or with statistics=False; accepted: what quantize() "
                        "gives")
        return dict(self._statistics)

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
        return _core.arrays().to_dlpack(array)

    def to_layout(self, *, scales: str = "128x4", nibbles: str = "low_first") -> dict:
        """{"codes", "scales", "tensor_scale"} as a kernel wants them, copied.

        scales: linear, 128x4 (cuBLAS, CUTLASS), amd_preshuffled (AITER), 8x4, gfx950, deepgemm or column_major;
        nibbles: low_first, high_first, unpacked, marlin_uint32 and others of `fp4sim list layouts`, of FP6 codes
        fp6_low_first. Other orders
        than linear, low_first and high_first come as padded uint8 bytes.
        """
        made = self._call("tensor_to_layout", scales=word(scales, "scales"), nibbles=word(nibbles, "nibbles"),
                          long=self.size > _core.LONG)
        return {name: array if array is None or array.flags.writeable else array.copy() for name, array in made.items()}

    def __copy__(self):
        return self  # nothing in it can change

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _restored, (self.codes, self.scales, self.tensor_scale, self.spec.words, self.shape)

    def __repr__(self):
        return short(f"<fp4sim.Quantized {self.shape} {self.spec.words}>")


def _restored(codes, scales, tensor_scale, words, shape):
    return from_arrays(codes, scales, tensor_scale, spec=words, shape=shape)


def quantize(x, spec: "str | Spec" = "mxfp4", *, transpose: bool = False, seed: int = 0, stream: int = 0, step: int = 0,
             threads: "int | None" = None, backend: str = "auto", statistics: bool = True, **fields) -> Quantized:
    """Quantises x, of any rank, as [product of the leading axes, last axis] along the last axis.

    x      numpy array or anything with __dlpack__ in the host's memory; float32 is read where it lies, with its
           strides, other real types are widened or rounded to float32 first
    spec   words of --spec ("nvfp4", "mxfp4,block=32x32"), a Spec, or fields: quantize(x, "nvfp4", rounding="stochastic")
    seed, stream, step   where the random bits lie
    transpose            quantise the transpose of the matrix: blocks along axis 0
    statistics           measure them now, while x is what it is; False saves that time
    """
    given, keep = _core.arrays().operand(x, "x")
    made = _core.call("quantize", x=given, words=words_of(spec, fields), transpose=bool(transpose),
                      statistics=bool(statistics), **place(seed, stream, step), **who(backend, threads), keep=keep,
                      long=keep.size > _core.LONG)
    return Quantized(made["tensor"], made["shape"], made["statistics"])


def from_arrays(codes, scales=None, tensor_scale=None, *, spec: "str | Spec", shape) -> Quantized:
    """The quantised tensor whose arrays are given, as `quantize` shapes them; `shape` is that of the decoded tensor.

    Raises Error for an array whose type or shape the spec does not have.
    """
    sizes = [whole(n, "shape", 0, 2**62) for n in shape]
    given = {"codes": codes, "scales": scales, "tensor_scale": tensor_scale}
    sent = {name: _core.arrays().raw(array, name) for name, array in given.items()}
    return Quantized(_core.call("from_arrays", words=words_of(spec, {}), shape=sizes, keep=sent,
                                **{name: argument for name, (argument, _) in sent.items()}), sizes)


def dequantize(codes, scales=None, tensor_scale=None, *, spec: "str | Spec | None" = None, shape=None,
               threads: "int | None" = None) -> "np.ndarray":
    """Decoded values, float32: of a Quantized, or of the arrays that from_arrays() takes."""
    if isinstance(codes, Quantized):
        return codes.dequantize(threads=threads)
    if spec is None or shape is None:
        if isinstance(codes, (str, os.PathLike)):
            raise Error(f"dequantize: takes arrays; load({os.fspath(codes)!r}) reads a file or a folder")
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
        accumulator = _core.json_of(accumulator, "--accumulator")
    sides, keep = [], []
    for x, name in ((a, "a"), (b, "b")):
        given, owner = (x._handle.address, x) if isinstance(x, Quantized) else _core.arrays().operand(x, name)
        sides.append(given)
        keep.append(owner)
    work = keep[0].size * (keep[1].shape[0] if keep[1].shape else 1) // 64
    return _core.call("gemm", a=sides[0], b=sides[1], words=words_of(spec, {}),
                      words_b=words_of(spec if spec_b is None else spec_b, {}),
                      accumulator=word(accumulator, "--accumulator"), factor=word(factor, "--factor"),
                      **_rotation("hadamard", hadamard, signs, normalise), **place(seed, stream, step),
                      **who(backend, threads), keep=keep, long=work > _core.LONG)


def _rotation(name, size, signs, normalise):
    return {name: whole(size, "--hadamard", 0, 2**31 - 1), "signs": word(signs, "--signs"),
            "normalise": word(normalise, "--normalise")}


def hadamard(x, size: int, *, signs: str = "none", normalise: str = "sqrt", inverse: bool = False, seed: int = 0,
             stream: int = 0, step: int = 0, threads: "int | None" = None, backend: str = "auto") -> "np.ndarray":
    """The rows of x rotated, float32 [rows, K padded to size]; size 16, 32, 64, 128 or 256."""
    given, keep = _core.arrays().operand(x, "x")
    return _core.call("hadamard", x=given, **_rotation("size", size, signs, normalise), inverse=bool(inverse),
                      **place(seed, stream, step), **who(backend, threads), keep=keep, long=keep.size > _core.LONG)


def random(bits: int, count: int, *, first: int = 0, seed: int = 0, stream: int = 0, step: int = 0) -> "np.ndarray":
    """The draws of positions first .. first + count - 1 as uint32, as stochastic rounding uses them."""
    count = whole(count, "--count", 0, 2**40)
    return _core.call("random", bits=whole(bits, "--bits", 0, 32), count=count, first=whole(first, "--first", 0, 2**64 - 1),
                      **place(seed, stream, step), long=count > _core.LONG)
