"""Do checkpointing, accumulation and ranks draw the random bits of the step they belong to?"""
import copy
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

from support import f4, np, same, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

STEPS = 6
RECIPES = {
    "sr": {"base": "mxfp4_all", "all": {"*": {"rounding": "stochastic"}}},
    "phases": {"base": "mxfp4_all", "phases": [{"until": 0.5}, {"fprop": "bf16.fprop"}]},
    "held": {"base": "nvfp4", "all": {"*": {"tensor_scale": "hold", "hold_steps": 3}}},
}
RANKS = """
import sys, torch
import fp4sim.torch as ft
rank, port = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
layer, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
model = torch.nn.parallel.DistributedDataParallel(ft.convert(layer, sys.argv[3], seed=1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
first = model(x)
first.square().sum().backward()
optimizer.step()
torch.save({"y": first.detach(), "gradient": layer.weight.grad, "weight": layer.weight.detach(), "step": layer.step}, sys.argv[4])
"""


class Steps(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        for name, fields in RECIPES.items():
            with open(f"{self.folder}/{name}.json", "w") as file:
                json.dump({"name": name, "doc": "of the test", **fields}, file)

    def train(self, recipe, reentrant, parts, told=False):
        """(weights, the outputs of the first layer in each forward) after some steps; reentrant None: no checkpointing."""
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
        x = torch.randn(16, 64)
        ft.convert(model, f"{self.folder}/{recipe}.json", seed=1, steps=STEPS)
        seen = []
        model[0].register_forward_hook(lambda module, given, made: seen.append(made.detach().clone()))
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in x.chunk(parts):
                given = part.clone().requires_grad_()
                y = model[:4](given) if reentrant is None else checkpoint(model[:4], given, use_reentrant=reentrant)
                model[4](y).square().mean().backward()
            optimizer.step()
            if told:
                ft.step(model)
        self.assertEqual(model[0].step, STEPS)
        return [p.detach().clone() for p in model.parameters()], seen

    def test_checkpointed_and_plain_training_end_in_the_same_weights(self):
        for recipe in RECIPES:
            for parts in (1, 4):
                plain, seen = self.train(recipe, None, parts)
                self.assertTrue(all(same(a, b) for a, b in zip(plain, self.train(recipe, None, parts, told=True)[0])))
                for reentrant in (False, True):
                    weights, again = self.train(recipe, reentrant, parts)
                    self.assertTrue(all(same(a, b) for a, b in zip(plain, weights)), (recipe, parts, reentrant))
                    # each forward is seen twice, the second time when its gradient is wanted
                    self.assertTrue(all(same(a, b) for a, b in zip(again[0::2], seen)), (recipe, parts, reentrant))
                    self.assertTrue(all(same(a, b) for a, b in zip(again[1::2], seen)), (recipe, parts, reentrant))

    def test_a_step_has_its_own_bits_and_micro_batches_share_them(self):
        torch.manual_seed(0)
        model = ft.convert(nn.Linear(64, 64), f"{self.folder}/sr.json", seed=1)
        x = torch.randn(16, 64)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)  # a step that changes no value
        first = model(x).detach()
        self.assertTrue(same(model(x).detach(), first))
        with torch.no_grad():
            self.assertTrue(same(model(x), first))
        self.assertTrue(same(model.eval()(x).detach(), first))
        model.train()(x).sum().backward()
        optimizer.step()
        self.assertTrue(same(model.eval()(x).detach(), first))  # evaluation stays with the last step
        second = model.train()(x).detach()
        self.assertFalse(same(second, first))
        self.assertEqual(model.step, 2)
        ft.set_step(model, 1)
        self.assertTrue(same(model(x).detach(), first))

    def test_phases_begin_when_they_should(self):
        _, seen = self.train("phases", None, 1)
        plain = nn.Linear(64, 64)
        torch.manual_seed(0)
        model = ft.convert(nn.Linear(64, 64), f"{self.folder}/phases.json", seed=1, steps=STEPS)
        x, quantised = torch.randn(16, 64), []
        plain.load_state_dict(model.state_dict())
        ft.convert(plain, "bf16", seed=1)
        for step in range(1, STEPS + 1):
            ft.set_step(model, step)
            quantised.append(not same(model(x).detach(), plain(x).detach()))
        self.assertEqual(quantised, [True] * 3 + [False] * 3)
        self.assertEqual(len(seen), STEPS)

    def test_a_checkpoint_goes_on_at_the_step_after(self):
        for recipe in RECIPES:
            torch.manual_seed(0)
            start, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), torch.randn(16, 64)

            def steps(model, count):
                optimizer = torch.optim.SGD(model.parameters(), 0.05)
                for _ in range(count):
                    optimizer.zero_grad()
                    model(x).square().mean().backward()
                    optimizer.step()
                return [p.detach().clone() for p in model.parameters()]

            convert = lambda: ft.convert(copy.deepcopy(start), f"{self.folder}/{recipe}.json", seed=1, steps=STEPS)  # noqa: E731
            want = steps(convert(), STEPS)
            first = convert()
            steps(first, 2)
            saved = ft.state(first), copy.deepcopy(first.state_dict())
            for order in (0, 1):
                other = convert()
                ft.load_state(other, saved[0]) if order == 0 else None
                other.load_state_dict(saved[1])
                ft.load_state(other, saved[0]) if order == 1 else None
                self.assertTrue(all(same(a, b) for a, b in zip(steps(other, STEPS - 2), want)), (recipe, order))
            self.assertTrue(all(same(a, b) for a, b in zip(steps(copy.deepcopy(first), STEPS - 2), want)), recipe)

    def test_changes_past_autograd_and_optimizers_are_warned_of(self):
        model, x = ft.convert(nn.Linear(32, 16), f"{self.folder}/sr.json", seed=1), torch.randn(4, 32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(9):  # micro-batches of one step
                model(x).sum().backward()
            with torch.no_grad():
                model.weight.mul_(2)  # a step
            model(x).sum().backward()
        model.weight.data.add_(1)
        with self.assertWarnsRegex(UserWarning, "weights changed after backward pass 1 of step 2, past autograd and torch.optim"):
            model(x)
        self.assertEqual(model.step, 2)

    def test_ranks_draw_different_bits(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        out = [f"{self.folder}/{rank}.pt" for rank in range(2)]
        crew = [subprocess.Popen([sys.executable, "-c", RANKS, str(rank), str(port), f"{self.folder}/sr.json", out[rank]],
                                 stderr=subprocess.PIPE, text=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "USE_LIBUV": "0"})
                for rank in range(2)]
        for process in crew:
            told = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, told)
        first, second = map(torch.load, out)
        self.assertFalse(same(first["y"], second["y"]))
        for name in ("gradient", "weight"):
            self.assertTrue(same(first[name], second[name]), name)
        self.assertEqual((first["step"], second["step"]), (1, 1))
        # rank 0 draws what one process draws, rank 1 what rank=1 asks for
        torch.manual_seed(0)
        layer, x = nn.Linear(64, 64), torch.randn(8, 64)
        for rank, theirs in ((0, first), (1, second)):
            mine = ft.convert(copy.deepcopy(layer), f"{self.folder}/sr.json", seed=1, rank=rank)
            self.assertTrue(same(mine(x).detach(), theirs["y"]))


if __name__ == "__main__":
    unittest.main()
