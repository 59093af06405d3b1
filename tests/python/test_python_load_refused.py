"""Does load refuse what the command line refuses, and give what it gives: parts, links, hashes, codes that nobody reads?"""
import json
import os
import pathlib
import resource
import struct
import subprocess
import tempfile
import unittest

from support import PROGRAM, command, f4, np, numbers, same

draw = np.random.default_rng(71)
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I8": "i1", "F8_E4M3": "u1", "F8_E8M0": "u1", "U32": "<u4", "I32": "<i4"}


def codes(kind, *shape, low=0, high=100):
    return kind, draw.integers(low, high, shape).astype(TYPES[kind])


def reals(kind, *shape):
    return kind, (draw.standard_normal(shape) + 2).astype("f4").astype(TYPES[kind])


def safetensors(path, tensors):
    head, data = {}, b""
    for name, (kind, array) in tensors.items():
        head[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def gguf(path, kind, shape, raw, entries=()):
    text = lambda t: struct.pack("<Q", len(t)) + t
    out = b"GGUF" + struct.pack("<IQQ", 3, 1, len(entries))
    for key, number, value in entries:
        out += text(key) + struct.pack("<I", number) + value
    out += text(b"blk.0.ffn_up.weight") + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, 0)
    path.write_bytes(out + bytes(-len(out) % 32) + raw + bytes(-len(raw) % 32))


FP4 = {"a.weight": codes("U8", 16, 32), "a.weight_scale": codes("F8_E4M3", 16, 4, low=1), "a.weight_scale_2": reals("F32")}
WORDS = "a.weight", codes("U32", 16, 8)
# What no scheme reads, and a word of the reason.
WEIGHTS = {
    "MLX affine": ({"a.weight": WORDS[1], "a.scales": reals("F16", 16, 1), "a.biases": reals("F16", 16, 1)}, "u32"),
    "MLX of eight bits": ({"a.weight": codes("U32", 16, 16), "a.scales": codes("U8", 16, 2)}, "a."),
    "bitsandbytes": ({"a.weight": codes("U8", 512, 1), "a.weight.absmax": reals("F32", 16), "a.weight.quant_map": reals("F32", 16)}, "absmax"),
    "int8": ({"a.weight": codes("I8", 16, 64), "a.weight_scale": reals("F32", 16, 1)}, "a.weight"),
    "AWQ": ({"a.qweight": codes("I32", 64, 2), "a.qzeros": codes("I32", 1, 2), "a.scales": reals("F16", 1, 16)}, "qweight"),
    "GPTQ": ({"a.qweight": codes("I32", 8, 16), "a.qzeros": codes("I32", 1, 2), "a.scales": reals("F16", 1, 16), "a.g_idx": codes("I32", 64)}, "qweight"),
    "no scales": ({"a.weight_packed": codes("U8", 16, 32)}, "a.weight_scale is missing"),
    "no codes": ({"a.weight_scale": codes("F8_E4M3", 16, 4)}, "f8_e4m3"),
    "no factor": ({k: v for k, v in FP4.items() if k != "a.weight_scale_2"}, "a.weight_scale_2 is missing"),
    "a factor of 0": ({**FP4, "a.weight_scale_2": ("F32", np.zeros((), "f4"))}, "its factor"),
    "scales of another shape": ({**FP4, "a.weight_scale": codes("F8_E4M3", 16, 5)}, "has shape"),
    "a scale with a sign": ({**FP4, "a.weight_scale": codes("F8_E4M3", 16, 4, low=130, high=140)}, "sign"),
    "FP8 alone": ({"a.weight": codes("F8_E4M3", 16, 64)}, "f8_e4m3"),
    "FP8 under a scale of NaN": ({"a.weight": codes("F8_E4M3", 16, 64), "a.weight_scale": ("F32", np.full((), np.nan, "f4"))}, "its scale"),
}


