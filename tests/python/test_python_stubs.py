"""Do the stubs beside the package, its enums and its specs say what the core's tables say, without an edit for a new row?"""
import ast
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from support import command, f4

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))
import python_stubs  # noqa: E402
from fp4sim import _words  # noqa: E402


def classes_of(text):
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


def members_of(node):
    return {line.targets[0].id: ast.literal_eval(line.value) for line in node.body if isinstance(line, ast.Assign)}


class Stubs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (pathlib.Path(f4.__file__).parent / "__init__.pyi").read_text()
        cls.rows = json.loads(command("list", "--json"))["rows"]

    def test_the_file_is_made_of_this_package(self):
        self.assertEqual(self.text, python_stubs.stub(f4))
        body = ast.parse(self.text).body
        named = {node.name for node in body if hasattr(node, "name")} | {
            node.target.id for node in body if isinstance(node, ast.AnnAssign)}
        self.assertEqual(named, {*f4.__all__, "__version__"})

    def test_every_row_that_the_command_line_lists_is_a_member(self):
        groups = {}
        for row in self.rows:
            topic, _, name = row["name"].rpartition("=") if "=" in row["name"] else (row["topic"], "", row["name"])
            if name.isidentifier():
                groups.setdefault(topic, {})[name] = row["doc"]
        self.assertGreater(len(groups), 15)
        stubs = [members_of(node) for node in classes_of(self.text).values()]
        enums = [{word.value: word.__doc__ for word in getattr(f4, name)} for name in f4.__all__
                 if isinstance(getattr(f4, name), type) and issubclass(getattr(f4, name), f4.Word)]
        for topic, docs in groups.items():
            self.assertTrue({name: name for name in docs} in stubs, topic)
            self.assertTrue(docs in enums, topic)

    def test_every_field_of_a_preset_is_one_of_spec(self):
        shown = json.loads(command("show", "mxfp4", "--kind", "preset"))
        spec = classes_of(self.text)["Spec"]
        functions = {node.name: node for node in spec.body if isinstance(node, ast.FunctionDef)}
        self.assertEqual({a.arg for a in functions["__init__"].args.kwonlyargs}, set(shown))
        for field in shown:
            self.assertIn("property", [d.id for d in functions[field].decorator_list], field)
        self.assertIn("'four_over_six'", self.text)

    def test_a_new_row_and_a_new_field_appear_without_an_edit(self):
        rows = [*f4._core.call("catalogue"), ("scale-rules", "brand_new", "a rule of the test", "nobody, 2031")]
        fields = [*f4._core.call("spec_fields"), ("colour", "of the test", "red", ["red", "green"])]
        tables = {"catalogue": rows, "spec_fields": fields}
        with mock.patch.object(f4._core, "call", tables.get):
            enums = _words.make_enums()
        self.assertEqual(enums["ScaleRule"].brand_new, "brand_new")
        self.assertEqual(enums["ScaleRule"].brand_new.__doc__, "a rule of the test")
        self.assertEqual(enums["ScaleRule"].brand_new.source, "nobody, 2031")
        with mock.patch.object(f4, "ScaleRule", enums["ScaleRule"]), mock.patch.object(
                f4._core, "call", tables.get), mock.patch.object(f4.Spec, "colour", None, create=True):
            _words._add_fields()
            text = python_stubs.stub(f4)
        self.assertEqual(members_of(classes_of(text)["ScaleRule"])["brand_new"], "brand_new")
        self.assertIn("colour: \"Literal['red', 'green'] | Word\" = ...", text)
        self.assertIn('def colour(self) -> "str":\n        """of the test: red, green"""', text)

    def test_mypy_takes_the_examples(self):
        if shutil.which("mypy") is None:
            self.skipTest("no mypy")
        examples = sorted(str(p) for p in (ROOT / "tools/examples").glob("*.py") if "import fp4sim" in p.read_text())
        self.assertGreaterEqual(len(examples), 3)
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(["mypy", "--strict", "--cache-dir", cache, "--python-executable", sys.executable, *examples],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
