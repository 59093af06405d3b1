"""Writes __init__.pyi of the Python package from the package itself: its functions, and a class, a field or a member for
every row of the core's tables. The build calls it; `python_stubs.py FILE` with PYTHONPATH=build/python does, too.
"""
import enum
import inspect
import re
import sys

HEAD = '''# Made by tools/scripts/python_stubs.py.
import enum
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np

__version__: str

class Error(ValueError):
    """{error}"""
    exit_code: int
'''
SKIPPED = ("Error",)
# What a parameter without an annotation takes; numpy's arrays, torch's and jax's tensors and lists of numbers are Any.
ACCEPTED = {"where": "str | list[str] | tuple[str, ...]", "set": "dict[str, Any] | None"}
SPECIAL = ("__len__", "__array__", "__bool__", "__getitem__", "__iter__")


def summary(thing):
    return (inspect.getdoc(thing) or "").split("\n")[0].replace("\\", "\\\\").replace('"""', "'''")


def annotation(given, fallback):
    """An annotation as a stub writes it."""
    if given is inspect.Parameter.empty:
        return fallback
    text = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    text = re.sub(r"\bfp4sim\.\w+\.", "", text)
    text = re.sub(r"\bnp\.ndarray\b", "np.ndarray[Any, Any]", text)
    return re.sub(r"\b(dict|list)\b(?!\[)", lambda m: {"dict": "dict[str, Any]", "list": "list[Any]"}[m[0]], text)


def parameter(p):
    kind = annotation(p.annotation, ACCEPTED.get(p.name, "Any"))
    default = "" if p.default is p.empty else f" = {p.default!r}"
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    return f"{star}{p.name}" if p.name in ("self", "cls") else f"{star}{p.name}: {kind}{default}"


def function(name, thing, indent=""):
    signature = inspect.signature(thing)
    words, star = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        star |= p.kind is p.VAR_POSITIONAL
        words.append(parameter(p))
    result = annotation(signature.return_annotation, "Any")
    return [f"{indent}def {name}({', '.join(words)}) -> {result}:", f'{indent}    """{summary(thing)}"""']


def words_type(words):
    """The type of a field that takes `words`; None: a number, a list, or a word that stands for one."""
    return "Any" if words is None else f"Literal[{', '.join(map(repr, words))}] | Word"


def spec_init(fields):
    """Spec(...) with a keyword for each field, so that editors complete fields and words."""
    keywords = "".join(f',\n                 {name}: "{words_type(words)}" = ...' for name, _, _, words in fields)
    return [f'    def __init__(self, spec: "str | Spec" = "", *{keywords}) -> None: ...']


def class_of(name, thing, fields):
    if issubclass(thing, enum.Enum) and len(thing):
        return [f"class {name}(Word):"] + [f"    {word.name} = {word.value!r}" for word in thing]
    bases = ", ".join("dict[str, Any]" if base is dict else base.__name__ for base in thing.__bases__ if base is not object)
    bases = {"Word": "str, enum.Enum", "Tensors": "Mapping[str, np.ndarray[Any, Any]]"}.get(name, bases)
    lines = [f"class {name}({bases}):" if bases else f"class {name}:", f'    """{summary(thing)}"""']
    if name == "Word":
        lines.append("    source: str")
    if "__getattr__" in vars(thing):
        lines.append("    def __getattr__(self, name: str) -> Any: ...")
    types = {field: "str" if words else "Any" for field, _, _, words in fields}
    for key, member in vars(thing).items():
        if isinstance(member, property):
            given = member.fget.__annotations__.get("return", types.get(key, "Any") if name == "Spec" else "Any")
            lines += ["    @property", f'    def {key}(self) -> "{annotation(given, "Any")}":', f'        """{summary(member)}"""']
        elif isinstance(member, classmethod) and not key.startswith("_"):
            lines += ["    @classmethod", *function(key, member.__func__, "    ")]
        elif inspect.isfunction(member) and (not key.startswith("_") or key in SPECIAL):
            lines += function(key, member, "    ")
    if name == "Spec":
        lines[2:2] = spec_init(fields)
    elif inspect.isfunction(vars(thing).get("__init__")) and name not in ("Quantized", "Tensors", "Verdict"):
        lines[2:2] = [line.replace("-> Any:", "-> None: ...") for line in function("__init__", thing.__init__, "    ")[:1]]
    return lines


def stub(package):
    fields = package._core.call("spec_fields")
    lines = [HEAD.format(error=summary(package.Error))]
    for name in sorted(set(package.__all__) - set(SKIPPED), key=lambda n: (n != "Word", package.__all__.index(n))):
        thing = getattr(package, name)
        if not callable(thing):
            lines += [f"{name}: dict[str, str]", ""]
            continue
        lines += [*(class_of(name, thing, fields) if inspect.isclass(thing) else function(name, thing)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    import fp4sim

    with open(sys.argv[1], "w") as file:
        file.write(stub(fp4sim))
