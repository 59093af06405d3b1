"""Does the notebook run, and does each cell show what stands in it?"""
import copy
import json
import pathlib
import re
import sys
import unittest

from support import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
import notebook


def texts(cells):
    """What each cell shows as text; torch's own sums may differ between its versions, so cells with floats of it are few."""
    return [["".join(out.get("text", out.get("data", {}).get("text/plain", ""))) for out in cell["outputs"]] for cell in cells]


@unittest.skipIf(torch is None, "torch is not installed")
class Notebook(unittest.TestCase):
    def test_every_cell_shows_what_stands_in_it(self):
        kept = json.loads((ROOT / "tools/python/tour.ipynb").read_text(encoding="utf-8"))
        made = notebook.executed(copy.deepcopy(kept))
        code = [[cell for cell in book["cells"] if cell["cell_type"] == "code"] for book in (made, kept)]
        self.assertGreater(len(code[0]), 10)
        self.assertEqual(*map(texts, code))
        html = [["".join(out["data"]["text/html"]) for cell in cells for out in cell["outputs"] if "text/html" in out.get("data", {})]
                for cells in code]
        self.assertGreater(len(html[0]), 4)
        self.assertEqual(*html)
        pictures = [out for cell in code[1] for out in cell["outputs"] if "image/svg+xml" in out.get("data", {})]
        self.assertGreater(len(pictures), 0)
        for cell in code[0]:
            self.assertIsNone(re.search(r"0x[0-9a-f]{6}", str(texts([cell]))), "an address changes from run to run")


if __name__ == "__main__":
    unittest.main()
