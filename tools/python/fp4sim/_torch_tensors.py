"""quantize, fake_quantize, gemm and hadamard of torch's tensors as operators: on the host, or in a lent device's memory."""
import ctypes
import functools
import math
from typing import Any, NamedTuple

import torch

from . import _core, _tensors
from ._checks import place as place_of
from ._checks import word
from ._torch_ops import LENT, call, define, lender_of, signed
from ._words import Spec, words_of


class Quantized(NamedTuple):
    """codes, scales (None for scale `none`) and tensor_scale of fp4sim.Quantized, on the device of the input."""

    codes: torch.Tensor
    scales: "torch.Tensor | None"
    tensor_scale: torch.Tensor


def _matrix(x):
    """(the argument for a matrix where it lies, what keeps its memory); bfloat16 is read as it is, all else is float32."""
    x = x.detach().to(torch.bfloat16 if x.dtype is torch.bfloat16 else torch.float32)
    x = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    return {"data": x.data_ptr(), "shape": tuple(x.shape), "row_stride": x.stride(0), "col_stride": x.stride(1), "bf16": x.dtype is torch.bfloat16}, x


def _lent(name, of, keep, /, **arguments):
    lender = lender_of(of)
    _core.call(name, lender=ctypes.addressof(lender), keep=(keep, lender), **arguments)


def _place(seed, stream, step):
    return {"seed": seed % 2**64, "stream": stream, "step": step}


def _rows(x):
    return math.prod(x.shape[:-1]), x.shape[-1] if x.dim() else 1


@functools.lru_cache(256)
def _parts(words, rows, cols):
    parts = _core.call("lent_parts", words=words, rows=rows, cols=cols)
    return {name: part for name, part in parts.items() if name != "dequantized"}


def _quantize_shapes(x, words, *place):
    parts = _parts(words, *map(int, _rows(x)))
    return [x.new_empty(part["shape"], dtype=getattr(torch, part["type"], None) or getattr(torch, part["type"][1:])) for part in parts.values()]


def _quantize(x, words, *place):
    parts = _parts(words, *_rows(x))
    if x.device.type not in LENT:
        made = _tensors.quantize(x.detach(), words, statistics=False, **_place(*place))
        return [torch.from_numpy(getattr(made, name).copy()) for name in parts]
    out = dict(zip(parts, _quantize_shapes(x, words)))
    factors = torch.ones(*parts.get("tensor_scale", {"shape": [1]})["shape"], 3, device=x.device)
    given, kept = _matrix(x)
    _lent("lent_quantize", x, kept, x=given, words=words, decoded=None, factors=factors.data_ptr(),
          **{name: out[name].data_ptr() if name in out else 0 for name in ("codes", "scales")}, **_place(*place))
    if "tensor_scale" in out:
        out["tensor_scale"] = factors[..., 0].contiguous()
    return list(out.values())


def decoded(x, words, *place):
    """(x quantised and decoded, float32; its tensor scale)."""
    if x.device.type not in LENT:
        made = _tensors.quantize(x.detach(), words, statistics=False, **_place(*place))
        return torch.from_numpy(made.dequantize()), torch.from_numpy(made.tensor_scale.copy())
    given, kept = _matrix(x)
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    factors = torch.ones(*_parts(words, *_rows(x)).get("tensor_scale", {"shape": [1]})["shape"], 3, device=x.device)
    _lent("lent_quantize", x, kept, x=given, words=words, decoded=out.data_ptr(), factors=factors.data_ptr(), **_place(*place))
    return out, factors[..., 0]


def _fake(x, words, *place):
    return decoded(x, words, *place)[0].to(x.dtype)


def _gemm(a, b, words, words_b, accumulator, hadamard, signs, normalise, *place):
    how = dict(accumulator=accumulator, hadamard=hadamard, signs=signs, normalise=normalise)
    if a.device.type not in LENT:
        return torch.from_numpy(_tensors.gemm(a.detach(), b.detach(), words, spec_b=words_b, **how, **_place(*place)))
    (given_a, kept_a), (given_b, kept_b) = _matrix(a), _matrix(b)
    c = torch.empty(len(kept_a), len(kept_b), device=a.device)
    _lent("lent_gemm", a, (kept_a, kept_b), a=given_a, b=given_b, words=words, words_b=words_b, c=c.data_ptr(), **how,
          **_place(*place))
    return c


