"""Are the types that ml_dtypes adds to numpy read, and do its own casts agree with ours?"""
import unittest

from support import f4, np, numbers, same

try:
    import ml_dtypes
except ImportError:
    print("[test skipped] no ml_dtypes")
    raise SystemExit(0)


class MlDtypes(unittest.TestCase):
    def test_inputs(self):
        x = np.clip(numbers(16, 32), -6, 6)
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4"):
            if hasattr(ml_dtypes, name):
                y = x.astype(getattr(ml_dtypes, name))
                for view in (y, y.T, y[:, ::2]):
                    want = f4.quantize(view.astype(np.float32), "mxfp4")
                    self.assertTrue(same(f4.quantize(view, "mxfp4").codes, want.codes), name)

    def test_casts_to_nearest(self):
        x = np.linspace(-400, 400, 4096, dtype=np.float32).reshape(32, 128)
        for element, name in (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"), ("bf16", "bfloat16")):
            codes = f4.quantize(x, f4.Spec(element=element, scale="none")).codes
            self.assertEqual(codes.tobytes(), x.astype(getattr(ml_dtypes, name)).tobytes(), name)


if __name__ == "__main__":
    unittest.main()