class Refused(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "m").mkdir()

    def both(self, path, reason, keeps=()):
        """The exit code and a word of `dequantize` and of the tensors of load."""
        done = subprocess.run([PROGRAM, "dequantize", str(path), "--out", str(self.folder / "no")], capture_output=True, text=True)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        self.assertIn(reason, done.stderr)
        refused = []
        try:
            for name, shape in (held := f4.load(path)).shapes.items():
                try:
                    self.assertEqual(held[name].shape, shape, name)
                except f4.Error as problem:
                    refused.append(problem)
        except f4.Error as problem:
            refused.append(problem)
        self.assertTrue(refused, f"load reads {path}, dequantize says: {done.stderr}")
        self.assertTrue([p for p in refused if reason in str(p) and p.exit_code == done.returncode], (refused, done.stderr))

    def test_weights_that_nobody_reads(self):
        for name, (tensors, reason) in WEIGHTS.items():
            with self.subTest(name):
                safetensors(self.folder / "m/model.safetensors", {**tensors, "b.weight": reals("F32", 16, 64)})
                self.both(self.folder / "m", reason)
                self.assertEqual(f4.load(self.folder / "m")["b.weight"].shape, (16, 64))
        twice = {k.replace("weight_scale_2", "weight_global_scale").replace("weight", "weight_packed", k == "a.weight"): v for k, v in FP4.items()}
        safetensors(self.folder / "m/model.safetensors", {**twice, "a.weight": reals("F32", 16, 64)})
        with self.assertRaisesRegex(f4.Error, "another tensor is a.weight"):
            f4.load(self.folder / "m")

    def test_files_that_are_no_whole_model(self):
        model = self.folder / "m"
        one, two = model / "model-00001-of-00002.safetensors", model / "model-00002-of-00002.safetensors"
        safetensors(one, FP4)
        self.both(one, "is part 1 of 2")
        self.both(model, "part 2 of 2 of the model is missing")
        safetensors(two, {"a.weight": reals("F32", 4)})
        self.both(model, "a tensor a.weight is in")
        safetensors(two, {"b.weight": reals("F32", 4)})
        index = model / "model.safetensors.index.json"
        for named, reason in (({"c": two.name}, "no such tensor"), ({"c": "x.safetensors"}, "no such file"), ({"c": "../c"}, "lie in the folder"), ({}, "names no tensor")):
            index.write_text(json.dumps({"weight_map": named}))
            self.both(model, reason)
        index.unlink()
        os.symlink(two, self.folder / "b.safetensors")
        os.symlink("../b.safetensors", model / "b.safetensors")
        (self.folder / "b.safetensors").unlink()
        safetensors(self.folder / "b.safetensors", {"c.weight": reals("F32", 4)})
        self.both(model, "--follow-links")
        self.assertIn("c.weight", f4.load(model, follow_links=True))
        (model / "b.safetensors").unlink()
        two.write_bytes(two.read_bytes()[:-1])
        self.both(model, "truncated")

    def test_gguf(self):
        path, x = self.folder / "m.gguf", numbers(4, 64)
        part = [(b"split.no", 2, b"\1\0"), (b"split.count", 2, b"\3\0")]
        rows = [(0, x.tobytes(), [(b"general.alignment", 5, struct.pack("<i", 64))], "general.alignment"), (0, x.tobytes(), part, "is part 2 of 3"),
                (0, x.tobytes(), [(b"k", 4, bytes(4))] * 2, "appears twice"), (0, x.tobytes()[:-64], [], "truncated"), (2, bytes(8 * 18), [], "not known")]
        for kind, raw, entries, reason in rows:
            with self.subTest(reason):
                gguf(path, kind, (4, 64), raw, entries)
                self.both(path, reason)
        gguf(path, 26, (4, 64), np.arange(256, dtype="<i4").tobytes())  # integers keep their type
        self.assertTrue(same(f4.load(path)["blk.0.ffn_up.weight"], np.arange(256, dtype=np.int32).reshape(4, 64)))

    def test_one_flipped_bit(self):
        safetensors(self.folder / "m/model.safetensors", {"a.weight": reals("F32", 32, 64), "b.bias": reals("F32", 64)})
        for scheme, name in (("modelopt_nvfp4", "model.safetensors"), ("compressed_tensors_mxfp4", "model.safetensors")):
            out = self.folder / scheme
            f4.convert_model(self.folder / "m/model.safetensors", scheme, out, progress=False)
            raw = (out / name).read_bytes()
            for at in draw.integers(0, len(raw), 30):
                (out / name).write_bytes(raw[:at] + bytes([raw[at] ^ 1 << int(draw.integers(8))]) + raw[at + 1:])
                with self.assertRaises(f4.Error):
                    held = f4.load(out)
                    for tensor in held:
                        held[tensor]
            (out / name).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
            with self.assertRaisesRegex(f4.Error, "SHA-256") as caught:
                dict(f4.load(out))
            self.assertEqual(caught.exception.exit_code, 1)
            self.assertEqual(len(dict(f4.load(out, changed=True))), 2)
            (out / name).write_bytes(raw)
            self.assertEqual(len(dict(f4.load(out))), 2)

    def test_stacks_of_gpt_oss_are_turned_as_dequantize_turns_them(self):
        blocks, scales = codes("U8", 2, 64, 2, 16, high=256), codes("U8", 2, 64, 2, low=120, high=130)
        name = "model.layers.0.mlp.experts.down_proj"
        safetensors(self.folder / "m/model.safetensors", {name + "_blocks": blocks, name + "_scales": scales})
        e2m1 = np.float32([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
        both = np.stack([blocks[1] & 15, blocks[1] >> 4], -1).reshape(2, 64, 2, 32)
        whole = (e2m1[both] * np.exp2(scales[1].astype("f4") - 127)[..., None]).reshape(2, 64, 64)  # in equals out
        self.assertTrue(same(f4.load(self.folder / "m")[name], whole.transpose(0, 2, 1)))
        f4.decode_model(self.folder / "m", self.folder / "d", progress=False)
        self.assertTrue(same(f4.load(self.folder / "d")[name], whole.transpose(0, 2, 1)))

    def test_time_grows_with_the_number_of_tensors(self):
        x, took = draw.standard_normal((2, 32)).astype("f4"), {}
        for count in (2500, 20000):
            path = self.folder / f"{count}.safetensors"
            head = {f"layers.{i}.weight": {"dtype": "F32", "shape": [2, 32], "data_offsets": [256 * i, 256 * i + 256]} for i in range(count)}
            text = json.dumps(head).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + x.tobytes() * count)
            before = resource.getrusage(resource.RUSAGE_SELF)
            for array in f4.load(path).values():
                self.assertEqual(array.shape, (2, 32))
            after = resource.getrusage(resource.RUSAGE_SELF)
            took[count] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(took[20000], 16 * took[2500] + .5, took)


if __name__ == "__main__":
    unittest.main()
