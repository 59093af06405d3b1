"""Do torch 2's compilers, exporters, optimizers and shards see the products of a converted model as they are?"""
import copy
import io
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

from support import f4, np, numbers, same, torch

if torch is None or not hasattr(getattr(torch, "library", None), "register_autograd"):
    print("[test skipped] no torch, or one before 2.4")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

SHARDS = """
import sys, torch
import fp4sim.torch as ft
from torch.distributed.fsdp import fully_shard
rank, port, recipe, out = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
x = torch.randn(2, 8, 64)[rank]
ft.convert(model, recipe, seed=1)
first = model[0]
for layer in (model[0], model[2]):
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
seen = []
for _ in range(3):
    for part in x.chunk(2):
        y = model(part)
        y.square().sum().backward()
    seen.append((first.step, y.detach().clone()))
    optimizer.step()
    optimizer.zero_grad()
torch.save(seen, out)
torch.distributed.destroy_process_group()
"""


class Block(nn.Module):
    """As in Llama: attention with rotated heads, a gated MLP, norms before both."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        h, (b, n, d) = self.before(x), x.shape
        q, k, v = (p(h).view(b, n, self.heads, d // self.heads).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(b, n, d))
        h = self.between(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nn.Module):
    def __init__(self, layers=2, width=32, heads=2, inner=64, words=48):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(x)


def llama(recipe, **more):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ft.convert(Llama(**more), recipe, skip=["lm_head"], seed=1, steps=20)


def tokens(step, rows=2, length=8):
    return torch.from_numpy(np.random.default_rng(step).integers(0, 48, (rows, length)))


def train(model, run, steps, **more):
    optimizer, losses = torch.optim.AdamW(model.parameters(), 1e-3, **more), []
    for step in range(steps):
        optimizer.zero_grad()
        batch = tokens(step)
        loss = F.cross_entropy(run(batch)[:, :-1].reshape(-1, 48), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().clone() for p in model.parameters()]


class Compilers(unittest.TestCase):
    @unittest.skipUnless(hasattr(torch.Tag, "cudagraph_unsafe"), "torch has no such tag")
    def test_no_cuda_graph_keeps_the_bits_of_a_step(self):
        for name in ("linear", "linear_backward", "product", "quantize", "fake_quantize", "gemm", "hadamard"):
            self.assertIn(torch.Tag.cudagraph_unsafe, getattr(torch.ops.fp4sim, name).default.tags, name)

    def test_a_model_is_one_graph_and_trains_as_it_does_eagerly(self):
        import torch._dynamo as dynamo

        for recipe in ("nvfp4_te", "mxfp4_sr", "nvfp4_2509_final_bf16"):
            model = llama(recipe)
            want = train(model, model, 20)
            dynamo.reset()
            other = llama(recipe)
            got = train(other, torch.compile(other, fullgraph=True, backend="aot_eager"), 20)
            self.assertEqual(got[0], want[0], recipe)
            self.assertTrue(all(same(a, b) for a, b in zip(got[1], want[1])), recipe)
        dynamo.reset()
        told = dynamo.explain(llama("nvfp4_te", layers=10))(tokens(0))
        self.assertEqual((told.graph_count, told.graph_break_count), (1, 0))

    def test_a_new_seed_compiles_nothing_anew(self):
        import torch._dynamo as dynamo

        dynamo.reset()
        compiled, x = [], torch.randn(16, 64)
        gradient = lambda run, of: torch.autograd.grad(run(x).square().sum(), of[0].weight)[0]  # noqa: E731

        def counting(graph, inputs):
            compiled.append(graph)
            return graph

        torch.manual_seed(0)
        model = ft.convert(nn.Sequential(nn.Linear(64, 64)), "mxfp4_all_sr", seed=1)
        quick, drawn = torch.compile(model, fullgraph=True, backend=counting), []
        for seed in (1, 2, 3, 1):
            ft.set_seed(model, seed)
            ft.set_step(model, 1)
            drawn.append(gradient(quick, model))
            fresh = ft.convert(nn.Sequential(nn.Linear(64, 64)), "mxfp4_all_sr", seed=seed)
            fresh.load_state_dict(model.state_dict())
            self.assertTrue(same(drawn[-1], gradient(fresh, fresh)))
        self.assertEqual(len(compiled), 1)
        self.assertTrue(same(drawn[0], drawn[3]) and not same(drawn[0], drawn[1]) and not same(drawn[1], drawn[2]))

    def test_exported_and_traced_graphs_hold_products_not_numbers(self):
        model = llama("nvfp4_te").eval()
        want = [model(tokens(n)) for n in range(2)]
        for strict in (False, True):
            graph = torch.export.export(model, (tokens(0),), strict=strict)
            self.assertEqual(sum("fp4sim.linear" in str(node.target) for node in graph.graph.nodes), 14)
            for n in range(2):
                self.assertTrue(same(graph.module()(tokens(n)).detach(), want[n].detach()), strict)
        from torch.fx.experimental.proxy_tensor import make_fx

        traced = make_fx(model)(tokens(0))
        self.assertTrue(same(traced(tokens(1)).detach(), want[1].detach()))
        kept = copy.deepcopy(graph)  # the graph outlives the model
        del model
        self.assertTrue(same(kept.module()(tokens(1)).detach(), want[1].detach()))

    def test_torch_accepts_the_operators(self):
        layer = ft.convert(nn.Linear(32, 16), "mxfp4_sr", seed=1)
        for bias, keeps in itertools.product((layer.bias, None), (False, True)):
            given = torch.randn(4, 32, requires_grad=True), layer.weight, bias, layer._group.key, 0, True, keeps
            told = torch.library.opcheck(torch.ops.fp4sim.linear.default, given,
                                         test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
            self.assertEqual(set(told.values()), {"SUCCESS"})

    def test_codes_in_the_place_of_inputs_are_one_graph_for_any_number_of_rows(self):
        from fp4sim import _torch_ops

        _torch_ops.LENT.add("cpu")  # as if these were CUDA tensors
        self.addCleanup(_torch_ops.LENT.discard, "cpu")
        torch.manual_seed(0)
        model = ft.convert(nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32)), "nvfp4", seed=3)
        other, found = copy.deepcopy(model), []
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(other, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows in (40, 41, 200, 7):
            x = torch.randn(rows, 64)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: found.append(t) or t, lambda t: t):
                made = [m(x).square().sum() for m in (model, compiled)]
            for m, loss in zip((model, other), made):
                m.zero_grad()
                loss.backward()
            self.assertTrue(all(same(p.grad, q.grad) for p, q in zip(model.parameters(), other.parameters())), rows)
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)
        self.assertTrue(any(t.dtype is torch.uint8 for t in found))

    def test_transforms_of_functions(self):
        layer, x = ft.convert(nn.Linear(32, 16), "mxfp4_all", seed=1), torch.randn(4, 32)

        def loss(weights, x):
            return torch.func.functional_call(layer, weights, (x,)).square().sum()

        weights = {name: p.detach() for name, p in layer.named_parameters()}
        loss_now, (made, dx) = loss(weights, x), torch.func.grad(loss, argnums=(0, 1))(weights, x)
        given = x.clone().requires_grad_()
        layer(given).square().sum().backward()
        self.assertTrue(torch.isfinite(loss_now))
        self.assertTrue(same(made["weight"], layer.weight.grad) and same(made["bias"], layer.bias.grad) and same(dx, given.grad))
        for transform in (lambda: torch.func.vmap(layer)(torch.randn(3, 4, 32)),
                          lambda: torch.func.jvp(layer, (x,), (x,))):
            with self.assertRaises(Exception) as told:  # torch's words, or ours; never a number
                transform()
            self.assertRegex(str(told.exception), "fp4sim")


class Optimizers(unittest.TestCase):
    def test_every_optimizer_s_step_draws_new_bits(self):
        x = torch.from_numpy(numbers(8, 32))
        for more in ({}, {"fused": True}, {"foreach": True}):
            model = ft.convert(nn.Linear(32, 16), "mxfp4_sr", seed=1)
            optimizer, seen = torch.optim.AdamW(model.parameters(), 0.0, weight_decay=0.0, **more), []
            for step in range(1, 4):
                for _ in range(2):  # micro-batches of one step
                    y = model(x)
                    y.sum().backward()
                    self.assertEqual(model.step, step, more)
                seen.append(model.weight.grad.clone())
                optimizer.step()
                optimizer.zero_grad()
                with torch.no_grad():  # evaluation stays with the last step
                    model.eval()(x)
                self.assertEqual(model.train().step, step)
            self.assertFalse(any(same(a, b) for a, b in itertools.combinations(seen, 2)), more)

    def test_the_mean_of_many_steps_is_the_gradient(self):
        """Stochastic rounding is unbiased over steps; the same bits at each are not: their mean stays as wrong as one."""
        torch.manual_seed(0)
        model, x, dy = ft.convert(nn.Linear(32, 32, bias=False), "mxfp4_sr", seed=1), torch.randn(64, 32), torch.randn(64, 32)
        optimizer, made = torch.optim.SGD(model.parameters(), 0.0, fused=True), []
        for _ in range(64):
            optimizer.zero_grad()
            model(x).backward(dy)
            made.append(model.weight.grad.clone())
            optimizer.step()
        halves = torch.stack(made[:32]).mean(0) - torch.stack(made[32:]).mean(0)
        self.assertLess(float(halves.norm()), 0.5 * float((made[0] - made[1]).norm()))
        self.assertGreater(float((made[0] - made[1]).norm()), 0.01 * float(made[0].norm()))

    def test_an_optimizer_of_others_weights_begins_no_step(self):
        model, other = ft.convert(nn.Linear(32, 16), "mxfp4_sr", seed=1), nn.Linear(4, 4)
        model(torch.ones(2, 32))
        other(torch.ones(1, 4)).sum().backward()
        torch.optim.AdamW(other.parameters(), fused=True).step()
        model(torch.ones(2, 32))
        self.assertEqual(model.step, 1)


class Files(unittest.TestCase):
    def test_a_model_is_loaded_with_weights_only(self):
        model = ft.convert(nn.Sequential(nn.Linear(32, 16), nn.MultiheadAttention(16, 2)), "mxfp4_all", seed=1)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        modules = [nn.Sequential, nn.modules.linear.NonDynamicallyQuantizableLinear, torch.nn.parameter.Parameter]
        with torch.serialization.safe_globals(modules):
            other = torch.load(file, weights_only=True)
        x = torch.randn(4, 32)
        self.assertTrue(same(other[0](x).detach(), model[0](x).detach()))
        self.assertIsInstance(other[1], nn.MultiheadAttention)


class Shards(unittest.TestCase):
    def test_fully_sharded_ranks_step_and_draw_as_they_should(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            s.close()
            out = [f"{folder}/{rank}.pt" for rank in range(2)]
            crew = [subprocess.Popen([sys.executable, "-c", SHARDS, str(rank), str(port), "mxfp4_sr", out[rank]],
                                     stderr=subprocess.PIPE, text=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "USE_LIBUV": "0"})
                    for rank in range(2)]
            for process in crew:
                told = process.communicate(timeout=240)[1]
                self.assertEqual(process.returncode, 0, told)
            first, second = (torch.load(path) for path in out)
        self.assertEqual([step for step, _ in first], [1, 2, 3])
        self.assertEqual([step for step, _ in second], [1, 2, 3])
        # rank 0's first step is that of a process alone
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
        x = torch.randn(2, 8, 64)[0]
        ft.convert(model, "mxfp4_sr", seed=1)
        self.assertTrue(same([model(part) for part in x.chunk(2)][-1].detach(), first[0][1]))


if __name__ == "__main__":
    unittest.main()
