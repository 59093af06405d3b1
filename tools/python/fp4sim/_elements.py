"""Elements of one's own: values by code, and Python's own rounding or scale on the reference path."""
import ctypes
import json
import os

from . import _core
from ._checks import word as _word

_ROUND = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_double, ctypes.c_uint32)
_SCALE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.POINTER(ctypes.c_float), ctypes.c_int64)


class Element(dict):
    """An element format as data: `f4.Spec("nvfp4", element=f4.Element.from_values([0, 1, 2, 4], signed=True))`.

    It is the object that JSON files have under "element" (name, signed, values), so it may stand in dicts of grids and
    recipes as well. `name` and `bits` are attributes.
    """

    __slots__ = ()

    @classmethod
    def from_values(cls, values, *, signed: bool = False, name: str = "", round=None, scale=None) -> "Element":
        """Up to 256 numbers by code, rounded to fp32; None is a code that is never written. One of them is 0.

        signed  the values are magnitudes, up to 128, and a sign bit stands above their codes
        round   round(u, bits) -> code of a payload u that is not 0, in place of the core's rounding; bits is the random
                draw of a stochastic rounding, else 0. Of unsigned lists only.
        scale   scale(block) -> scale of the elements of a block (a 1-D array), before it is rounded to a scale code

        round and scale are called for each element and block, some 10 us each, by the reference path, from any thread.
        An exception in them ends the call that asked. They belong to this process: f4.quantize, gemm, train and torch know
        them, functions that run the program (sweep, compare of files) refuse them.
        """
        given = {"values": [None if v is None else v if isinstance(v, str) else float(v) for v in values]}
        if signed:
            given["signed"] = True
        if name:
            given["name"] = _word(name, "name")
        if round is not None or scale is not None:
            if round is not None and signed:
                raise _core.Error("Element.from_values: round gives whole codes, so values must not be signed")
            given["calls"] = _register(round, scale, given["values"])
        return cls(_core.call("element", element=given))

    @classmethod
    def from_file(cls, file) -> "Element":
        """The element of a .json file, as the command line takes it."""
        return cls(_core.call("element", element=os.fspath(file)))

    @classmethod
    def with_micro(cls, base, micro, *, name: str = "") -> "Element":
        """`base`, a name or an Element, under exponents that parts of a block share: [(8, 1), (4, 1)] is one bit for each
        eight and one for each four elements, as HiFloat4 has them."""
        given = {"base": base if isinstance(base, dict) else str(base),
                 "micro": [{"per": int(per), "bits": int(bits)} for per, bits in micro]}
        if name:
            given["name"] = _word(name, "name")
        return cls(_core.call("element", element=given))

    @property
    def name(self) -> str:
        return self["name"]

    @property
    def bits(self) -> float:
        """Bits that an element takes, its share of micro-exponents included."""
        return _core.call("element_bits", element=dict(self))

    def __repr__(self):
        if "values" not in self:
            return f"Element({self['name']!r}, base={self['base']!r}, micro={self['micro']!r})"
        own = "".join(f", {name}" for name in ("signed",) if self.get(name))
        return f"Element({self['name']!r}, {len(self['values'])} values{own}{', calls' if 'calls' in self else ''})"

    def __hash__(self):
        return hash(json.dumps(self, sort_keys=True))


def _register(round, scale, values):
    for name, given in ("round", round), ("scale", scale):
        if given is not None and not callable(given):
            raise _core.Error(f"Element.from_values: {name} is not callable")

    def code_of(u, bits):
        code = round(u, bits)
        whole = int(code)
        if whole != code or not 0 <= whole < len(values) or values[whole] is None:
            raise ValueError(f"round({u!r}, {bits}) gave {code!r}, which is no code of the element's {len(values)} values")
        return whole

    def scale_of(block, count):
        from ._numpy import np

        block = np.ctypeslib.as_array(block, (count,)).copy()
        made = scale(block)
        if not 0 < float(made) < float("inf") and (float(made) != 0 or block.any()):
            raise ValueError(f"scale gave {made!r}, not a number above 0, for the block {block.tolist()}")
        return float(made)

    guarded = _core.callables.guarded
    return _core.callables.register(None if round is None else _ROUND(guarded(code_of, 0)),
                                    None if scale is None else _SCALE(guarded(scale_of, 1.0)))
