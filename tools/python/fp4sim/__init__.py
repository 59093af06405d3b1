"""Bit-exact FP4 arithmetic for numpy, PyTorch and everything else that speaks DLPack.

>>> import numpy as np, fp4sim as f4
>>> q = f4.quantize(np.float32([[0.3, -1.2, 5.0, 7.0]]), "mxfp4")
>>> q.dequantize().tolist()
[[0.5, -1.0, 4.0, 6.0]]

Every result has the bits of the command line `fp4sim`. Specs are words, keyword arguments or `Spec`; whatever is wrong
raises `Error` with the command line's message. Python's lock is free while the core computes, and Ctrl-C ends any call.
"""
from . import _core
from ._checks import count_of_threads as _threads, whole as _whole, word as _word
from ._commands import (COMMANDS, Sweep, advise, bench, command, compare, convert_layout, convert_model, cost, decode_model,
                        edge, effects,
                        evaluate, explain, golden_check, golden_make, inspect, law, listing, merge, pareto, report, serve,
                        stats, sweep, table, trace_plot, witness)
from ._core import Error
from ._elements import Element
from ._experiments import Run, Verdict, train, verify
from ._files import Tensors, load
from ._results import Effects, Front, Picture, Result, Table
from ._scoreboard import Scoreboard
from ._tensors import Quantized, _restored, dequantize, from_arrays, gemm, hadamard, quantize, random  # _restored: pickles of 0.2.0
from ._words import Spec, Word, make_enums as _make_enums

__version__ = _core.call("version")
_enums = _make_enums()
globals().update(_enums)


def signature() -> str:
    """16 hex digits that change when any arithmetic changes."""
    return _core.call("signature", long=True)


def set_num_threads(threads: int) -> None:
    """How many threads a call may use that does not say it itself (at first all cores). They never change a result."""
    _core.call("set_num_threads", threads=_whole(threads, "--threads", 1, 4096))


def get_num_threads() -> int:
    """What a call uses that does not say it itself."""
    return _core.call("get_num_threads")


def show(name: str, kind: str = "") -> dict:
    """A recipe, preset, grid, hardware profile, model or accumulator in full; `fp4sim show`."""
    return _core.call("show", name=_word(name, "show"), kind=_word(kind, "show --kind"))


__all__ = ["COMMANDS", "Effects", "Element", "Error", "Front", "Picture", "Quantized", "Result", "Run", "Scoreboard", "Spec", "Sweep", "Table", "Tensors", "Verdict", "Word",
           "advise", "bench", "command", "compare", "convert_layout", "convert_model", "cost", "decode_model", "dequantize", "edge",
           "effects", "evaluate", "explain", "from_arrays", "gemm", "get_num_threads", "golden_check", "golden_make",
           "hadamard", "inspect", "law", "listing", "load", "merge", "pareto", "quantize", "random", "report", "serve",
           "set_num_threads", "show", "signature", "stats", "sweep", "table", "trace_plot", "train", "verify", "witness",
           *_enums]


for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__  # as messages and pickles name them


def __dir__():
    return [*__all__, "__version__"]
