"""What the numeric studies share: the package fp4sim of build/python, and tables."""
import pathlib, sys

import study_tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))
import fp4sim  # noqa: E402: from the build


def write_rows(path, rows):
    """rows: dictionaries with the same keys, as CSV; floats with 6 digits."""
    study_tables.write_dicts(path, [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])
    print(f"{path}: {len(rows)} rows, signature {fp4sim.signature()}")
