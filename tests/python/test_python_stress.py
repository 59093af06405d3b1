"""Do threads of Python that share arrays, tensors and layers get the same bits, and give back every reference and byte?

    python3 tests/python/test_python_stress.py 600      for 600 seconds; 3 by itself
"""
import copy
import gc
import pickle
import random
import sys
import threading
import time
import unittest

from support import f4, np, numbers, same, torch

SECONDS = float(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1][0].isdigit() else 3.0
THREADS = 4
SPEC = "nvfp4,rounding=stochastic"


def megabytes():
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


class Work:
    """Operands that all threads share, and pieces of work with the one result each has."""

    def __init__(self):
        self.x, self.w = numbers(96, 128), numbers(48, 128, seed=1)
        self.q = f4.quantize(self.x, SPEC, seed=1)
        self.shared = [self.x, self.w, self.q]
        self.pieces = [
            lambda threads: f4.quantize(self.x, SPEC, seed=1, threads=threads).codes,
            lambda threads: f4.quantize(self.x[::-1, ::2], "mxfp4", threads=threads).dequantize(threads=threads),
            lambda threads: f4.gemm(self.q, self.w, threads=threads, accumulator="k64_rz"),
            lambda threads: f4.hadamard(self.x.T, 32, signs="per_step", step=2, threads=threads),
            lambda threads: pickle.loads(pickle.dumps(self.q)).dequantize(threads=threads),
            lambda threads: f4.from_arrays(self.q.codes, self.q.scales, self.q.tensor_scale, spec=self.q.spec,
                                           shape=self.q.shape).to_layout()["scales"],
            lambda threads: f4.random(8, 1000, seed=5),
            lambda threads: np.float64(f4.quantize(self.x, "mxfp4").statistics(threads=threads)["nmse"]),
            self.refused,
            lambda threads: np.frombuffer(f4.train("regression", "mxfp4", steps=2).digest.encode(), np.uint8),
        ]
        if torch is not None:
            self.add_torch()
        self.wanted = [piece(1) for piece in self.pieces]

    def refused(self, threads):
        try:
            f4.quantize(self.x, "mxpf4", threads=threads)
        except f4.Error as problem:
            return np.frombuffer(str(problem).encode(), np.uint8)

    def add_torch(self):
        import fp4sim.torch as ft

        model = ft.convert(torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)), "nvfp4_te",
                           seed=3)
        ft.set_step(model, 7)
        given = torch.from_numpy(self.x)
        self.shared += [model, given]

        def shared_model(threads):
            out = model(given)
            return torch.autograd.grad((out * out).sum(), model[0].weight)[0].numpy()

        self.pieces += [
            shared_model,
            lambda threads: copy.deepcopy(model)(given).detach().numpy(),
            lambda threads: torch.from_dlpack(self.q.to_dlpack("scales")).numpy(),
            lambda threads: f4.quantize(given.t()[::2], "nvfp4", threads=threads).codes,
            lambda threads: ft.fake_quantize(given, SPEC, seed=1).numpy(),
        ]

    def counts(self):
        gc.collect()
        return [sys.getrefcount(thing) for thing in self.shared]


class Stress(unittest.TestCase):
    def test_threads_references_and_memory(self):
        work = Work()
        problems, done = [], [0] * THREADS

        def run(number, end):
            draw = random.Random(number)
            while time.monotonic() < end and not problems:
                at = draw.randrange(len(work.pieces))
                try:
                    if not same(work.pieces[at](draw.randint(1, 3)), work.wanted[at]):
                        problems.append(f"piece {at}: other bits")
                except Exception as problem:  # a thread's own traceback would be lost
                    problems.append(f"piece {at}: {problem!r}")
                done[number] += 1

        def crew(seconds):
            threads = [threading.Thread(target=run, args=(n, time.monotonic() + seconds)) for n in range(THREADS)]
            [t.start() for t in threads]
            [t.join() for t in threads]

        crew(SECONDS / 3)  # allocators and pools reach their size
        before, memory = work.counts(), megabytes()
        crew(SECONDS * 2 / 3)
        after, grown = work.counts(), megabytes() - memory
        self.assertEqual(problems, [])
        self.assertEqual(after, before)
        self.assertGreater(min(done), len(work.pieces) / 2)
        self.assertLess(grown, 32, "MB")
        print(f"{sum(done)} pieces of work by {THREADS} threads, {grown:+.1f} MB of {memory:.0f}", file=sys.stderr)

    def test_the_lock_is_free_while_the_core_computes(self):
        counted, ended = [0], threading.Event()

        def count():
            while not ended.is_set():
                counted[0] += 1
                time.sleep(0.001)

        other = threading.Thread(target=count)
        x = numbers(2048, 2048)
        other.start()
        try:
            before = counted[0]
            f4.gemm(x[:96], x, "mxfp4", accumulator="fp32_sequential", threads=1, backend="reference")
            seen = counted[0] - before
        finally:
            ended.set()
            other.join()
        self.assertGreater(seen, 5)


if __name__ == "__main__":
    unittest.main()
