#!/usr/bin/env python3
"""Prints which lines ran, by folder, from the counters of g++ below FOLDER:  tests/coverage.py FOLDER [ROOT]

A line of a header or of a template stands in many objects: it ran where it ran in one of them. Folders are the first two
words of a path (sim/train), files of tests are left out. FOLDER/not_run.txt lists what no test ran: a line for each stretch
of five lines and more, the longest first.
"""
import collections
import json
import pathlib
import subprocess
import sys

folder = pathlib.Path(sys.argv[1]).resolve()
root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parents[1]).resolve()
ran = collections.defaultdict(dict)  # {file: {line: whether it ran}}
counters = sorted(folder.rglob("*.gcda"))
if not counters:
    sys.exit(f"coverage.py: no .gcda below {folder}: build with --coverage and run a test first")
for counter in counters:
    told = subprocess.run(["gcov", "--json-format", "--stdout", counter], cwd=counter.parent, capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"coverage.py: gcov {counter}: {told.stderr.strip()}")
    for document in told.stdout.splitlines():
        parsed = json.loads(document)
        for file in parsed["files"]:
            path = pathlib.Path(parsed["current_working_directory"], file["file"]).resolve()
            if not path.is_relative_to(root) or path.is_relative_to(folder):
                continue
            name = str(path.relative_to(root))
            if name.startswith("tests/"):
                continue
            for line in file["lines"]:
                ran[name][line["line_number"]] = ran[name].get(line["line_number"], False) or line["count"] > 0
stretches = []  # (lines, file, first, last)
for name, lines in ran.items():
    begun = []
    for number, did in [*sorted(lines.items()), (0, True)]:
        if not did:
            begun.append(number)
            continue
        if len(begun) >= 5:
            stretches.append((len(begun), name, begun[0], begun[-1]))
        begun = []
(folder / "not_run.txt").write_text("".join(f"{count:4} {name}:{first}-{last}\n" for count, name, first, last in sorted(stretches, reverse=True)))
folders = collections.defaultdict(lambda: [0, 0])
for name, lines in ran.items():
    for place in ("/".join(name.split("/")[:2 if name.count("/") > 1 else 1]), "all"):
        folders[place][0] += len(lines)
        folders[place][1] += sum(lines.values())
print(f"{'folder':24} {'lines':>7} {'ran':>7} {'share':>7}")
for place, (lines, count) in sorted(folders.items(), key=lambda row: (row[0] == "all", row[0])):
    print(f"{place:24} {lines:7} {count:7} {count / lines:7.1%}")
