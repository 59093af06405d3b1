"""Processes that are made after a call with several threads: forked, spawned, workers of a DataLoader. Same bits, no hang."""
import multiprocessing
import os
import signal
import subprocess
import sys
import unittest

from support import f4, np, numbers, same, torch

SPEC = "nvfp4,rounding=stochastic"
LIMIT = 120  # seconds; a hang


def codes_of(seed):
    """What a worker computes: asks for two threads, whether or not it has them."""
    x = numbers(256, 512, seed=seed)
    q = f4.quantize(x, SPEC, seed=seed, threads=2)
    c = f4.gemm(q, q, threads=2)
    return q.codes.tobytes(), q.dequantize(threads=2).tobytes(), c.tobytes()


class Examples:
    """A data set of torch whose items are quantised where they are made."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.from_numpy(f4.quantize(numbers(128, 256, seed=i), SPEC, seed=i, threads=2).codes.copy())


class Fork(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wanted = [codes_of(seed) for seed in range(4)]  # the threads of this process have run now

    def setUp(self):
        def late(number, frame):
            for child in multiprocessing.active_children():
                child.kill()
            raise AssertionError("a process hangs")

        signal.signal(signal.SIGALRM, late)
        signal.alarm(LIMIT)

    def tearDown(self):
        signal.alarm(0)

    def test_pools_of_every_kind_give_the_bits_of_one_process(self):
        for kind in ("fork", "spawn", "forkserver"):
            with self.subTest(kind), multiprocessing.get_context(kind).Pool(2) as pool:
                self.assertEqual(pool.map(codes_of, range(4)), self.wanted)

    def test_a_fork_of_a_fork_and_the_parent_go_on(self):
        inner = os.fork()
        if inner == 0:
            code = 3
            try:
                second = os.fork()
                if second == 0:
                    os._exit(0 if codes_of(0) == self.wanted[0] else 1)
                code = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) or int(codes_of(1) != self.wanted[1])
            finally:
                os._exit(code)
        self.assertEqual(codes_of(2), self.wanted[2])
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]), 0)

    def test_workers_of_a_data_loader(self):
        if torch is None:
            self.skipTest("no torch")
        one = [batch.numpy().copy() for batch in torch.utils.data.DataLoader(Examples(), batch_size=2)]
        for kind in ("fork", "spawn"):
            with self.subTest(kind):
                loader = torch.utils.data.DataLoader(Examples(), batch_size=2, num_workers=2, multiprocessing_context=kind)
                two = [batch.numpy() for batch in loader]
                self.assertEqual(len(two), len(one))
                self.assertTrue(all(same(a, b) for a, b in zip(one, two)))

    def test_a_forked_training(self):
        wanted = f4.train("regression", "mxfp4", steps=2, threads=2).digest
        with multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.apply(train_digest), wanted)


def train_digest():
    return f4.train("regression", "mxfp4", steps=2, threads=2).digest


if __name__ == "__main__":
    unittest.main()
