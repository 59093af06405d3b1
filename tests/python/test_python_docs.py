"""Do the quick start and the examples run as they stand, and do the stubs say what the package has?"""
import doctest
import pathlib
import subprocess
import sys
import unittest

from support import f4

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Documents(unittest.TestCase):
    def test_the_quick_start(self):
        flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        page = doctest.testfile(str(ROOT / "tools/python/README.md"), module_relative=False, optionflags=flags)
        head = doctest.testmod(f4, optionflags=flags)
        self.assertEqual((page.failed, head.failed), (0, 0))
        self.assertGreater(page.attempted, 10)

    def test_the_examples(self):
        for name, says in (("researcher", "mxfp4@wgrad"), ("kernel_engineer", "explanation: scale_rule=rceil"),
                           ("architect", "12 bits")):
            done = subprocess.run([sys.executable, str(ROOT / f"tools/examples/{name}.py")], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(says, done.stdout)
            if name == "kernel_engineer":
                self.assertIn("the right kernel: equal", done.stdout)

    def test_the_stubs_are_those_of_the_package(self):
        sys.path.insert(0, str(ROOT / "tools/scripts"))
        import python_stubs

        text = python_stubs.stub()
        compile(text, "__init__.pyi", "exec")
        for name in f4.__all__:
            self.assertRegex(text, rf"(?m)^(class|def) {name}\b")
        self.assertIn("\nclass ScaleRule(Word):\n    floor = 'floor'\n", text)


if __name__ == "__main__":
    unittest.main()
