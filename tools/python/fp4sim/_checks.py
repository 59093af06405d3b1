"""Checks of arguments, with the command line's words in the messages."""
import operator
import os

from ._core import Error, json_of


def whole(value, name, low, high):
    """A whole number from low to high."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{name}: {value!r} is no whole number; accepted: {low} .. {high}") from None
    if not low <= number <= high:
        raise Error(f"{name}: {number} is out of range; accepted: {low} .. {high}")
    return number


def number(value, name, low):
    """A finite number from low on."""
    try:
        made = float(value)
    except (TypeError, ValueError):
        raise Error(f"{name}: {value!r} is no number") from None
    if not low <= made < float("inf"):
        raise Error(f"{name}: {made} is out of range; accepted: from {low}")
    return made


def word(value, name):
    """Text."""
    if not isinstance(value, str):
        raise Error(f"{name}: {value!r} is no word")
    return str(value)


def one_of(value, name, words):
    """One of some words."""
    if value not in words:
        raise Error(f"{name}: unknown word {value!r}; accepted: {', '.join(words)}")
    return value


def recipe_of(value):
    """A recipe for the library: its name, the path of its .json file, or the JSON of a dict."""
    if not isinstance(value, dict):
        return os.fsdecode(value) if isinstance(value, os.PathLike) else word(value, "--recipe")
    return json_of(value, "--recipe")


def path(value, name):
    """The text of a path."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise Error(f"{name}: {value!r} is no path") from None


def count_of_threads(threads):
    """0 for None: what set_num_threads() said."""
    return 0 if threads is None else whole(threads, "--threads", 1, 4096)


def seed_of(seed):
    return whole(seed, "--seed", 0, 2**64 - 1)


def place(seed, stream, step):
    """Where random bits lie."""
    return {"seed": seed_of(seed), "stream": whole(stream, "--stream", 0, 2**32 - 1),
            "step": whole(step, "--step", 0, 2**32 - 1)}


def who(backend, threads):
    """Who computes."""
    return {"backend": word(backend, "--backend"), "threads": count_of_threads(threads)}
