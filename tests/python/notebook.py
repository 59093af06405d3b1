"""Runs a notebook without a notebook server and writes what its cells show into it; the fp4sim package has to be in
PYTHONPATH.  tests/python/notebook.py FILE.ipynb
"""
import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings


def lines(text):
    return text.splitlines(keepends=True)


def shown(value):
    """The forms in which a notebook shows a value."""
    data = {"text/plain": lines(repr(value))}
    for name, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        text = getattr(value, name)() if hasattr(value, name) else None
        if text:
            data[kind] = lines(text)
    return data


def run(source, names, number):
    """The outputs of a cell, as its file holds them; an exception ends the run."""
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed, outputs, value = io.StringIO(), [], None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(body, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        outputs.append({"data": shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def executed(notebook):
    """The notebook with the outputs of all cells, run in an empty folder."""
    names, before = {"__name__": "__main__"}, os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
                cell["outputs"], cell["execution_count"] = run("".join(cell["source"]), names, number), number
        finally:
            os.chdir(before)
    return notebook


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        made = executed(json.load(file))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
