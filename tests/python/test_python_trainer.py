"""Does a PyTorch MLP under a recipe end with the weights of `fp4sim train`, in every bit?

The task classifier on pictures that the test makes: 48-64-32-classes with ReLU and an fp32 head, 20 steps of SGD at a
power of two. The order of the examples is drawn anew here (Fisher-Yates, multiply-shift), the weights come from checkpoints.
"""
import json
import os
import struct
import tempfile
import unittest

from support import command, f4, np, same, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402

RECIPES = ("mxfp4", "nvfp4_te", "mxfp8", "mxfp4_sr", "quartet", "tetrajet", "ue5m3_hold50", "nvfp4_2509_final_bf16",
           "first.json")
STEPS, BATCH, SEED, COUNT, CLASSES = 20, 24, 9, 100, 7
TRAINED = COUNT - COUNT // 10  # the last tenth of the files validates
STREAM = 65 * 128 + 4  # data set `order`, purpose `data` (tasks/task_data.h, include/fp4/rng.h)


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def weights_of(path):
    """The weights of a checkpoint: a CBOR byte string of float32, each parameter padded to 16 numbers."""
    with open(path, "rb") as file:
        data = file.read()
    at = data.index(b"\x67weights") + 8
    head = {0x58: ">B", 0x59: ">H", 0x5A: ">I"}[data[at]]
    size = struct.unpack_from(head, data, at + 1)[0]
    return np.frombuffer(data, np.float32, size // 4, at + 1 + struct.calcsize(head))


def cut(flat, model):
    """The parameters of a model, in its order, from the trainer's one buffer."""
    out, at = [], 0
    for parameter in model.parameters():
        out.append(flat[at : at + parameter.numel()].reshape(tuple(parameter.shape)))
        at += -(-parameter.numel() // 16) * 16
    assert at == flat.size
    return out


def walk(epoch):
    """0 .. TRAINED-1 in the order of an epoch."""
    draws = f4.random(32, TRAINED, seed=SEED, stream=STREAM, step=epoch)
    order = list(range(TRAINED))
    for i in range(TRAINED - 1, 0, -1):
        j = int(draws[TRAINED - 1 - i]) * (i + 1) >> 32
        order[i], order[j] = order[j], order[i]
    return order


class Trainer(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        draw = np.random.default_rng(1)
        pixels = draw.integers(0, 256, (COUNT, 8, 6), np.uint8)
        self.labels = draw.integers(0, CLASSES, COUNT).astype(np.uint8)
        self.labels[0] = CLASSES - 1
        write_idx(f"{self.folder}/images", pixels)
        write_idx(f"{self.folder}/labels", self.labels)
        values = pixels.reshape(COUNT, -1).astype(np.float64)
        mean = values.sum() / values.size
        deviation = np.sqrt((values * values).sum() / values.size - mean * mean)
        self.images = ((values - mean) / deviation).astype(np.float32)
        with open(f"{self.folder}/first.json", "w") as file:
            json.dump({"name": "first", "base": "mxfp4", "layers": [{"first": 1, "recipe": "mxfp8"}]}, file)
        self.order = [i for epoch in range(STEPS * BATCH // TRAINED + 1) for i in walk(epoch)]

    def trainer(self, recipe, rate, stop):
        """The weights of fp4sim train after step `stop`."""
        path = f"{self.folder}/{os.path.basename(recipe)}.{stop}"
        sets = ("optimizer=sgd", f"lr={rate}", "schedule=constant", "warmup=0", f"batch={BATCH}", "outliers.channel=0",
                "width=32", "depth=2", "curve_points=1")
        told = command("train", "--task", "classifier", "--recipe", recipe, "--images", f"{self.folder}/images", "--labels",
                       f"{self.folder}/labels", "--steps", STEPS, "--seed", SEED, "--stop-at", stop, "--checkpoint", path,
                       "--quiet", "--no-sync", *(word for s in sets for word in ("--set", s)))
        self.assertTrue(os.path.exists(path), told)
        return weights_of(path)

    def test_the_same_weights_in_every_bit(self):
        for word in RECIPES:
            recipe = f"{self.folder}/{word}" if word.endswith(".json") else word
            model = torch.nn.Sequential(torch.nn.Linear(48, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
                                        torch.nn.Linear(32, CLASSES))
            first = cut(self.trainer(recipe, 0, 1), model)
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), first):
                    parameter.copy_(torch.from_numpy(value.copy()))
            ft.convert(model, recipe, seed=SEED, plain="4", steps=STEPS)
            optimizer = torch.optim.SGD(model.parameters(), 2.0**-3)
            for step in range(STEPS):
                index = self.order[step * BATCH : (step + 1) * BATCH]
                optimizer.zero_grad()
                ft.cross_entropy(model(torch.from_numpy(self.images[index])), torch.from_numpy(self.labels[index])).backward()
                optimizer.step()
            for name, mine, theirs, start in zip(("w0", "b0", "w1", "b1", "w2", "b2"), model.parameters(),
                                                 cut(self.trainer(recipe, "0.125", STEPS), model), first):
                self.assertTrue(same(mine.detach(), theirs), (recipe, name))
                self.assertFalse(same(theirs, start), (recipe, name))

    def test_cross_entropy_is_torch_s_within_ulps(self):
        logits = torch.from_numpy(np.random.default_rng(3).standard_normal((50, 9)).astype(np.float32) * 4).requires_grad_()
        labels = torch.arange(50) % 9
        mine, theirs = ft.cross_entropy(logits, labels), torch.nn.functional.cross_entropy(logits, labels)
        self.assertAlmostEqual(mine.item(), theirs.item(), delta=1e-5)
        got, wanted = (torch.autograd.grad(loss * 3, logits)[0].numpy() for loss in (mine, theirs))
        self.assertTrue(np.allclose(got, wanted, 1e-5, 1e-8))


if __name__ == "__main__":
    unittest.main()
