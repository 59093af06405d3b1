"""The commands of fp4sim as functions. Each runs the program, so its words, its numbers and its messages are the command
line's; further options go by keyword, with _ for -: pareto(folder, delta=0.01, no_effects=True)."""
import contextlib
import json
import os
import tempfile

from ._checks import path, word
from ._core import Error, json_of
from ._program import read, recipes, run, words_of_options
from ._results import Effects, Front, Picture, Result, Table
from ._words import Spec

# Every command, and what Python has for it; a text in brackets says why there is no function.
COMMANDS = {
    "list": "listing", "show": "show", "quantize": "quantize", "dequantize": "dequantize", "convert": "convert_layout",
    "compare": "compare", "inspect": "inspect", "gemm": "gemm", "hadamard": "hadamard", "random": "random",
    "golden": "golden_make", "verify": "verify", "witness": "witness", "signature": "signature", "train": "train",
    "eval": "evaluate", "serve": "serve", "stats": "stats", "trace": "trace_plot", "cost": "cost", "sweep": "sweep",
    "table": "table", "pareto": "pareto", "edge": "edge", "law": "law", "advise": "advise", "effects": "effects",
    "report": "report", "bench": "bench",
    "help": "(docstrings, and help() of Python; explain() gives its JSON)",
    "completion": "(for shells)",
    "version": "(__version__)",
}


def command(*words, progress: bool = False, **options) -> Result:
    """Any command by its words: command("cost", "stalls", ranks=4) is `fp4sim cost stalls --ranks=4 --json`."""
    return Result(read([*words, "--json", *words_of_options(options)], progress=progress))


def _of(kind, words, options, **keywords):
    return kind(read([*words, "--json", *words_of_options(options)], **keywords))


def _list(values):
    return [values] if isinstance(values, (str, os.PathLike, Spec)) else list(values)


class _Arrays:
    """Files as they are named, and arrays {name: array} as .npy files of a folder that lives as long as this."""

    def __init__(self, given):
        self.folder = tempfile.TemporaryDirectory()
        self.paths = []
        for entry in [given] if isinstance(given, (str, os.PathLike, dict)) or hasattr(given, "shape") else list(given):
            self.add(entry)

    def add(self, entry):
        if isinstance(entry, (str, os.PathLike)):
            self.paths.append(path(entry, "FILE"))
            return
        from ._numpy import np

        from ._arrays import floats

        named = entry if isinstance(entry, dict) else {f"array{len(self.paths)}": entry}
        for name, array in named.items():
            place = os.path.join(self.folder.name, str(name).replace("/", "_") + ".npy")
            if place in self.paths:
                raise Error(f"{name}: two arrays have this name, / counting as _; accepted: one each")
            np.save(place, floats(array, name))
            self.paths.append(place)

    def __enter__(self):
        return self.paths

    def __exit__(self, *problem):
        self.folder.cleanup()


def listing(*topics: str) -> Table:
    """What has a name, with a line and its source each: formats, scales, recipes, tasks, hardware, .. (all without topics)."""
    return Table.of(read(["list", *topics, "--json"])["rows"])


def explain(name: str) -> Result:
    """What a word, a recipe or a format means: `fp4sim help NAME`."""
    return _of(Result, ["help", word(name, "help")], {})


def compare(files, specs=(), **options) -> Table:
    """The error of formats on tensors, a row for each tensor and spec: NMSE, decibels, clipped and zero shares.

    files: a path, an array, {name: array}, or a list of them; specs: "nvfp4", ["mxfp4", "nvfp4,block=16x16"], ..
    """
    with _Arrays(files) as paths:
        chosen = {"specs": _list(specs)} if specs else {}
        return Table.of(read(["compare", *paths, "--json", *words_of_options({**chosen, **options})])["rows"])


def inspect(files, **options) -> Result:
    """What tensor files hold: names, types, shapes, the scheme of a quantised model."""
    return _of(Result, ["inspect", *map(str, _list(files))], options)


