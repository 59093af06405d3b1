#!/usr/bin/env python3
"""Puts the faults of tests/mutants.json into a copy of the tree, one at a time, and says which test finds each.

    tests/mutants.py FOLDER [NAME..]    the copy and its build, made where they are not; all mutants, or those named
    tests/mutants.py --check            whether each can be put in: its text occurs once in its file

A mutant's tests run in their order, each up to its first failure. `test_race.quick` is a test of ctest; with a colon and
the name of a case behind it, that case alone. Before any fault the same tests have to pass; a mutant whose tests this
machine skips is not tried. Ends with 1 where a mutant survives, cannot be compiled or cannot be put in, with 2 for a wrong
name or folder. J=2 in the environment compiles two files at once.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 600  # seconds of a test; one that hangs has found the fault
MARK = "mutants.folder"  # in what this script made
SKIPPED = "skipped on this machine"


def refuse(text):
    print(f"mutants.py: {text}", file=sys.stderr)
    sys.exit(2)


def mutants(names):
    known = json.loads((ROOT / "tests/mutants.json").read_text(encoding="utf-8"))
    for name in names:
        if name not in [m["name"] for m in known]:
            refuse(f"no mutant '{name}'; accepted: {', '.join(m['name'] for m in known)}")
    return [m for m in known if not names or m["name"] in names]


def check(known):
    """What keeps mutants from being put in, a line each."""
    wrong, seen = [], set()
    for m in known:
        file = ROOT / m["file"]
        count = file.read_text(encoding="utf-8").count(m["from"]) if file.is_file() else 0
        if count != 1 or m["from"] == m["to"] or m["name"] in seen or not m["tests"]:
            wrong.append(f"{m['name']}: {count} places of {m['file']} have its text, or its name, change or tests are wrong")
        seen.add(m["name"])
    return wrong


def copy_tree(folder):
    """The files of the tree as they are now, those that nobody has committed included; equal ones keep their times."""
    if folder == ROOT or (folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists()):
        refuse(f"{folder} holds something else; accepted: a new folder, or one that this script made")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    wanted = {name for name in os.fsdecode(listed.stdout).split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        to = folder / name
        if to.is_file() and to.read_bytes() == (ROOT / name).read_bytes():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, to)
        shutil.copymode(ROOT / name, to)
    for top, folders, files in os.walk(folder):
        if pathlib.Path(top) == folder:
            folders[:] = [f for f in folders if f not in ("build", "node_modules")]
            files = [f for f in files if f != MARK]
        for name in files:
            if str((pathlib.Path(top) / name).relative_to(folder)) not in wanted:
                (pathlib.Path(top) / name).unlink()
    packages = folder / "node_modules"
    if (ROOT / "node_modules").exists() and not packages.exists():
        packages.symlink_to((ROOT / "node_modules").resolve())


def configure(folder):
    # Optimised little: a mutant is compiled once and its tests run for seconds.
    words = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFP4_TESTS=ON",
             "-DFP4_TEST_BATCHES=OFF", "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
             "-DFP4_LIGHT=-Og", "-DFP4_FILES_LIGHT=-Og"]
    if shutil.which("ccache"):
        words += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def targets_of(tests):
    found = set()
    for test in tests:
        name, label = test.split(":")[0].rsplit(".", 1)
        found |= {"fp4_python", "fp4sim"} if name.startswith("test_python") else {name}
        found |= {"fp4sim"} if label == "cli" else set()
    return sorted(found)


def build(folder, targets):
    """What the compiler said; "" where all was built."""
    done = subprocess.run(["ninja", "-C", "build", "-j", os.environ.get("J", "1"), *targets], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    return done.stdout if done.returncode else ""


def commands_of(folder):
    """{test: (command, environment, folder)} of ctest."""
    told = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder / "build", capture_output=True, check=True).stdout
    found = {}
    for test in json.loads(told)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        found[test["name"]] = (test.get("command"), dict(w.split("=", 1) for w in properties.get("ENVIRONMENT", [])),
                               properties.get("WORKING_DIRECTORY"))
    return found


def first_failure(output):
    """The name of the test case that failed first."""
    catch = re.search(r"^-{20,}\n(.+?)\n-{20,}$", output, re.M | re.S)
    python = re.search(r"^(?:FAIL|ERROR): (\w+)", output, re.M)
    return python[1] if python else " ".join(catch[1].split("\n")[0].split()) if catch else ""


def run(test, known, more):
    """None where a test passes, else what failed in it; `more` of the environment is the mutant's."""
    name, _, case = test.partition(": ")
    command, environment, folder = known[name]
    command = list(command)
    if name.startswith("test_python"):
        command += ["-f"] + (["-k", case] if case else [])
    else:
        command += ["--abort"]
        if case:
            label = name.rsplit(".", 1)[1]
            command[command.index(f"[{label}]")] = case.replace(",", "\\,")
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment, **more}, text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = process.communicate(timeout=LONGEST)[0]
    except subprocess.TimeoutExpired:
        return "did not end"
    finally:  # also by Ctrl-C
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode == 0:
        if "[test skipped]" in output:
            return SKIPPED
        # A filter that means no case is no pass.
        return None if not case or re.search(r"All tests passed|^OK", output, re.M) else f"no case '{case}'"
    return first_failure(output) or f"exit code {process.returncode}"


