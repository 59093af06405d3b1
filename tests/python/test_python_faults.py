"""What a caller does to the package: input that changes after the call, threads that outlive the interpreter, objects
that were never made. Right numbers, or an exception; never a signal."""
import subprocess
import sys
import unittest

from support import f4, np, numbers, torch

LIMIT = 60  # seconds; a hang


def run(script):
    """(exit code, stderr) of a Python of its own."""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], capture_output=True, text=True,
                          timeout=LIMIT)
    return done.returncode, done.stderr


class Input(unittest.TestCase):
    def test_statistics_are_of_the_input_as_it_was(self):
        x = numbers(64, 256)
        wanted = f4.quantize(x.copy(), "nvfp4").statistics()
        changed = x.copy()
        q = f4.quantize(changed, "nvfp4")
        changed *= 0.5
        self.assertEqual(q.statistics(), wanted)
        self.assertEqual(q.nmse, wanted["nmse"])

    def test_memory_that_is_gone(self):
        code, told = run("import numpy as np, fp4sim as f4\n"
                         "x = np.ones((2048, 2048), np.float32)\n"
                         "q = f4.quantize(x, 'nvfp4')\n"
                         "x.resize((1, 1), refcheck=False)\n"
                         "assert q.nmse == 0, q.nmse\n")
        self.assertEqual((code, told), (0, ""))
        if torch is None:
            return
        code, told = run("import torch, fp4sim as f4\n"
                         "x = torch.ones(2048, 2048)\n"
                         "q = f4.quantize(x, 'nvfp4')\n"
                         "x.storage().resize_(0)\n"
                         "assert q.nmse == 0, q.nmse\n")
        self.assertEqual((code, told), (0, ""))


class Threads(unittest.TestCase):
    def test_daemon_threads_at_exit(self):
        for wait in (0.05, 0.1, 0.15, 0.2, 0.3):
            code, told = run("import threading, time, numpy as np, fp4sim as f4\n"
                             "x = np.ones((512, 512), np.float32)\n"
                             "def work():\n"
                             "    while True:\n"
                             "        f4.gemm(f4.quantize(x, 'nvfp4', threads=2), x, threads=2)\n"
                             "for _ in range(3):\n"
                             "    threading.Thread(target=work, daemon=True).start()\n"
                             f"time.sleep({wait})\n")
            self.assertEqual((code, told), (0, ""))


class Objects(unittest.TestCase):
    def test_what_was_never_made_raises(self):
        modules = "fp4sim" if torch is None else "fp4sim, fp4sim.torch"
        code, told = run(f"import sys, types, {modules}\n"
                         "seen = 0\n"
                         "for module in [m for n, m in sys.modules.items() if n.split('.')[0] == 'fp4sim']:\n"
                         "    for kind in [c for c in vars(module).values() if isinstance(c, type)]:\n"
                         "        if not kind.__module__.startswith('fp4sim') or kind.__module__ == 'fp4sim.torch':\n"
                         "            continue\n"
                         "        try:\n"
                         "            empty = kind.__new__(kind)\n"
                         "        except Exception:\n"
                         "            continue\n"
                         "        for name in dir(kind):\n"
                         "            if name.startswith('__') and name not in ('__reduce__', '__getstate__', '__repr__'):\n"
                         "                continue\n"
                         "            for arguments in ((), (1,), ([],), (0, 0, 0, 0, 0, 0, 0, 0)):\n"
                         "                seen += 1\n"
                         "                try:\n"
                         "                    value = getattr(empty, name)\n"
                         "                    callable(value) and value(*arguments)\n"
                         "                except Exception:\n"
                         "                    pass\n"
                         "assert seen > 20, seen\n")
        self.assertEqual(code, 0, told)


if __name__ == "__main__":
    unittest.main()