def rotated(x, size, signs, normalise, inverse, *place):
    how = dict(signs=signs, normalise=normalise, inverse=inverse)
    if x.device.type not in LENT:
        return torch.from_numpy(_tensors.hadamard(x.detach(), size, **how, **_place(*place)))
    given, kept = _matrix(x)
    y = torch.empty(len(kept), -(-kept.shape[1] // size) * size, device=x.device)
    _lent("lent_hadamard", x, kept, x=given, size=size, y=y.data_ptr(), **how, **_place(*place))
    return y


_where = "int seed, int stream, int step"
define("quantize", f"(Tensor x, str words, {_where}) -> Tensor[]", _quantize, _quantize_shapes)
define("fake_quantize", f"(Tensor x, str words, {_where}) -> Tensor", _fake, lambda x, *rest: torch.empty_like(x),
       lambda ctx, inputs, output: None, lambda ctx, gradient: (gradient, *(None,) * 4))
define("gemm", f"(Tensor a, Tensor b, str words, str words_b, str accumulator, int hadamard, str signs, str normalise, {_where})"
       " -> Tensor", _gemm, lambda a, b, *rest: a.new_empty(_rows(a)[0], _rows(b)[0], dtype=torch.float32))
define("hadamard", f"(Tensor x, int size, str signs, str normalise, bool inverse, {_where}) -> Tensor", rotated,
       lambda x, size, *rest: x.new_empty(_rows(x)[0], -(-_rows(x)[1] // size) * size, dtype=torch.float32))


def _tensor(x):
    """x, or what another library's array shares by DLPack (JAX, CuPy, numpy), on its device."""
    try:
        return x if isinstance(x, torch.Tensor) else torch.from_dlpack(x)
    except Exception as problem:
        raise _core.Error(f"x: {type(x).__name__} is no tensor and shares none by DLPack: {problem}") from None


def _at(seed, stream, step):
    at = place_of(seed, stream, step)
    return signed(at["seed"]), at["stream"], at["step"]


def quantize(x: torch.Tensor, spec: "str | Spec" = "mxfp4", *, seed: int = 0, stream: int = 0, step: int = 0,
             **fields: Any) -> Quantized:
    """fp4sim.quantize of a tensor, whose arrays stay on its device: rows of the last axis, float32 of what x holds."""
    words, x = words_of(spec, fields), _tensor(x)
    made = dict(zip(_parts(words, *_rows(x)), torch.ops.fp4sim.quantize(x, words, *_at(seed, stream, step))))
    return Quantized(made["codes"], made.get("scales"), made.get("tensor_scale", torch.ones(1, device=x.device)))


def fake_quantize(x: torch.Tensor, spec: "str | Spec" = "mxfp4", *, seed: int = 0, stream: int = 0, step: int = 0,
                  **fields: Any) -> torch.Tensor:
    """x quantised and decoded again; its gradient passes straight through."""
    x = _tensor(x)
    if not x.is_floating_point():
        raise _core.Error(f"x: is {x.dtype}; accepted: floating types, as the result has its type")
    return call("fake_quantize", x, words_of(spec, fields), *_at(seed, stream, step))


def gemm(a: torch.Tensor, b: torch.Tensor, spec: "str | Spec" = "mxfp4", *, spec_b: "str | Spec | None" = None,
         accumulator: str = "fp32_block", hadamard: int = 0, signs: str = "none", normalise: str = "sqrt", seed: int = 0,
         stream: int = 0, step: int = 0) -> torch.Tensor:
    """fp4sim.gemm of two tensors [M, K] and [N, K], float32 [M, N] on their device."""
    words = words_of(spec, {})
    return torch.ops.fp4sim.gemm(_tensor(a), _tensor(b), words, words if spec_b is None else words_of(spec_b, {}), word(accumulator, "--accumulator"),
                                 *_tensors._rotation("size", hadamard, signs, normalise).values(), *_at(seed, stream, step))


def hadamard(x: torch.Tensor, size: int, *, signs: str = "none", normalise: str = "sqrt", inverse: bool = False, seed: int = 0,
             stream: int = 0, step: int = 0) -> torch.Tensor:
    """fp4sim.hadamard of a tensor, float32 on its device."""
    return torch.ops.fp4sim.hadamard(_tensor(x), *_tensors._rotation("size", size, signs, normalise).values(), bool(inverse), *_at(seed, stream, step))
