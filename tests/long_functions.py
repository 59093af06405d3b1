#!/usr/bin/env python3
"""Does check_includes.py find functions above its limit, and nothing else? Each case is a text of C++ as clang-format
leaves it, and the lines at which functions are too long."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = "  step();\n" * 59  # with its first and last line 61
FITS = "  step();\n" * 58
INNER = LONG.replace("  step", "    step")
CASES = [
    ("a function", f"void f() {{\n{LONG}}}\n", [1]),
    ("one of just 60 lines", f"void f() {{\n{FITS}}}\n", []),
    ("a signature of two lines", f"int f(int a,\n      int b) {{\n{FITS}}}\n", [1]),
    ("a reason", f"// What it does.\n// long: one table\nvoid f() {{\n{LONG}}}\n", []),
    ("a reason above a template", f"// long: one loop\ntemplate <class T>\nvoid f() {{\n{LONG}}}\n", []),
    ("a reason without words", f"// long: \nvoid f() {{\n{LONG}}}\n", [2]),
    ("a reason of the function before", f"// long: one table\nvoid g();\n\nvoid f() {{\n{LONG}}}\n", [4]),
    ("a table", f"const Row rows[] = {{\n{LONG}}};\n", []),
    ("a table of lambdas", "const Row rows[] = {\n" + "  [](int x) { return f(x); },\n" * 70 + "};\n", []),
    ("a lambda in a function", f"void f() {{\n  const auto g = [&] {{\n{INNER}  }};\n}}\n", [1]),
    ("a table in a function", f"const Rows& rows() {{\n  static const Rows all = {{\n{INNER}  }};\n  return all;\n}}\n", [1]),
    ("a type", f"struct S {{\n{LONG.replace('step()', 'int a')}}};\n", []),
    ("a member", f"class C {{\n public:\n  int f() const {{\n{INNER}  }}\n}};\n", [3]),
    ("a member's reason", f"class C {{\n  // long: one loop\n  int f() const {{\n{INNER}  }}\n}};\n", []),
    ("an operator", f"bool operator==(A a, A b) {{\n{LONG}}}\n", [1]),
    ("a preprocessor line inside", f"void f() {{\n#if A\n{FITS}#endif\n}}\n", [1]),
    ("a namespace", f"namespace n {{\n\nvoid f();\n{chr(10) * 70}}}  // namespace n\n", []),
    ("JavaScript", f"function f({{a, b}}) {{\n{LONG}}}\n", [1], ".js"),
    ("an arrow in it", f"function f() {{\n  const g = (a) => {{\n{INNER}  }};\n}}\n", [1, 2], ".mjs"),
    ("its reason", f"// long: one drawing\nexport function f() {{\n{LONG}}}\n", [], ".js"),
    ("its table", f"const rows = [\n{LONG}];\n", [], ".js"),
    ("Python", f"def f():\n{INNER.replace(';', '')}    return 1\n", [1], ".py"),
    ("its reason", f"# long: one table\ndef f():\n{INNER.replace(';', '')}    return 1\n", [], ".py"),
]

failed = 0
for name, text, wanted, *suffix in CASES:
    with tempfile.TemporaryDirectory() as folder:
        for part in ("include", "src", "sim", "tasks", "sweeps", "tools", "tests"):
            (pathlib.Path(folder) / part).mkdir()
        (pathlib.Path(folder) / ("src/long" + "".join(suffix or [".cpp"]))).write_text(text)
        told = subprocess.run([sys.executable, ROOT / "tools/scripts/check_includes.py", folder], capture_output=True, text=True)
        found = [int(line.split(":")[1]) for line in told.stdout.splitlines() if "// long: REASON" in line]
        if found != wanted or told.returncode != bool(wanted):
            failed += 1
            print(f"{name}: lines {found}, expected {wanted}\n{told.stdout}{told.stderr}")
print(f"{len(CASES)} texts, {failed} wrong")
sys.exit(failed > 0)
