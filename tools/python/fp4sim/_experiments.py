"""Verdicts about kernels, and training runs."""
import ctypes
import os
import struct
import tempfile

from . import _core
from ._checks import count_of_threads, path, seed_of, who, whole, word
from ._core import Error
from ._program import recipes
from ._results import Result, _axes, _labelled, short, shown
from ._words import text_of


class Verdict(dict):
    """What `fp4sim verify --json` prints, as a dict; print() shows what the command shows. True where all is equal."""

    def __init__(self, fields):
        self._text = fields.pop("text")
        super().__init__(fields)

    @property
    def equal(self) -> bool:
        """Whether no element differs."""
        return self["equal"]

    @property
    def coverage(self) -> dict:
        """Which cases and stages the verdict is about."""
        return self["coverage"]

    @property
    def explanation(self) -> str:
        """The cause that explains all differences ("scale_rule=rceil"), or ""."""
        causes = self["diagnosis"]
        return causes[0]["cause"] if causes and causes[0]["explains"] == 1 else ""

    def __bool__(self):
        return self["equal"] and self["complete"]

    def __str__(self):
        return self._text.rstrip("\n")

    def __repr__(self):
        return short(f"<fp4sim.Verdict {'equal' if self['equal'] else self.explanation or 'not equal'}, "
                     f"{self['mismatches']} of {self['compared']} differ>")


def verify(golden, candidate, *, case: str = "", stages=(), accumulator: str = "fp32_block", ignore=(), require=(),
           all_cases: bool = False, nibbles: str = "", scale_layout: str = "", tolerance: str = "", random_words=None,
           alpha: float = 1.0, beta: float = 0.0, c=None, bias=None, output_type: str = "fp32", seconds: float = 20.0,
           threads: "int | None" = None, backend: str = "auto") -> Verdict:
    """Judges a kernel's results against a golden bundle and names what the kernel does instead.

    candidate: a path (folder, .npy, .npz, .safetensors), or a dict of arrays {"codes": ..., "scales": ...}, whose names
    may start with a case, "CASE/codes"; `case` says which one where they do not.
    nibbles, scale_layout: the order that codes and scales must have (`fp4sim list layouts`); not said: a known one is found.
    tolerance: "reciprocal_ulp=1" for kernels that take an approximate 1/x. random_words: the bits that the kernel drew.
    alpha, beta, c [M, N], bias [N], output_type: the epilogue of products; what is not said is looked for.
    random_words, c and bias are arrays or paths of files. seconds: that the search for a policy may take in each case.
    """
    from ._numpy import np

    if isinstance(candidate, dict) and not candidate:
        raise Error("candidate: no arrays")
    with tempfile.TemporaryDirectory() as folder:
        def file_of(name, given):
            if given is None or isinstance(given, (str, os.PathLike)):
                return "" if given is None else os.fspath(given)
            file = os.path.join(folder, name + ".npy")
            np.save(file, np.asarray(given))
            return file

        dump = candidate
        if isinstance(candidate, dict):
            dump = os.path.join(folder, "candidate.npz")
            np.savez(dump, **{name: np.asarray(array) for name, array in candidate.items()})
        return Verdict(_core.call(
            "verify", golden=path(golden, "--golden"), candidate=path(dump, "--candidate"), stages=list(stages),
            case=word(case, "--case"), accumulator=word(accumulator, "--accumulator"), ignore=list(ignore),
            require=list(require), all_cases=bool(all_cases), nibbles=word(nibbles, "--nibbles"),
            scale_layout=word(scale_layout, "--scale-layout"), tolerance=word(tolerance, "--tolerance"),
            random_words=file_of("random_words", random_words), alpha=_finite(alpha, "--alpha"), beta=_finite(beta, "--beta"),
            c=file_of("c", c), bias=file_of("bias", bias), output_type=word(output_type, "--output-type"),
            seconds=_finite(seconds, "--seconds"), **who(backend, threads), long=True))


def _finite(value, name):
    made = float(value)
    if not abs(made) < float("inf"):
        raise Error(f"{name}: {made} is no finite number")
    return made


class Run(Result):
    """The result of a training run, as `fp4sim train --out` writes it; its fields are attributes, too."""

    rows_in = "curve"

    @property
    def loss(self) -> float:
        """Validation loss at the end, forward as trained."""
        return self["metrics"]["loss"]

    def _line(self):
        return f"{self.get('task')} {self.get('recipe')}: {self.get('status')}, loss {shown(self['metrics'].get('loss'))}"

    def __str__(self):
        return repr(self)

    def plot(self, *, ax=None, **keywords):
        """Its curves of training and validation loss by matplotlib; returns the axes."""
        ax = ax or _axes()
        table = self.table
        for name in ("train_loss", "validation_loss"):
            here = table[name] == table[name]
            ax.plot(table["step"][here], table[name][here], label=name.replace("_", " "), **keywords)
        return _labelled(ax, "step", "training and validation loss", legend=True)


def train(task: str, recipe: "str | dict[str, Any] | PathLike[str]" = "mxfp4", *, seed: int = 1, steps: int = 0, set=None,
          threads: int = 1, backend: str = "auto", progress=None) -> Run:
    """One run of a small task under a recipe, bit for bit that of `fp4sim train`.

    recipe    its name, its .json file, or a dict as such a file holds it
    set       {path: value} of recipe, training or task fields: {"lr": 2e-3, "wgrad.*.rounding": "stochastic"}
    steps     0: the task's own
    progress  called as progress(step, steps, loss) about ten times a second; an exception ends the run, as Ctrl-C does
    """
    sets = [f"{name}={text_of(value)}" for name, value in (set or {}).items()]
    board = (ctypes.c_int64 * 4)()  # whether to stop, step, steps, bits of the loss
    told = 0

    def tell():
        nonlocal told
        if progress is not None and board[1] != told:
            told = board[1]
            progress(board[1], board[2], struct.unpack("d", struct.pack("q", board[3]))[0])

    try:
        with recipes(recipe) as names:
            made = _core.call("train", task=word(task, "--task"), recipe=next(iter(names)), sets=sets,
                              steps=whole(steps, "--steps", 0, 10**9), seed=seed_of(seed), backend=word(backend, "--backend"),
                              threads=count_of_threads(threads), board=ctypes.addressof(board), poll=tell, keep=board, asks=True)
        tell()
    except BaseException:  # Ctrl-C: the run ends after its step, and nobody waits for it
        board[0] = 1
        raise
    return Run({**made, "recipe": names.get(made["recipe"], made["recipe"])})
