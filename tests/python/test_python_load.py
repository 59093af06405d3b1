"""Can what the program writes be read back by name: checkpoints of schemes, plain files, folders of quantize?"""
import json
import pathlib
import pickle
import struct
import tempfile
import unittest

from support import command, f4, np, numbers, same

WEIGHTS = {"a.weight": numbers(256, 64), "a.bias": numbers(256), "b.weight": numbers(64, 256, seed=1)}


def write_safetensors(path, arrays):
    """The format's eight bytes, header and data; indices as int64."""
    head, data = {}, b""
    for name, array in arrays.items():
        bytes_ = array.tobytes()
        kind = {"float32": "F32", "int64": "I64"}[array.dtype.name]
        head[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Load(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "model").mkdir()
        self.arrays = {**WEIGHTS, "places": np.arange(12).reshape(3, 4)}
        write_safetensors(self.folder / "model/model.safetensors", self.arrays)

    def test_a_plain_file_and_its_folder(self):
        for path in (self.folder / "model", str(self.folder / "model/model.safetensors")):
            got = f4.load(path)
            self.assertEqual(list(got), list(self.arrays))
            self.assertEqual(got.shapes, {name: array.shape for name, array in self.arrays.items()})
            for name, array in got.items():
                self.assertTrue(same(array, self.arrays[name]), name)
            self.assertEqual(list(pickle.loads(pickle.dumps(got))), list(got))

    def test_a_checkpoint_of_every_scheme_that_a_folder_takes(self):
        for scheme in ("modelopt_nvfp4", "compressed_tensors_nvfp4", "compressed_tensors_mxfp4"):
            out = self.folder / scheme
            f4.convert_model(self.folder / "model/model.safetensors", scheme, out, progress=False)
            f4.decode_model(out, self.folder / (scheme + "_f32"), progress=False)
            got, plain = f4.load(out), f4.load(self.folder / (scheme + "_f32"))
            for name in ("a.weight", "b.weight"):
                self.assertEqual(got[name].dtype, np.float32)
                self.assertTrue(same(got[name], plain[name]), (scheme, name))
                self.assertGreater(np.count_nonzero(got[name] != WEIGHTS[name]), 0)
                self.assertLess(np.square(got[name] - WEIGHTS[name]).sum(), 0.05 * np.square(WEIGHTS[name]).sum())

    def test_what_quantize_wrote(self):
        x = numbers(2, 6, 64)
        np.save(self.folder / "x.npy", x)
        out = self.folder / "out"
        command("quantize", self.folder / "x.npy", "--spec", "nvfp4", "--out", out)
        q = f4.load(out)
        self.assertEqual((q.shape, q.spec), (x.shape, f4.Spec("nvfp4")))
        for name in ("codes", "scales", "tensor_scale"):
            self.assertTrue(same(getattr(q, name), np.load(out / (name + ".npy"))))
        self.assertTrue(same(q, np.load(out / "dequantized.npy")))
        codes = np.load(out / "codes.npy")
        codes.reshape(-1)[0] ^= 1
        np.save(out / "codes.npy", codes)
        with self.assertRaisesRegex(f4.Error, "SHA-256"):
            f4.load(out)
        self.assertFalse(same(f4.load(out, changed=True), q))

    def test_what_is_not_there(self):
        got = f4.load(self.folder / "model")
        with self.assertRaisesRegex(f4.Error, "no tensor is called 'a.wieght'; did you mean 'a.weight'"):
            got["a.wieght"]
        self.assertIsNone(got.get("c"))
        self.assertNotIn("c", got)
        with self.assertRaisesRegex(f4.Error, "No such file"):
            f4.load(self.folder / "none")
        with self.assertRaisesRegex(f4.Error, r"takes arrays; load\('model'\) reads"):
            f4.dequantize("model")

    def test_shapes_look_like_shapes(self):
        rows = f4.inspect(self.folder / "model").table
        self.assertEqual(rows["shape"].tolist(), [array.shape for array in self.arrays.values()])
        self.assertIn("(256, 64)", str(rows))
        self.assertNotIn("256 .. 64", str(rows))
        alike = f4.Table.of([{"shape": [2, 3]}, {"shape": [4, 5]}])  # lists of one length in every row
        self.assertEqual(alike["shape"].tolist(), [(2, 3), (4, 5)])


if __name__ == "__main__":
    unittest.main()