def main(words):
    names = [w for w in words if not w.startswith("-")]
    if "--check" in words:
        wrong = check(mutants(names))
        print("\n".join(wrong) or "every mutant can be put in")
        return 1 if wrong else 0
    if not names or any(w.startswith("-") for w in words):
        print(__doc__, file=sys.stderr)
        return 2
    folder, chosen = pathlib.Path(names[0]).resolve(), mutants(names[1:])
    wrong = check(chosen)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    copy_tree(folder)
    configure(folder)
    runs = {(test, *m.get("environment", {}).items()) for m in chosen for test in m["tests"]}
    tests = sorted({test for test, *_ in runs})
    if told := build(folder, targets_of(tests)):
        sys.exit(f"mutants.py: the tree itself cannot be built:\n{told[-3000:]}")
    commands = commands_of(folder)
    for test in tests:
        if test.split(": ")[0] not in commands:
            sys.exit(f"mutants.py: ctest knows no test '{test}'")
    skipped = set()
    for test, *more in sorted(runs):
        failure = run(test, commands, dict(more))
        if failure == SKIPPED:
            skipped.add(test)
        elif failure:
            sys.exit(f"mutants.py: without a fault {test} fails: {failure}")
    for m in [m for m in chosen if skipped.issuperset(m["tests"])]:
        print(f"| {m['name']} | {SKIPPED} | 0 |")
        chosen.remove(m)
    print(f"{len(tests) - len(skipped)} tests pass without a fault; {len(chosen)} mutants", flush=True)
    left = []
    for m in sorted(chosen, key=lambda m: m["file"]):  # mutants of one file compile it once each
        begin, file = time.monotonic(), folder / m["file"]
        whole = file.read_text(encoding="utf-8")
        try:
            file.write_text(whole.replace(m["from"], m["to"]), encoding="utf-8")
            told = build(folder, targets_of(m["tests"]))
            found = "does not compile" if told else ""
            for test in m["tests"] if not told else ():
                failure = run(test, commands, m.get("environment", {}))
                if failure not in (None, SKIPPED):
                    found = f"{test.split('.')[0]}: {failure}"
                    break
        finally:
            file.write_text(whole, encoding="utf-8")
        if told or not found:
            left.append(m["name"])
            if told:
                print(told[-1500:], file=sys.stderr)
        print(f"| {m['name']} | {found or 'SURVIVES'} | {time.monotonic() - begin:.0f} |", flush=True)
    print(f"{len(chosen) - len(left)} of {len(chosen)} found" + "".join(f"\n  not: {name}" for name in left))
    return 1 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
