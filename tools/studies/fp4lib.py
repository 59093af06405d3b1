"""libfp4sim for the numeric studies: the C interface of fp4sim.h behind numpy arrays."""
import ctypes, csv, pathlib
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOATS = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")


class Place(ctypes.Structure):
    """Where random bits lie: seed, stream, step."""
    _fields_ = [("seed", ctypes.c_uint64), ("stream", ctypes.c_uint32), ("step", ctypes.c_uint32)]


class Shape(ctypes.Structure):
    """Sizes of the arrays of a quantised operand."""
    _fields_ = [("code_row_bytes", ctypes.c_int64), ("scale_rows", ctypes.c_int64), ("scale_cols", ctypes.c_int64),
                ("tensor_scales", ctypes.c_int64), ("scale_bytes", ctypes.c_int)]


library = ctypes.CDLL(str(ROOT / "build" / "src" / "libfp4sim.so"))
library.fp4sim_last_error.restype = ctypes.c_char_p
library.fp4sim_signature.restype = ctypes.c_char_p
i64, word = ctypes.c_int64, ctypes.c_char_p
library.fp4sim_shape.argtypes = [word, i64, i64, ctypes.POINTER(Shape)]
library.fp4sim_quantize.argtypes = [word, FLOATS, i64, i64, Place, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
library.fp4sim_dequantize.argtypes = [word, i64, i64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, FLOATS]
library.fp4sim_gemm.argtypes = [word, word, word, FLOATS, FLOATS, i64, i64, i64, Place, FLOATS]
library.fp4sim_hadamard.argtypes = [FLOATS, i64, i64, ctypes.c_int, word, word, Place, FLOATS]


def checked(status):
    if status:
        raise SystemExit(library.fp4sim_last_error().decode())


def gemm(a, b, spec_a, spec_b, accumulator="fp32_block", seed=0):
    """Q(a) Q(b)^T, a [m, k], b [n, k] -> [m, n]."""
    c = np.empty((a.shape[0], b.shape[0]), np.float32)
    checked(library.fp4sim_gemm(spec_a.encode(), spec_b.encode(), accumulator.encode(), a, b, a.shape[0], b.shape[0],
                                a.shape[1], Place(seed, 0, 0), c))
    return c


def decoded(x, spec, seed=0):
    """The decoded values of Q(x), x [rows, cols]."""
    shape = Shape()
    checked(library.fp4sim_shape(spec.encode(), *x.shape, ctypes.byref(shape)))
    codes = np.empty(x.shape[0] * shape.code_row_bytes, np.uint8)
    scales = np.empty(max(1, shape.scale_rows * shape.scale_cols * shape.scale_bytes), np.uint8)
    tensor = np.empty(shape.tensor_scales, np.float32)
    arrays = [array.ctypes.data for array in (codes, scales, tensor)]
    checked(library.fp4sim_quantize(spec.encode(), x, *x.shape, Place(seed, 0, 0), *arrays))
    out = np.empty_like(x)
    checked(library.fp4sim_dequantize(spec.encode(), *x.shape, *arrays, out))
    return out


def rotated(x, size, signs, seed=0):
    """Hadamard tiles of `size` along the rows of x, normalised by 1/sqrt(size)."""
    y = np.empty((x.shape[0], -(-x.shape[1] // size) * size), np.float32)
    checked(library.fp4sim_hadamard(x, *x.shape, size, signs.encode(), b"sqrt", Place(seed, 0, 0), y))
    return y


def write_rows(path, rows):
    """rows: dictionaries with the same keys, as CSV; floats with 6 digits."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    print(f"{path}: {len(rows)} rows, signature {library.fp4sim_signature().decode()}")
