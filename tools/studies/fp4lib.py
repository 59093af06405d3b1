"""What the numeric studies share: the package fp4sim of build/python, and tables."""
import csv, pathlib, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))
import fp4sim  # noqa: E402: from the build


def gemm(a, b, spec, accumulator="fp32_block", seed=0):
    """Q(a) Q(b)^T, a [m, k], b [n, k] -> [m, n]."""
    return fp4sim.gemm(a, b, spec, accumulator=accumulator, seed=seed)


def rotated(x, size, signs, seed=0):
    """Hadamard tiles of `size` along the rows of x, normalised by 1/sqrt(size)."""
    return fp4sim.hadamard(x, size, signs=signs, seed=seed)


def write_rows(path, rows):
    """rows: dictionaries with the same keys, as CSV; floats with 6 digits."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    print(f"{path}: {len(rows)} rows, signature {fp4sim.signature()}")
