#!/usr/bin/env python3
"""Fails when a file includes a folder to its right: include/fp4 <- src <- sim <- tasks <- sweeps <- tools.

The folder of an include is its first word ("fp4/..." is include/fp4); an include without a folder is a neighbour.
tests may include everything and nothing includes tests. ROOMS are the folders inside a folder, in the same order: a room
includes itself and rooms to its left. Two source files never have one name, whatever their folders: an error that names
`grid.cpp:40` names one place. No vector function of src/cpu that may stay a call returns one vector in a struct
(src/cpu/README.md says what g++ does to it). What an error says is for people; no code compares its text, searches
it or keeps it in a variable of its own to do so (fields of Error are there for that), but for main.cpp, which prints it,
and json_reader.cpp, which takes the library's number off. Last: a function has at most LONGEST lines, or above it a
comment `// long: REASON` (Python: `# long: REASON`). C++ is laid out by clang-format and JavaScript like it, so a function
ends at the first } below its first letter.
"""
import ast
import pathlib
import re
import sys

ORDER = ["include", "src", "sim", "tasks", "sweeps", "tools", "tests"]
ROOMS = {
    "src": ["text", "threads", "files", "layout", "arith", "cpu", "listed", "gpu", "backends", "stream", "model", "golden", "c_api"],
    "sim": ["kernels", "tape", "rules", "engine", "net", "train"],
    "sweeps": ["cost", "grid", "engine", "judge", "explore", "report"],
}
VECTOR_CALL = re.compile(r"\bFP4_TARGET\s+(?:__attribute__\(\(\w+\)\)\s+)?(?:inline\s+)?(?:F|I|B)\s+(\w+)\(")
MESSAGE_READ = re.compile(
    r"what\(\)\)?\s*(?:\.\s*(?:r?find|starts_with|ends_with|contains|substr|compare)|[=!]=)|[=!]=\s*\S*what\(\)|\b(?:string|string_view|auto)&?\s+\w+\s*[=({][^;]*\bwhat\(\)")
MESSAGE_READERS = ("tools/main.cpp", "src/text/json_reader.cpp")
LONGEST = 60
TYPE = re.compile(r"\s*(?:(?:template ?<.*>|static|inline|constexpr|typedef) )*(?:namespace|struct|class|union|enum|extern \"C\")\b")


def long_functions(text):
    """(line, lines) of functions of a namespace, and of those of its types, that are longer and do not say why."""
    lines, holder = text.splitlines(), ""
    begins = ["", ""]  # by depth the line that opens what is open: "" where that is none, else its number
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if indent not in (0, 2) or not line.strip() or line.lstrip().startswith(("#", "//", "template", ")", "public:", "private:")):
            continue
        depth = indent // 2
        if not line.lstrip().startswith("}"):
            begins[depth] = "" if line.endswith((";", "}")) else number
            holder = line if depth == 0 else holder
        elif begins[depth] != "":
            first, begins[depth] = begins[depth], ""
            head = lines[first].split("(")[0]
            is_function = "(" in lines[first] and "=" not in head.split("operator")[0] and not TYPE.match(lines[first])
            above = first - 1
            while above > 0 and lines[above].lstrip().startswith(("//", "template")) and "// long: " not in lines[above]:
                above -= 1
            says_why = re.match(r"\s*// long: \w", lines[above])
            if is_function and (depth == 0 or TYPE.match(holder)) and number - first >= LONGEST and not says_why:
                yield first + 1, number - first + 1


SCRIPT = re.compile(r"(\s*)(?:export )?(?:async )?(?:function\b|const \w+ = (?:async )?(?:\([^)]*\)|\w+) =>).*{$")


def long_in_script(path, text):
    """The same of JavaScript and Python, whose reason stands in the line above."""
    lines = text.splitlines()
    if path.suffix == ".py":
        ends = {n.lineno: n.end_lineno for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    else:
        heads = {number: head[1] for number, line in enumerate(lines, 1) if (head := SCRIPT.match(line))}
        ends = {first: next(n for n in range(first + 1, len(lines) + 1) if lines[n - 1].startswith(indent + "}"))
                for first, indent in heads.items()}
    for first, last in ends.items():
        if last - first >= LONGEST and not re.match(r"\s*(//|#) long: \w", lines[first - 2]):
            yield first, last - first + 1


def too_long(path, found):
    return [f"{path}:{at}: {count} lines; shorten it, or say why above it: // long: REASON" for at, count in found]


SUFFIXES = {".h", ".cpp", ".cu", ".hip", ".cuh", ".inc", ".c"}
root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
failures = []
checked = 0
places = {}  # of a file name
for level, folder in enumerate(ORDER):
    for path in sorted(p for p in (root / folder).rglob("*") if folder != "tests" and p.suffix in {".py", ".js", ".mjs"}):
        failures += too_long(path.relative_to(root), long_in_script(path, path.read_text(encoding="utf-8")))
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        checked += 1
        if not path.is_relative_to(root / "tests/threads"):  # stands in for a header, so it has its name
            places.setdefault(path.name, []).append(str(path.relative_to(root)))
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(root / "src/cpu"):
            failures += [f"{path.relative_to(root)}: {name} is a call that returns a vector" for name in VECTOR_CALL.findall(text)]
        if folder != "tests" and not str(path.relative_to(root)).startswith(MESSAGE_READERS):
            failures += [f"{path.relative_to(root)}: decides by the text of an error: {m[0]}" for m in MESSAGE_READ.finditer(text)]
        if folder != "tests":
            failures += too_long(path.relative_to(root), long_functions(text))
        for number, line in enumerate(text.splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if not found:
                continue
            name = found.group(1)
            target = (path.parent / name).resolve()
            if "../" in name and target.is_relative_to(root.resolve()):
                first = target.relative_to(root.resolve()).parts[0]
            else:
                first = name.split("/")[0] if "/" in name else folder
                first = "include" if first == "fp4" else first
            upward = first in ORDER and ORDER.index(first) > level
            rooms = ROOMS.get(folder, [])
            here, there = path.relative_to(root / folder).parts[0], (name.split("/") + [""])[1]
            if first == folder and here in rooms and there in rooms:
                upward = rooms.index(there) > rooms.index(here)
            if upward:
                failures.append(f"{path.relative_to(root)}:{number}: {folder} must not include {name}")
failures += [f"one name, two files: {' '.join(same)}" for same in places.values() if len(same) > 1]
print("\n".join(failures) or f"{checked} files, no upward include, no name twice")
sys.exit(1 if failures else 0)
