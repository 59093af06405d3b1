"""What a dot unit gives in a simulation, counted, and in the end what it does instead. A cocotb test calls it."""
import os

from ._experiments import verify


class Scoreboard:
    """Of one case of a bundle of products, under one adder: check() each word, then report()."""

    def __init__(self, golden, case, accumulator="fp32_block"):
        import numpy as np

        self.golden, self.case, self.accumulator = os.fspath(golden), case, accumulator
        right = np.load(os.path.join(self.golden, case, f"output_{accumulator}.npy"))
        self.right, self.got = right.view(np.uint32), np.full(right.shape, 0x7FFFFFFF, np.uint32)
        self.seen = np.zeros(right.shape, bool)

    def check(self, row, column, word) -> bool:
        """Whether the word (bits of a float32) is the right one; any NaN equals any other."""
        self.got[row, column], self.seen[row, column] = word, True
        right, nan = int(self.right[row, column]), lambda w: w & 0x7FFFFFFF > 0x7F800000
        return word == right or (nan(word) and nan(right))

    def report(self) -> str:
        """"equal, N of M sums", or the sentence of `verify`; sums that were not checked are taken as right."""
        got = self.right.copy()
        got[self.seen] = self.got[self.seen]
        got = got.view("float32")
        verdict = verify(self.golden, {"output": got}, case=self.case, accumulator=self.accumulator)
        if verdict["equal"]:
            return f"equal, {int(self.seen.sum())} of {self.seen.size} sums"
        return "; ".join(case["summary"] for case in verdict["cases"] if case["summary"]) or str(verdict)