def convert_model(model, scheme: str, out, *, spec="", tensors=None, keep=None, keep_only=None, activations: "str | None" = None,
                  fuse="auto", nibbles: "str | None" = None, scale_layout: "str | None" = None, allow_left: bool = False,
                  changed: bool = False, force: bool = False, progress: bool = True, **options) -> str:
    """Quantises the matrices of a model's folder as a library writes them (`fp4sim list checkpoints`); returns `out`.

    tensors: patterns of what is quantised, "*.down_proj.weight"; keep: of what stays besides `fp4sim list keep-rules`; keep_only:
    instead of them ("none": nothing stays). fuse: weights that share a factor, "auto", "none" or "GROUPS.json". activations:
    `fp4sim list activations`. nibbles, scale_layout: orders of the output, "high_first" and "128x4". allow_left: what looks
    quantised and is not understood stays, instead of an Error. changed: reads shards that were changed since fp4sim wrote them.
    """
    run(["quantize", path(model, "IN"), "--out", path(out, "--out"), *words_of_options({
        "scheme": scheme, "spec": str(spec) or None, "tensors": tensors, "keep": keep, "keep_only": keep_only,
        "activations": activations, "fuse": fuse, "nibbles": nibbles, "scale_layout": scale_layout, "allow_left": allow_left,
        "changed": changed, "force": force, **options})], progress=progress)
    return path(out, "--out")


def decode_model(model, out, *, type: str = "f32", tensors=None, nibbles: "str | None" = None, scale_layout: "str | None" = None,
                 allow_left: bool = False, changed: bool = False, force: bool = False, progress: bool = True, **options) -> str:
    """The FP4 and FP8 weights of a model's folder as real numbers, "f32" or "bf16"; returns `out`. Keywords as in convert_model, nibbles
    and scale_layout of the input."""
    run(["dequantize", path(model, "IN"), "--out", path(out, "--out"), *words_of_options({
        "type": type, "tensors": tensors, "nibbles": nibbles, "scale_layout": scale_layout, "allow_left": allow_left,
        "changed": changed, "force": force, **options})], progress=progress)
    return path(out, "--out")


def convert_layout(file, out, **options) -> Result:
    """Codes or scales in another order: nibbles="low_first:marlin_uint32", scale_layout=.., size="MxK"."""
    return _of(Result, ["convert", path(file, "IN"), "--out", path(out, "--out")], options)


def witness(model_a: str, model_b: str, **options) -> Result:
    """The shortest operands on which two accumulators or policies differ."""
    return _of(Result, ["witness", word(model_a, "MODEL_A"), word(model_b, "MODEL_B")], options)


def golden_make(suite: str = "", out="", *, force: bool = False, spec="", shape="", input=None, threads: "int | None" = None,
                backend: str = "auto", **options) -> str:
    """Writes a bundle of inputs and exact answers: a suite (smoke, standard, stress), or one case of spec, shape
    ("MxK", "MxNxK") and input (a file, an array, or the name of a kind of numbers); returns `out`."""
    with _Arrays([] if input is None or isinstance(input, str) else input) as paths:
        run(["golden", "make", "--out", path(out, "--out"), *words_of_options({
            "suite": suite or None, "spec": str(spec) or None, "shape": shape or None,
            "input": paths[0] if paths else input, "force": force, "threads": threads, "backend": backend, **options})])
    return path(out, "--out")


def golden_check(folder, *, threads: "int | None" = None, backend: str = "auto") -> "list[tuple[str, str]]":
    """Computes a bundle again: [(file, what differs)], empty when every byte is equal."""
    words = ["golden", "check", path(folder, "DIR"), "--json", *words_of_options({"threads": threads, "backend": backend})]
    return [(d["file"], d["what"]) for d in json.loads(run(words, accepted=(0, 1)) or "null")["differences"]]


