"""Writes __init__.pyi of the Python package from the package itself: its functions, and a class, a field or a member for
every row of the core's tables. The build calls it; `python_stubs.py FILE` with PYTHONPATH=build/python does, too.
"""
import enum
import inspect
import sys

HEAD = '''# Made by tools/scripts/python_stubs.py.
import enum
from typing import Any, Literal

import numpy as np

__version__: str

class Error(ValueError):
    """{error}"""
    exit_code: int

def signature() -> str:
    """16 hex digits that change when any arithmetic changes."""
'''
SKIPPED = ("Error", "signature")


def summary(thing):
    return (inspect.getdoc(thing) or "").split("\n")[0].replace("\\", "\\\\").replace('"""', "'''")


def function(name, thing, indent=""):
    said = str(inspect.signature(thing)).replace(f"{thing.__module__}.", "")
    return [f"{indent}def {name}{said}:", f'{indent}    """{summary(thing)}"""']


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
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    bases = "str, enum.Enum" if name == "Word" else bases
    lines = [f"class {name}({bases}):" if bases else f"class {name}:", f'    """{summary(thing)}"""']
    if name == "Word":
        lines.append("    source: str")
    types = {field: "str" if words else "Any" for field, _, _, words in fields}
    for key, member in vars(thing).items():
        if isinstance(member, property):
            result = member.fget.__annotations__.get("return", types.get(key) if name == "Spec" else None) or "Any"
            result = result if isinstance(result, str) else result.__name__
            lines += ["    @property", f'    def {key}(self) -> "{result}":', f'        """{summary(member)}"""']
        elif inspect.isfunction(member) and not key.startswith("_"):
            lines += function(key, member, "    ")
    if name == "Spec":
        lines[2:2] = spec_init(fields)
    elif inspect.isfunction(vars(thing).get("__init__")) and name != "Quantized":
        lines[2:2] = [f"    def __init__{inspect.signature(thing.__init__)}: ..."]
    return lines


def stub(package):
    fields = package._core.spec_fields()
    lines = [HEAD.format(error=summary(package.Error))]
    for name in sorted(set(package.__all__) - set(SKIPPED), key=lambda n: (n != "Word", package.__all__.index(n))):
        thing = getattr(package, name)
        lines += [*(class_of(name, thing, fields) if inspect.isclass(thing) else function(name, thing)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    import fp4sim

    with open(sys.argv[1], "w") as file:
        file.write(stub(fp4sim))
