"""Do the quick start and the examples run as they stand?"""
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


if __name__ == "__main__":
    unittest.main()
