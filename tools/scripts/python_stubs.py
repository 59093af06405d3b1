"""Prints __init__.pyi of the Python package from the package itself, so that editors know the words of every axis:
    PYTHONPATH=build/python python3 tools/scripts/python_stubs.py > build/python/fp4sim/__init__.pyi
"""
import enum
import inspect

import fp4sim


def summary(thing):
    return (inspect.getdoc(thing) or "").split("\n")[0].replace('"""', "'''").replace("\\", "\\\\")


def function(name, thing, indent=""):
    return [f"{indent}def {name}{inspect.signature(thing)}:", f'{indent}    """{summary(thing)}"""']


def class_of(name, thing):
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    lines = [f"class {name}({bases}):" if bases else f"class {name}:", f'    """{summary(thing)}"""']
    if issubclass(thing, enum.Enum) and len(thing):
        return [f"class {name}(Word):"] + [f"    {word.name} = {word.value!r}" for word in thing]
    for key, member in vars(thing).items():
        if isinstance(member, property):
            lines += ["    @property", f"    def {key}(self):", f'        """{summary(member)}"""']
        elif inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
            lines += function(key, member, "    ")
    return lines


def stub():
    lines = ["# Made by tools/scripts/python_stubs.py.", "import enum", "", "__version__: str"]
    for name in fp4sim.__all__:
        thing = getattr(fp4sim, name)
        if name == "Error":
            lines += ["class Error(ValueError):", '    """Wrong words or input, or work that failed."""', "    exit_code: int"]
        elif name == "Word":
            lines += ["class Word(str, enum.Enum):", f'    """{summary(thing)}"""', "    source: str"]
        elif inspect.isclass(thing):
            lines += class_of(name, thing)
        elif name == "signature":
            lines += ["def signature() -> str:", '    """16 hex digits that change when any arithmetic changes."""']
        else:
            lines += function(name, thing)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
