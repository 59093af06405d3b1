#!/usr/bin/env python3
"""Does the walk-through "My first change" of CONTRIBUTING.md work? Its changes are put into a copy, one after the other:

    tests/first_change.py COMPILER [FLAG.. LIBRARY..]

The change of a test alone does not compile and names the new word; with the next change it compiles and passes. But for
tests, all changes stay in one folder. ctest gives the compiler, and Catch2 as flags and libraries.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WORD = "nearest_toward_negative"


def fail(why, told=""):
    sys.exit(f"first_change.py: CONTRIBUTING.md, My first change: {why}\n{told}")


def run(words, folder):
    return subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main(compiler, *flags):
    page = pathlib.Path("CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## My first change\n(.*?)^## ", page, re.M | re.S)
    if not section:
        fail("no such section")
    changes = re.findall(r"^ *```diff\n(.*?)^ *```", section[1], re.M | re.S)
    targets = re.findall(r"--target (\w+)", section[1])
    if len(changes) != 2 or "test_rounding" not in targets:
        fail("expected two changes, of a test and of a header, and the target test_rounding")
    files = [re.findall(r"^\+\+\+ b/(\S+)$", change, re.M) for change in changes]
    folders = {file.rsplit("/", 1)[0] for file in sum(files, []) if not file.startswith("tests/")}
    if files[0] != ["tests/test_rounding.cpp"] or folders != {"include/fp4"}:
        fail(f"expected changes of tests/test_rounding.cpp, then of include/fp4 alone, found {files}")
    with tempfile.TemporaryDirectory() as place:
        copy = pathlib.Path(place)
        for folder in ("include", "tests/catch3"):
            shutil.copytree(folder, copy / folder)
        shutil.copy("tests/test_rounding.cpp", copy / "tests")
        words = [compiler, "-std=c++20", "-O0", "-ffp-contract=off", "-Wall", "-Wextra", "-Wswitch", "-Werror", "-Iinclude",
                 "tests/test_rounding.cpp"]
        for number, change in enumerate(changes):
            (copy / "change.diff").write_text(change, encoding="utf-8")
            done = run(["patch", "-p1", "--fuzz=0", "-i", "change.diff"], copy)
            if done.returncode:
                fail(f"change {number + 1} cannot be put in", done.stdout)
            if number == 0:
                done = run([*words, "-fsyntax-only", *(f for f in flags if f.startswith("-"))], copy)
                if done.returncode == 0 or WORD not in done.stdout:
                    fail("the test compiles before the word is there", done.stdout)
        done = run([*words, "-o", "test_rounding", *flags], copy)
        if done.returncode:
            fail("with all changes it does not compile", done.stdout)
        done = run(["./test_rounding", "[quick]"], copy)
        if done.returncode:
            fail("the new test fails", done.stdout)
    print("2 changes, 1 folder beside tests; test_rounding passes")


if __name__ == "__main__":
    main(*sys.argv[1:])
