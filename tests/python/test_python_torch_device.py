"""Do products in a lent device's memory have the CPU's bits, recipe by recipe, and how many launches and copies do they take?

Host loops stand in for the device (tests/support/lent_host_loops.cpp), as an H200 would choose its kernels. What each recipe
takes stands in results/torch_cuda/launches.csv; FP4SIM_WRITE=1 writes it anew.
"""
import csv
import ctypes
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

BUILD, FILE = pathlib.Path(os.environ.get("FP4SIM_BUILD", ".")), pathlib.Path(__file__).resolve()
TABLE = FILE.parent.parent.parent / "results/torch_cuda/launches.csv"
LIBRARY = BUILD / "tests/host_loops/_fp4sim.so"
DEVICE = "cuda" if sys.argv[1:2] == ["cuda"] else "cpu"  # the argument of tools/gpu_check.sh: a device itself
FOLDER = tempfile.TemporaryDirectory()
if DEVICE == "cuda":
    sys.argv.pop(1)
elif not LIBRARY.exists():
    print("[test skipped] no library on host loops in this build")
    raise SystemExit(0)
else:  # the package with that library in place of its own: before support imports it
    shutil.copytree(BUILD / "python/fp4sim", FOLDER.name + "/fp4sim", ignore=shutil.ignore_patterns("_fp4sim.so", "__pycache__"))
    shutil.copy(LIBRARY, FOLDER.name + "/fp4sim/_fp4sim.so")
    sys.path.insert(0, FOLDER.name)

from support import f4, np, same, torch  # noqa: E402

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
if DEVICE == "cuda" and not torch.cuda.is_available():
    print("[test skipped] torch sees no CUDA device")
    raise SystemExit(0)
import warnings  # noqa: E402
from unittest import mock  # noqa: E402

import fp4sim.torch as ft  # noqa: E402
from fp4sim import _core, _torch_group, _torch_ops  # noqa: E402
from torch import nn  # noqa: E402

if DEVICE == "cpu":
    assert f4.__file__.startswith(FOLDER.name), f4.__file__
    _torch_ops.LENT.add("cpu")
COUNTS = (ctypes.c_int64 * 3)()


def counted():
    """(launches, copies between host and device, allocations) since the last call."""
    if DEVICE == "cpu":
        _core._library.fp4d_counts(COUNTS)
    return tuple(COUNTS)


