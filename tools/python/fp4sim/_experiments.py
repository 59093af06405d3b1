"""Golden bundles, verdicts, training runs, tables of sweeps and scaling laws."""
import os
import tempfile

import numpy as np

from . import _core
from ._core import Error
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


def verify(golden, candidate, *, case: str = "", stages=(), accumulator: str = "fp32_block", ignore=(), require=(),
           all_cases: bool = False, nibbles: str = "", scale_layout: str = "", tolerance: str = "", random_words=None,
           alpha: float = 1.0, beta: float = 0.0, c=None, bias=None, output_type: str = "fp32",
           threads: "int | None" = None, backend: str = "auto") -> Verdict:
    """Judges a kernel's results against a golden bundle and names what the kernel does instead.

    candidate: a path (folder, .npy, .npz, .safetensors), or a dict of arrays {"codes": ..., "scales": ...}, whose names
    may start with a case, "CASE/codes"; `case` says which one where they do not.
    nibbles, scale_layout: the order that codes and scales must have (`fp4sim list layouts`); not said: a known one is found.
    tolerance: "reciprocal_ulp=1" for kernels that take an approximate 1/x. random_words: the bits that the kernel drew.
    alpha, beta, c [M, N], bias [N], output_type: the epilogue of products; what is not said is looked for.
    random_words, c and bias are arrays or paths of files.
    """
    from . import _threads, _word

    if isinstance(candidate, dict) and not candidate:
        raise Error("candidate: no arrays")
    with tempfile.TemporaryDirectory() as folder:
        def file_of(name, given):
            if given is None or isinstance(given, (str, os.PathLike)):
                return "" if given is None else os.fspath(given)
            path = os.path.join(folder, name + ".npy")
            np.save(path, np.asarray(given))
            return path

        path = candidate
        if isinstance(candidate, dict):
            path = os.path.join(folder, "candidate.npz")
            np.savez(path, **{name: np.asarray(array) for name, array in candidate.items()})
        return Verdict(_core.verify(
            os.fspath(golden), os.fspath(path), list(stages), _word(case, "--case"), _word(accumulator, "--accumulator"),
            list(ignore), list(require), bool(all_cases), _word(nibbles, "--nibbles"),
            _word(scale_layout, "--scale-layout"), _word(tolerance, "--tolerance"), file_of("random_words", random_words),
            float(alpha), float(beta), file_of("c", c), file_of("bias", bias), _word(output_type, "--output-type"),
            _word(backend, "--backend"), _threads(threads)))


def golden_make(suite: str, out, *, force: bool = False, threads: "int | None" = None, backend: str = "auto") -> None:
    """Writes a bundle of inputs and exact answers: suite smoke, standard or stress."""
    from . import _threads, _word

    _core.golden_make(_word(suite, "--suite"), os.fspath(out), bool(force), _word(backend, "--backend"),
                      _threads(threads))


def golden_check(folder, *, threads: "int | None" = None, backend: str = "auto") -> list:
    """Computes a bundle again: [(file, what differs)], empty when every byte is equal."""
    from . import _threads, _word

    return _core.golden_check(os.fspath(folder), _word(backend, "--backend"), _threads(threads))


class Run(dict):
    """The result of a training run, as `fp4sim train --out` writes it; its fields are attributes, too."""

    @property
    def loss(self) -> float:
        """Validation loss at the end, forward as trained."""
        return self["metrics"]["loss"]

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def train(task: str, recipe: str = "mxfp4", *, seed: int = 1, steps: int = 0, set=None, threads: int = 1,
          backend: str = "auto", progress=None) -> Run:
    """One run of a small task under a recipe, bit for bit that of `fp4sim train`.

    set       {path: value} of recipe, training or task fields: {"lr": 2e-3, "wgrad.*.rounding": "stochastic"}
    steps     0: the task's own
    progress  called as progress(step, steps, loss) about ten times a second; an exception, Ctrl-C too, ends the run
    """
    from . import _threads, _whole, _word

    sets = [f"{path}={text_of(value)}" for path, value in (set or {}).items()]
    return Run(_core.train(_word(task, "--task"), _word(recipe, "--recipe"), sets, _whole(steps, "--steps", 0, 10**9),
                           _whole(seed, "--seed", 0, 2**64 - 1), _word(backend, "--backend"), _threads(threads),
                           progress))


def law(ladder, *, baseline: str = "bf16", form: str = "quartet", at=None, held_out: float = 0, samples: int = 200) -> dict:
    """The scaling law of a ladder of sizes and what each recipe's weights and tokens count in it: `fp4sim law --json`.

    ladder    the folder of a sweep of the task lm over sizes and budgets, or its `sweep export`
    form      quartet: six parameters; chinchilla: gamma = 1
    at        (N, D) where extra tokens are asked for; None: the largest of both
    held_out  runs with this many weights and more are kept out of the fit and predicted; 0: none
    samples   of the bootstrap that gives the intervals
    """
    from . import _number, _whole, _word

    point = [] if at is None else [_number(x, "--at", 1e-300) for x in at]
    return _core.law(os.fspath(ladder), _word(baseline, "--baseline"), _word(form, "--form"), point,
                     _number(held_out, "--held-out", 0), _whole(samples, "--samples", 40, 100000))


class Table(dict):
    """{column: numpy array}: numbers as float64 (NaN where there is none) or int64, words as objects."""

    def to_pandas(self):
        """A pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self)


def _column(cells):
    if all(isinstance(cell, int) for cell in cells):
        return np.array(cells, np.int64)
    if all(cell is None or isinstance(cell, (int, float)) for cell in cells):
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    return np.array(cells, object)


class Sweep:
    """The folder that `fp4sim sweep run --out` wrote."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)

    def table(self, *, where=(), sort=(), grouped: bool = False, references: bool = False, hardware: str = "",
              model: str = "", weights=()) -> Table:
        """Its results, a row per run (grouped: per configuration), with costs; the columns of `fp4sim table --json`.

        where: conditions such as "task=lm"; sort: columns, "-COLUMN" for falling.
        """
        where, sort = ([x] if isinstance(x, str) else list(x) for x in (where, sort))
        columns, rows = _core.sweep_table(self.folder, hardware, model, list(weights), where, sort, bool(grouped),
                                          bool(references))
        return Table({name: _column([row[i] for row in rows]) for i, name in enumerate(columns)})