def evaluate(checkpoint, recipe, *, progress: bool = True, **options) -> Result:
    """The loss of a checkpoint of `fp4sim train --checkpoint` under one or several recipes, without training."""
    with recipes(recipe) as names:
        return _of(Result, ["eval"], {"checkpoint": checkpoint, "recipe": list(names), **options}, names=names, progress=progress)


def serve(service, **options) -> Result:
    """Ensembles under a service level: cost, accuracy, latency and targets met of each policy."""
    return _of(Result, ["serve", path(service, "SERVICE")], options)


def stats(task: str, recipe: "str | dict[str, Any] | PathLike[str]" = "mxfp4", **options) -> Result:
    """Statistics of the tensors that a recipe quantises at one step of a training: amax, kurtosis, underflow, NMSE."""
    with recipes(recipe) as names:
        return _of(Result, ["stats"], {"task": task, "recipe": list(names), **options}, names=names)


def trace_plot(file, out, **options) -> Picture:
    """Draws what `train --trace` wrote, over the steps, as an SVG; returns `out`, which a notebook shows."""
    run(["trace", "plot", path(file, "FILE"), "--out", path(out, "--out"), *words_of_options(options)])
    return Picture(path(out, "--out"))


def cost(recipe: "str | dict[str, Any] | PathLike[str] | list[Any]" = "", *, study: str = "", hardware=None, model=None,
         **options) -> Result:
    """The cost model: a recipe's step in operations, seconds and joules, against bf16's.

    study  compare (recipe: a list), explain, weights, embedding, recommend (tokens=, time_budget=), stalls, sensitivity,
           validate, calibrate or measure: `fp4sim cost STUDY`
    """
    chosen = {"hardware": hardware, "model": model, **options}
    with recipes(recipe or ()) as names:
        if not study or study in ("explain", "stalls"):
            words = ["cost", word(study, "study")] if study else ["cost"]
            return _of(Result, words, {"recipe": list(names), **chosen}, names=names)
        return _of(Result, ["cost", word(study, "study"), *names], chosen, names=names)


def table(folder, **options) -> Table:
    """The results of a sweep, a row per run, with costs; the columns of `fp4sim table --json`."""
    made = read(["table", path(folder, "DIR"), "--json", *words_of_options(options)])
    return Table.of(made["rows"], made["columns"])


def pareto(folder, **options) -> Front:
    """The fronts of a sweep, quality against cost, with simultaneous intervals: x=, y=, task=, hardware=, delta=, .."""
    return _of(Front, ["pareto", path(folder, "DIR")], options)


def edge(grid, **options) -> Result:
    """The largest learning rate at which each configuration of a grid still trains; out= the folder of the runs."""
    return _of(Result, ["edge", path(grid, "GRID")], options, progress=True)


def effects(folder, axis: str, **options) -> Effects:
    """What the values of an axis do, against=.. one of them, with simultaneous intervals; axis: a path, or its ending."""
    return _of(Effects, ["effects", path(folder, "DIR")], {"axis": word(axis, "--axis"), **options})


def law(ladder, *, baseline: str = "bf16", form: str = "quartet", at=None, held_out: float = 0, samples: int = 200,
        **options) -> Result:
    """The scaling law of a ladder of sizes and what each recipe's weights and tokens count in it: `fp4sim law --json`.

    ladder    the folder of a sweep of the task lm over sizes and budgets, or its `sweep export`
    form      quartet: six parameters; chinchilla: gamma = 1
    at        (N, D) where extra tokens are asked for; None: the largest of both
    held_out  runs with this many weights and more are kept out of the fit and predicted; 0: none
    samples   of the bootstrap that gives the intervals
    """
    point = None if at is None else ",".join(map(repr, at))
    return _of(Result, ["law", path(ladder, "LADDER")], {"baseline": baseline, "form": form, "at": point,
                                                        "held_out": held_out or None, "samples": samples, **options})