def mlp(recipe, device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.Linear(48, 96, bias=False), nn.Linear(96, 32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ft.convert(model if device == "host" else model.to(DEVICE), recipe, seed=3, steps=40, device=device)


def passes(model, steps=2, kind=torch.float32):
    """Everything that some steps make of inputs of a type: outputs and all gradients."""
    draw, made = torch.Generator().manual_seed(1), []
    home = next(model.parameters()).device
    for step in range(1, steps + 1):
        ft.set_step(model, step)
        model.zero_grad()
        x = torch.randn(5, 8, 64, generator=draw).to(home, kind).requires_grad_()
        y = model(x)
        y.backward(torch.randn(y.shape, generator=draw).to(y))
        made += [y.detach(), x.grad, *(p.grad.clone() for p in model.parameters())]
    with torch.no_grad():
        made.append(model.eval()(x))
    model.train()
    return [t.cpu() for t in made]


def widened(model):
    """The model, for whose kernels torch converts bf16 to fp32 and back."""
    model[0]._group.narrow = [False] * 3
    return model


def in_bf16(layer):
    """Of both passes of a layer in bf16: (launches, tensors that torch copies around them)."""
    x = torch.randn(40, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    counted()
    with torch.autograd.profiler.profile() as seen:
        y = layer(x)
        torch.autograd.grad(y, (x, *layer.parameters()), torch.ones_like(y))
    return counted()[0], sum(event.count for event in seen.key_averages() if event.key == "aten::copy_")


def row_of(name):
    """A recipe's row of the table, after its bits were compared."""
    model = mlp(name, "auto")
    why = {row["where"] for row in ft.report(model).rows()}
    if why != {str(next(model.parameters()).device)}:
        (reason,) = why
        return dict(recipe=name, runs="host", forward="", backward="", copies="", bf16="", conversions="", why=reason.removeprefix("host: "))
    counted()
    mine, theirs = passes(model), passes(mlp(name, "host"))
    assert DEVICE == "cuda" or counted()[0] > 0, name
    for a, b in zip(mine, theirs):
        if not same(a, b):
            raise AssertionError(f"{name}: {int((a.view(torch.int32) != b.view(torch.int32)).sum())} of {a.numel()} differ")
    layer, x = model[0], torch.randn(40, 64, device=DEVICE, requires_grad=True)
    ft.set_step(model, 2)
    y = layer(x)
    forward = counted()
    y.backward(torch.ones_like(y))
    backward = counted()
    narrow = in_bf16(layer.bfloat16())
    return dict(recipe=name, runs="device", forward=forward[0], backward=backward[0], copies=forward[1] + backward[1],
                bf16=narrow[0], conversions=narrow[1], why="")


class Device(unittest.TestCase):
    def test_every_recipe_has_the_bits_of_the_cpu_or_says_why_it_runs_on_the_host(self):
        made = [{k: str(v) for k, v in row_of(word.value).items()} for word in f4.Recipe]
        if os.environ.get("FP4SIM_WRITE"):
            TABLE.parent.mkdir(exist_ok=True)
            with open(TABLE, "w", newline="") as file:
                table = csv.DictWriter(file, made[0], lineterminator="\n")
                table.writeheader()
                table.writerows(made)
        if DEVICE == "cpu":
            with open(TABLE, newline="") as file:
                self.assertEqual(list(csv.DictReader(file)), made)
        self.assertGreater(sum(row["runs"] == "device" for row in made), 30)

    def test_bf16_has_the_bits_of_fp32_that_torch_converts(self):
        for name in [word.value for word in f4.Recipe]:
            if not ft.report(mlp(name, "auto")).rows()[0]["where"].startswith(DEVICE):
                continue
            for how in ("all", "bias in fp32", "autocast"):
                made = []
                for model in (mlp(name, "auto"), widened(mlp(name, "auto"))):
                    for layer in model if how != "autocast" else ():
                        layer.bfloat16()
                        if how != "all" and layer.bias is not None:
                            layer.bias.data = layer.bias.data.float()
                    with torch.autocast(DEVICE, torch.bfloat16, enabled=how == "autocast"):
                        made.append(passes(model, 1, torch.bfloat16))
                for i, (a, b) in enumerate(zip(*made)):
                    self.assertTrue(a.dtype == b.dtype and same(a.float(), b.float()), (name, how, i))

    def test_bf16_that_is_no_number_too_large_or_off_its_alignment(self):
        for name in ("mxfp4", "nvfp4_te", "bf16", "luq", "mxfp8"):
            draw, made = torch.Generator().manual_seed(5), []
            room, dy = torch.randn(40 * 64 + 1, generator=draw), torch.randn(40, 48, generator=draw)
            room[::97], room[40 * 33], dy[3, 5], dy[7] = 1e-39, float("inf"), float("nan"), 3e38
            for model in (mlp(name, "auto"), widened(mlp(name, "auto"))):
                layer = model[0].bfloat16()
                layer.weight.data[1::3] *= 2.0**100
                layer.weight.data[2::3] *= 2.0**-110
                layer.bias.data[4], layer.bias.data[5] = float("inf"), 3e38
                x = room.to(DEVICE, torch.bfloat16)[1:].reshape(40, 64).requires_grad_()
                y = layer(x)
                made.append([t.detach().cpu().float() for t in (y, *torch.autograd.grad(y, (x, *layer.parameters()), dy.to(y)))])
            for i, (a, b) in enumerate(zip(*made)):
                self.assertTrue(torch.equal(a.isnan(), b.isnan()) and same(a.nan_to_num(7, 8, 9), b.nan_to_num(7, 8, 9)), (name, i))

    @unittest.skipUnless(DEVICE == "cpu", "launches are counted on host loops")
    def test_only_what_is_wanted_is_computed(self):
        """Frozen weights cost no product of their gradient, inputs without a gradient none of theirs."""
        took = {}
        for weight in (True, False):
            for given in (True, False):
                model = mlp("mxfp4", "auto")
                layer = model[0]
                layer.weight.requires_grad_(weight)
                x = torch.randn(8, 64, requires_grad=given)
                y = layer(x)
                counted()
                y.sum().backward()
                took[weight, given] = counted()[0]
                self.assertEqual((layer.weight.grad is None, x.grad is None), (not weight, not given))
        self.assertLess(took[False, True], took[True, True])
        self.assertLess(took[True, False], took[True, True])
        self.assertLess(took[False, False], min(took[False, True], took[True, False]))

    def test_what_the_device_cannot_do_runs_on_the_host_and_says_so(self):
        name = "mx9"
        model = mlp(name, "auto")
        counted()
        passes(model, 1)
        self.assertEqual(counted(), (0, 0, 0))
        self.assertRegex(ft.report(model).rows()[0]["where"], "^host: 0: no kernels for element=mx9$")
        with self.assertRaisesRegex(f4.Error, "device: unknown word 'cuda'; accepted: auto, host"):
            ft.convert(nn.Linear(32, 32), "mxfp4", device="cuda")

    def test_tensors_are_quantised_multiplied_and_rotated_where_they_lie(self):
        x, w = (torch.from_numpy(np.random.default_rng(n).standard_normal((24, 96)).astype(np.float32)) for n in (0, 1))
        there = lambda t: t.to(DEVICE)  # noqa: E731
        for spec in ("mxfp4", "nvfp4", "mxfp4,rounding=stochastic", "mxfp8", "nvfp4,tensor_scale=outer128", "nvfp4,block=row"):
            for given in (x, x.t(), x.reshape(2, 12, 96), x.bfloat16(), x.bfloat16().t()):
                counted()
                q, want = ft.quantize(there(given), spec, seed=7), f4.quantize(given, spec, seed=7)
                self.assertTrue(same(q.codes.cpu(), want.codes) and same(q.scales.cpu(), want.scales), spec)
                self.assertTrue(same(q.tensor_scale.cpu(), want.tensor_scale), spec)
                decoded = ft.fake_quantize(there(given.float()), spec, seed=7).cpu()
                self.assertTrue(same(decoded, want.dequantize()), spec)
                self.assertEqual(counted()[1], 0)  # nothing came to the host
            self.assertTrue(same(ft.gemm(there(x), there(w), spec, seed=7, hadamard=16).cpu(), f4.gemm(x, w, spec, seed=7, hadamard=16)), spec)
        for size in (16, 32):
            self.assertTrue(same(ft.hadamard(there(x), size, signs="per_step", seed=3).cpu(), f4.hadamard(x, size, signs="per_step", seed=3)))
        with self.assertRaisesRegex(f4.Error, "mx9.*no kernels for it on a device"):
            ft.quantize(there(x), "mx9")

    @unittest.skipUnless(DEVICE == "cpu", "compares with the host's own tensors")
    def test_operands_for_torch_s_sums_are_those_of_the_host(self):
        for name in ("mxfp4_all", "nvfp4_te", "mxfp4_sr_rht", "mxfp8"):
            made = []
            for where in ("add", "discard"):
                getattr(_torch_ops.LENT, where)("cpu")
                torch.manual_seed(0)
                model = ft.convert(nn.Sequential(nn.Linear(64, 48)), name, seed=3, sums="torch")
                counted()
                made.append(passes(model))
                self.assertEqual(counted()[0] > 0, where == "add")
            _torch_ops.LENT.add("cpu")
            self.assertTrue(all(same(a, b) for a, b in zip(*made)), name)

    def test_checkpointing_and_copies(self):
        import copy

        from torch.utils.checkpoint import checkpoint

        model, x = mlp("mxfp4_sr", "auto"), torch.randn(8, 64, device=DEVICE, requires_grad=True)
        model(x).sum().backward()
        want = [p.grad.clone() for p in model.parameters()]
        for one in (model, copy.deepcopy(model)):
            one.zero_grad()
            checkpoint(one, x, use_reentrant=False).sum().backward()
            self.assertTrue(all(same(p.grad.cpu(), g.cpu()) for p, g in zip(one.parameters(), want)))

class Graphs(unittest.TestCase):
    """A CUDA graph replays kernels without Python, so that they read the step where the device has it."""

    RECIPES = "mxfp4", "mxfp4_sr_rht", "nvfp4_te", "mxfp4_all_rht16", "fp4_all_the_way", "luq"

    def trained(self, name, step_of, steps=5):
        """Weights, outputs and gradients after each step; step_of(model, optimizer, x) makes one and returns y and dx."""
        model, draw, made = mlp(name, "auto"), torch.Generator().manual_seed(2), []
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        for _ in range(steps):
            optimizer.zero_grad()
            made += step_of(model, optimizer, torch.randn(40, 64, generator=draw).to(DEVICE))
            made += [p.detach().clone() for p in model.parameters()]
        return [t.cpu() for t in made], model

    @staticmethod
    def eager(model, optimizer, x):
        x.requires_grad_()
        y = model(x)
        y.square().sum().mul(1e-4).backward()
        optimizer.step()
        if not _torch_group.TELLS:
            ft.step(model)
        return y.detach(), x.grad

    def equal(self, mine, theirs, name):
        self.assertEqual([i for i, (a, b) in enumerate(zip(mine, theirs)) if not same(a, b)], [], name)

    @unittest.skipUnless(DEVICE == "cpu", "stands for a capture, where there is none")
    def test_kernels_that_read_their_step_draw_what_python_s_step_draws(self):
        for name in self.RECIPES:
            def captured(model, optimizer, x):
                group, captures = model[0]._group, model[0].step > 0
                with mock.patch.object(_torch_group, "is_capturing", lambda device: captures):
                    made = self.eager(model, optimizer, x)
                if group.is_captured:
                    group.step, group.seed = 1000, 99  # what nobody reads any more
                return made

            want, _ = self.trained(name, self.eager)
            made, model = self.trained(name, captured)
            self.assertTrue(model[0]._group.is_captured)
            self.equal(made, want, name)
            self.assertEqual((model[0].step, ft.state(model)["groups"][0]["step"]), (5, 5))
            self.seeds(model, name)
            ft.set_seed(model, 3)
            # As on the host the next step's bits are others, and a step that is set has its own.
            x, outputs = torch.ones(40, 64), []
            for step in (2, 3, 2):
                ft.set_step(model, step)
                y = model(x.requires_grad_())
                outputs.append(torch.autograd.grad(y.square().sum(), x)[0])
            self.assertTrue(same(outputs[0], outputs[2]))
            if name != "mxfp4":
                self.assertFalse(same(outputs[0], outputs[1]), name)

    def seeds(self, model, name):
        """A captured model draws another seed's bits once that is set, without a capture."""
        other, x = mlp(name, "auto"), torch.ones(40, 64, requires_grad=True)
        other.load_state_dict(model.state_dict())
        for one in (model, other):
            ft.set_seed(one, 8)
            ft.set_step(one, 2)
        self.assertTrue(model[0]._group.is_captured and not other[0]._group.is_captured)
        model[0]._group.seed = 99
        drawn = [torch.autograd.grad(one(x).square().sum(), x)[0] for one in (model, other)]
        self.assertTrue(same(*drawn), name)
        ft.set_seed(other, 3)
        if name != "mxfp4":
            self.assertFalse(same(drawn[0], torch.autograd.grad(other(x).square().sum(), x)[0]), name)

    @unittest.skipUnless(DEVICE == "cpu", "stands for a capture, where there is none")
    def test_what_python_makes_anew_each_step_is_refused(self):
        for name, why in {"nvfp4_2509_final_bf16": "0: .* recipe nvfp4_2509_final_bf16 has phases$", "ue5m3_hold50": "ue5m3_hold50 holds scales$",
                          "mx9": "its products run on the host, 0: no kernels for element=mx9$", "mxfp4": "after a training step outside of it$"}.items():
            model = mlp(name, "auto")
            ft.step(model)
            if name != "mxfp4":
                model(torch.randn(40, 64))
            with mock.patch.object(_torch_group, "is_capturing", lambda device: True), self.assertRaisesRegex(f4.Error, why):
                model(torch.randn(40, 64))

    @unittest.skipUnless(DEVICE == "cuda", "needs a device that captures")
    def test_a_replayed_step_is_the_eager_one(self):
        for name in self.RECIPES:
            graph, given, made = torch.cuda.CUDAGraph(), torch.empty(40, 64, device="cuda"), []
            calls = []

            def replayed(model, optimizer, x):
                calls.append(1)
                if len(calls) <= 2:
                    return self.eager(model, optimizer, x)
                given.data.copy_(x)
                if len(calls) == 3:
                    optimizer.zero_grad()
                    with torch.cuda.graph(graph):
                        made[:] = self.eager(model, optimizer, given)
                graph.replay()
                return [t.clone() for t in made]

            mine, model = self.trained(name, replayed)
            self.equal(mine, self.trained(name, self.eager)[0], name)
            self.assertEqual(model[0].step, 5)


if __name__ == "__main__":
    unittest.main()
