#!/bin/sh
# Is the table "a new... | one place" of CONTRIBUTING.md true? Each kind is added to a copy where text alone can show it: axes
# as tests/variants adds them, and files below sweeps/ and tools/studies. Of what would need a compiler those that exist
# are counted: the files that name a subcommand, a task or a backend's factory besides its own.
#   tests/one_place.sh     prints one line a kind; fails where more places are touched than the table says
set -eu
cd "$(dirname "$0")/.."
exec python3 - <<'PYTHON'
import fnmatch, pathlib, re, sys

failed = False


def check(kind, files, expected):
    global failed
    files = sorted(set(files))
    verdict = "ok" if len(files) == expected else f"expected {expected}"
    failed |= len(files) != expected
    print(f"{kind:<34} {len(files)}  {verdict}  {' '.join(files)}")


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def naming(word, *folders):
    """The files that name a word, comments aside."""
    paths = [p for f in folders for p in pathlib.Path(f).rglob("*") if p.suffix in (".h", ".cpp", ".txt", ".cmake", ".cu")]
    return [str(p) for p in paths if re.search(rf"\b{word}\b", re.sub(r"//.*", "", read(p)))]


# Axes: every paragraph of add_variants.py adds one variant; of each, the headers that differ. Only the policies on
# zeros and the like, which the table does not promise, reach a second header.
paragraphs = read("tests/variants/add_variants.py").split("\n\n")
paragraphs = [p.strip("\n") for p in paragraphs]
start = next(i for i, p in enumerate(paragraphs) if p.startswith("enumerator("))
prelude = "\n\n".join(paragraphs[:start])
for paragraph in paragraphs[start:]:
    if "out.mkdir" in paragraph:
        continue
    sys.argv = ["add_variants.py", "include/fp4", "unused"]
    space = {"__name__": "copy"}
    exec(prelude, space)
    before = dict(space["texts"])
    exec(paragraph, space)
    axes = re.findall(r'enumerator\("\w+\.h", "(\w+)"', paragraph)
    changed = [name for name, text in space["texts"].items() if before[name] != text]
    if axes:
        # The rows of adders stand apart from their sums, which would make one header of 600 lines.
        check("axis " + "/".join(axes), changed, 2 if "AccumulatorKind" in axes else 1)
    else:
        check("policies on zeros, nonfinite", changed, 2)

# Files below sweeps/: the build takes them by a pattern, and nothing names them.
patterns = re.findall(r"(\w+/\*\.\w+)", read("sweeps/CMakeLists.txt"))
for folder in ("recipes", "grids", "hardware", "models"):
    added = f"{folder}/new_one_place.json"
    check(f"file in sweeps/{folder}", [added] if any(fnmatch.fnmatch(added, p) for p in patterns) else [], 1)
study = re.sub("#.*", "", read("tools/study.sh"))
for path in sorted(pathlib.Path("sweeps/studies").glob("*.json")) or sys.exit("no study below sweeps/studies"):
    check(f"study {path.stem}", [str(path)] + ["tools/study.sh"] * bool(re.search(rf"\b{path.stem}\b", study)), 1)

# What is code: its own file and one list.
for name in re.findall(r"  X\((\w+),", read("tools/main.cpp")):  # the list itself, and its file
    check(f"subcommand {name}", ["tools/main.cpp"] + naming(f"command_{name}", "tools", "sweeps"), 2)
for name in re.findall(r"X\((\w+)\) ?", re.search(r"#define FP4_TASKS\(X\)(.*)", read("tasks/tasks.cpp"))[1]):
    files = naming(f"{name}\\(\\) \\{{|X\\({name}\\)|&{name}\\(\\)", "tasks")
    check(f"task {name}", files, 2)
for name in ("avx2", "avx512", "generic"):
    files = [f for f in naming(f"{name}_backend", "src", "tools", "sim") if not f.startswith(f"src/cpu/backend_{name}")]
    check(f"fast path {name}, with its header", files, 2)
    check(f"word {name} of --backend", naming(f"auto, .*{name}", "tools"), 0)
# Types: a header of an inner namespace that declares a type of an outer one again hides it for all that stand beside.
# Lanes and tables of AVX-512 stand beside their portable forms; no file sees both.
declared = {}
for folder in ("include", "src", "sim", "sweeps", "tasks", "tools"):
    for path in sorted(pathlib.Path(folder).rglob("*.h")):
        inside = []
        for line in read(path).splitlines():
            opened = re.match(r"namespace (\S+) \{", line)
            if opened:
                inside.append(opened[1])
            elif line.startswith("}  // namespace") and inside:
                inside.pop()
            named = re.match(r"(?:template <.*> )?(?:struct|class|enum class) (\w+)(?: : .*)?(?: \{.*)?$", line)
            if named:
                declared.setdefault(named[1], {}).setdefault("::".join(inside), str(path))
if len(declared) < 500:
    sys.exit(f"{len(declared)} types in all headers")
for name, places in sorted(declared.items()):
    hiding = [path for space, path in places.items() if any(space.startswith(outer + "::") for outer in places)]
    if hiding:
        check(f"type {name}", hiding, 0)
sys.exit(1 if failed else 0)
PYTHON