def advise(ladder="", *, hardware=None, model=None, **options) -> Result:
    """Which recipe reaches a loss in the least time, price or energy on a chip; ladder: as in law(), else our own."""
    return _of(Result, ["advise", *([path(ladder, "LADDER")] if ladder else [])],
               {"hardware": hardware, "model": model, **options})


def report(folder, out, **options) -> str:
    """Writes the web page of a sweep; returns `out`."""
    run(["report", path(folder, "DIR"), "--out", path(out, "--out"), *words_of_options(options)])
    return path(out, "--out")


def bench(*what: str, **options) -> Result:
    """Checks against the reference first, then times; ratios to sgemm and memcpy of the same run."""
    return _of(Result, ["bench", *what], options, progress=True)


class Sweep:
    """The folder of a sweep: sweep(grid, out=folder) runs one, Sweep(folder) opens it."""

    def __init__(self, folder):
        self.folder = path(folder, "DIR")

    def __fspath__(self):
        return self.folder

    def __repr__(self):
        from ._results import short

        return short(f"<fp4sim.Sweep {self.folder}>")

    def table(self, *, where=(), sort=(), grouped: bool = False, references: bool = False, hardware: str = "",
              model: str = "", weights=(), **options) -> Table:
        """Its results, a row per run (grouped: per configuration), with costs; the columns of `fp4sim table --json`.

        where: conditions such as "task=lm"; sort: columns, "-COLUMN" for falling.
        """
        return table(self.folder, where=_list(where), sort=",".join(_list(sort)) or None, group=grouped,
                     references=references, hardware=hardware or None, model=model or None, weight=weights or None, **options)

    def front(self, **options) -> Front:
        """Its Pareto front: pareto(folder, ..)."""
        return pareto(self.folder, **options)

    def effects(self, axis: str, **options) -> Effects:
        """What the values of an axis do: effects(folder, axis, ..)."""
        return effects(self.folder, axis, **options)

    def report(self, out, **options) -> str:
        """Writes its web page: report(folder, out, ..)."""
        return report(self.folder, out, **options)

    def status(self, **options) -> Result:
        """What is done, what is missing, what contradicts itself."""
        return _of(Result, ["sweep", "status", self.folder], options, accepted=(0, 1))  # 1: --complete says it is not

    def check(self, **options) -> Result:
        """Compares every row with its hash."""
        return _of(Result, ["sweep", "check", self.folder], options)

    def export(self, out, **options) -> str:
        """Writes its runs as a table that `fp4sim sweep import` reads; returns `out`."""
        run(["sweep", "export", self.folder, "--out", path(out, "--out"), *words_of_options(options)])
        return path(out, "--out")


def sweep(grid, out=None, *, progress: bool = True, **options) -> Sweep:
    """Runs what a grid asks for and its folder lacks; Ctrl-C keeps what is done, and the next call goes on.

    grid  a .json file, the name of a built-in grid, or a dict as such a file holds it
    out   the folder; None: NAME.sweep, NAME.fixed.sweep with fixed=
    dry_run=True prints what there is to do, and runs nothing.
    """
    with tempfile.TemporaryDirectory() as place:
        file = os.path.join(place, "grid.json") if isinstance(grid, dict) else path(grid, "GRID")
        if isinstance(grid, dict):
            with open(file, "w") as f:
                f.write(json_of(grid, "GRID"))
        said = run(["sweep", "run", file, *words_of_options({"out": out, "quiet": not progress, **options})], progress=progress)
        if options.get("dry_run"):
            print(said, end="")
        if out is None:
            with contextlib.suppress(OSError), open(file, encoding="utf-8") as f:  # a built-in grid has no file
                file = json.load(f)["name"]
            out = file + (".fixed.sweep" if options.get("fixed") else ".sweep")
    return Sweep(out)


def merge(folders, out) -> Sweep:
    """Puts the folders of shards together: `fp4sim sweep merge`."""
    run(["sweep", "merge", *(path(folder, "DIR") for folder in _list(folders)), "--out", path(out, "--out")])
    return Sweep(path(out, "--out"))
