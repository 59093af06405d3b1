"""Does convert() account for every product of a model, and does a converted model compute the same in every mode?"""
import copy
import functools
import pickle
import unittest
import warnings

from support import f4, np, numbers, same, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class LoraLinear(nn.Linear):
    """As loralib writes it: a forward of its own around F.linear, and two thin products beside it."""

    def __init__(self, size):
        super().__init__(size, size)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(4, size)), nn.Parameter(torch.randn(size, 4))

    def forward(self, x):
        return F.linear(x, self.weight, bias=self.bias) + x @ self.lora_a.t() @ self.lora_b.t()


class UpLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class StrangeLinear(nn.Linear):
    def forward(self, x):
        return x @ self.weight.t()


class NamedLinear(nn.Linear):
    """A subclass for its name alone."""


class Conv1D(nn.Module):
    """As in transformers."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf) * 0.1), nn.Parameter(torch.randn(nf))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


def attend(q, k):
    return torch.einsum("bik,bjk->bij", q, k)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.lora = LoraLinear(32)
        self.conv = nn.Conv1d(32, 32, 3, padding=1)
        self.lstm = nn.LSTM(32, 32, batch_first=True)
        self.form = nn.Bilinear(32, 32, 32)
        self.turned = Conv1D(32, 32)
        self.named = NamedLinear(32, 32)
        self.normed = nn.utils.parametrizations.spectral_norm(nn.Linear(32, 32))
        self.body = nn.Linear(32, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.lora(x) + self.conv(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.lstm(x)[0] + self.form(x, x)
        x = self.normed(self.named(self.turned(x)))
        x = torch.softmax(attend(x, x), -1) @ x
        x = F.linear(x, self.body.weight) + self.body(x)
        return self.head(x)


def chosen_when_called(forward):
    """As transformers decorates the experts of its mixtures: which kernel runs is looked up at each call."""
    @functools.wraps(forward)
    def run(self, *args):
        return KERNELS.get(self.kernel, forward)(self, *args)

    return run


KERNELS = {}


class Experts(nn.Module):
    """Weights of three axes, multiplied by one at a time."""

    def __init__(self):
        super().__init__()
        self.kernel, self.stack = "none", nn.Parameter(torch.randn(2, 32, 32))

    @chosen_when_called
    def forward(self, x):
        return sum(F.linear(x, weight) for weight in self.stack)


class Grouped(nn.Module):
    def forward(self, x, ends):
        return torch._grouped_mm(x, self.stack, ends)


class Base(nn.Module):
    """What a library's base class has beside a forward: tools that no forward calls, and those that some do."""

    def forward(self, x):
        raise NotImplementedError

    def resize(self, x):
        return x.t() @ x

    def scores(self, x):
        return torch.einsum("ik,jk->ij", x, x)


class Quiet(Base):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(32, 32)

    def forward(self, x):
        return self.body(x)


class Scoring(Quiet):
    def forward(self, x):
        return self.scores(self.body(x))


class Upwards(Scoring):
    def forward(self, x):
        return super().forward(x) * 2


def quietly(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ft.convert(*args, **keywords)


def fates(model):
    return {(row["module"], row["kind"]): (row["fate"], row["reason"]) for row in ft.report(model).rows()}


class Accounts(unittest.TestCase):
    def test_every_product_has_its_fate(self):
        torch.manual_seed(0)
        with self.assertWarnsRegex(UserWarning, "5 products are left as torch's") as warned:
            model = ft.convert(Model(), "mxfp4_all", seed=1)
        found = fates(model)
        for name in ("attention.q", "attention.k", "attention.v", "attention.o", "lora", "turned", "named", "normed", "body"):
            fate = [row["fate"] for row in ft.report(model).rows() if row["module"] == name and not row["reason"]]
            self.assertEqual(fate, ["converted"], name)
        self.assertEqual(found["head", "Linear"][0], "converted")
        for name in ("attention.qk", "attention.pv"):
            self.assertEqual(found[name, "MultiheadAttention"],
                             ("fp32 by the recipe", "no rule of the recipe: torch's own product"))
        left = {(row["module"], row["reason"].split(" ")[0]) for row in ft.report(model).rows() if row["fate"] == "left"}
        self.assertEqual(left, {("", "@,"), ("lora", "@"), ("conv", "a"), ("lstm", "recurrent"), ("form", "a")})
        for name, why in left:
            self.assertIn(name or "(the model)", str(warned.warning))
        self.assertEqual(found["", "Model"][1], "@, einsum, linear in its own code, where the products are torch's")
        # strict refuses, and leaves the model as it was
        fresh = Model()
        with self.assertRaisesRegex(f4.Error, "products would be left.*conv \\(Conv1d\\): a convolution"):
            ft.convert(fresh, "mxfp4_all", strict=True)
        self.assertIs(type(fresh.body), nn.Linear)
        with self.assertRaisesRegex(f4.Error, "converted already \\(attention\\)"):
            ft.convert(model, "mxfp4_all")
        # what is converted trains
        loss = model(torch.arange(12).reshape(2, 6)).square().mean()
        loss.backward()
        for name, parameter in model.named_parameters():
            self.assertTrue(parameter.grad is not None and torch.isfinite(parameter.grad).all(), name)

    def test_products_behind_decorators_and_methods_are_named(self):
        model = nn.ModuleDict({"experts": Experts(), "grouped": Grouped(), "quiet": Quiet(), "scoring": Scoring(), "up": Upwards()})
        quietly(model, "mxfp4_all")
        left = {row["module"]: row["reason"].split(" ")[0] for row in ft.report(model).rows() if row["fate"] == "left"}
        self.assertEqual(left, {"grouped": "_grouped_mm", "scoring": "einsum", "up": "einsum"})

    def test_experts_are_products_of_their_own(self):
        torch.manual_seed(0)
        model, x = Experts(), torch.from_numpy(numbers(6, 32)).requires_grad_()
        layers = [nn.Linear(32, 32, bias=False) for _ in range(2)]
        with torch.no_grad():
            for layer, weight in zip(layers, model.stack):
                layer.weight.copy_(weight)
        alone = quietly(nn.Sequential(*layers), "mxfp4_sr", seed=3)
        model = quietly(nn.ModuleDict({"experts": model}), "mxfp4_sr", seed=3)
        self.assertEqual([row["module"] for row in ft.report(model).rows()], ["experts.stack.0", "experts.stack.1"])
        y, want = model["experts"](x), sum(layer(x) for layer in alone)
        self.assertTrue(same(y.detach(), want.detach()))
        y.sum().backward()
        want.sum().backward()
        self.assertTrue(same(model["experts"].stack.grad, torch.stack([layer.weight.grad for layer in alone])))

        class Foreign(Experts):
            def forward(self, x):
                return sum(F.linear(x, weight * 1) for weight in self.stack)

        with self.assertRaisesRegex(f4.Error, "no slice of its stacks"):
            quietly(Foreign(), "mxfp4")(x)

    def test_a_tied_head_keeps_its_one_weight(self):
        model = quietly(Model(), "mxfp4_all")
        self.assertIs(model.head.weight, model.embedding.weight)
        layers = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
        layers[1].weight = layers[0].weight
        self.assertEqual(fates(quietly(layers, "mxfp4_all"))["1", "Linear"], ("converted", "its weight is that of 0"))

    def test_layers_that_the_recipe_leaves_out_and_those_that_the_caller_does(self):
        layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
        model = ft.convert(layers, "nvfp4_te", skip="0", plain="1")
        found = [row["fate"] for row in ft.report(model).rows()]
        self.assertEqual(found[:3], ["left", "fp32 by `plain`", "converted"])
        self.assertIn("bf16 by the recipe", found)
        self.assertEqual(ft.report(model).rows()[0]["reason"], "by `skip`")

    def test_products_of_subclasses_are_those_of_a_plain_layer(self):
        x = torch.from_numpy(numbers(6, 32))
        torch.manual_seed(0)
        plain = nn.Linear(32, 32)
        want = ft.convert(copy.deepcopy(plain), "mxfp4_all", seed=3)(x)
        for cls in (LoraLinear, UpLinear, NamedLinear):
            layer = cls(32) if cls is LoraLinear else cls(32, 32)
            layer.load_state_dict(plain.state_dict(), strict=False)
            if cls is LoraLinear:
                layer.lora_b.data.zero_()
            made = quietly(layer, "mxfp4_all", seed=3)
            self.assertIsInstance(made, cls)
            for one in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
                self.assertTrue(same(one(x).detach(), want.detach() * (2 if cls is UpLinear else 1)), cls)
        turned = Conv1D(32, 32)
        with torch.no_grad():
            turned.weight.copy_(plain.weight.t()), turned.bias.copy_(plain.bias)
        made = ft.convert(turned, "mxfp4_all", seed=3)(x)
        self.assertTrue(same(made.detach(), want.detach()))
        made.sum().backward()
        want.sum().backward()
        self.assertEqual(fates(quietly(nn.Sequential(StrangeLinear(32, 32), nn.Linear(32, 8)), "mxfp4_all"))[
            "0", "StrangeLinear"], ("left", "its forward multiplies by @"))

    def test_a_forward_that_passes_its_weight_by_is_an_error_not_a_silence(self):
        class Sly(nn.Linear):
            def forward(self, x):
                return F.linear(x, self.weight * 1, self.bias)

        with self.assertRaisesRegex(f4.Error, "did not multiply by its weight"):
            quietly(Sly(32, 32), "mxfp4_all")(torch.zeros(2, 32))

    def test_parametrised_weights(self):
        torch.manual_seed(0)
        for wrap in (nn.utils.parametrizations.spectral_norm, nn.utils.weight_norm):
            layer = wrap(nn.Linear(32, 32)).eval()
            x = torch.from_numpy(numbers(6, 32))
            layer(x)
            want = ft.convert(nn.Linear(32, 32), "mxfp4_all", seed=3)
            with torch.no_grad():
                want.weight.copy_(layer.weight), want.bias.copy_(layer.bias)
            made = quietly(layer, "mxfp4_all", seed=3)
            self.assertTrue(same(made(x).detach(), want.eval()(x).detach()))
            made(x).sum().backward()
            self.assertTrue(all(p.grad is not None for p in made.parameters()))


def encoder(**more):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, **more)
    return nn.TransformerEncoder(layer, 2)


class Modes(unittest.TestCase):
    def test_a_transformer_computes_the_same_in_training_and_in_both_kinds_of_evaluation(self):
        x = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 8, 32)).astype(np.float32))
        padding = torch.arange(8)[None] >= torch.tensor([8, 5, 7])[:, None]
        for recipe in ("mxfp4_all", "nvfp4_te", "attn_fp4"):
            for more in ({}, {"norm_first": True}, {"activation": "gelu"}):
                for mask in (None, padding):
                    model = encoder(**more)
                    plain = copy.deepcopy(model).eval()
                    quietly(model, recipe, seed=1)
                    trained = model.train()(x, src_key_padding_mask=mask).detach()
                    with_gradients = model.eval()(x, src_key_padding_mask=mask)
                    with torch.no_grad():
                        without = model(x, src_key_padding_mask=mask)
                        fp32 = plain(x, src_key_padding_mask=mask)
                    at = slice(None) if mask is None else ~mask
                    self.assertTrue(same(trained[at], with_gradients.detach()[at]), (recipe, more))
                    self.assertTrue(same(trained[at], without[at]), (recipe, more))
                    self.assertFalse(torch.allclose(trained[at], fp32[at], atol=1e-4))
                    self.assertTrue(torch.allclose(trained[at], fp32[at], atol=1.5))
                    with_gradients[at].sum().backward()
        ft.convert(encoder(), "mxfp4_all", strict=True)

    def test_attention_in_fp32_is_torch_s(self):
        """Under recipe fp32 every mask, bias and shape gives torch's values, weights and gradients."""
        draw = torch.Generator().manual_seed(3)
        causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
        padding = torch.arange(5)[None] >= torch.tensor([5, 3])[:, None]
        for keywords, call in (
            ({}, {}), ({"bias": False}, {"need_weights": False}), ({"add_bias_kv": True}, {"attn_mask": causal}),
            ({"add_zero_attn": True, "batch_first": True}, {"key_padding_mask": padding}),
            ({"batch_first": True}, {"attn_mask": causal.float() * -3, "average_attn_weights": False}),
            ({"kdim": 24, "vdim": 40, "batch_first": True}, {"attn_mask": torch.zeros(8, 5, 5)}),
        ):
            theirs = nn.MultiheadAttention(32, 4, **keywords)
            mine = quietly(copy.deepcopy(theirs), "fp32")
            sizes = 32, keywords.get("kdim", 32), keywords.get("vdim", 32)
            first = (2, 5) if keywords.get("batch_first") else (5, 2)
            x = [torch.randn(*first, size, generator=draw, requires_grad=True) for size in sizes]
            (got, shares), (want, their_shares) = mine(*x, **call), theirs(*x, **call)
            self.assertTrue(torch.allclose(got, want, atol=1e-5), keywords)
            self.assertEqual(shares is None, their_shares is None)
            if shares is not None:
                self.assertTrue(torch.allclose(shares, their_shares, atol=1e-6), keywords)
            wanted = torch.autograd.grad(want.square().sum(), [*x, *theirs.parameters()])
            made = torch.autograd.grad(got.square().sum(), [*x, *mine.parameters()])
            for a, b in zip(made, wanted):
                self.assertTrue(torch.allclose(a, b, atol=1e-4), keywords)
        one = torch.randn(5, 32, generator=draw)
        plain = nn.MultiheadAttention(32, 4)
        self.assertTrue(torch.allclose(quietly(copy.deepcopy(plain), "fp32")(one, one, one)[0], plain(one, one, one)[0], atol=1e-5))

    def test_products_of_attention_are_those_of_gemm(self):
        """qk and pv of attn_fp4, head by head, by fp4sim.gemm at the places of their random bits."""
        torch.manual_seed(0)
        heads, length = 2, 8
        mine = quietly(nn.MultiheadAttention(32, heads, bias=False, batch_first=True), "attn_fp4", seed=5)
        self.assertEqual({row["fate"] for row in ft.report(mine).rows() if row["module"].endswith((".qk", ".pv"))}, {"converted"})
        x = torch.randn(1, length, 32)
        y, _ = mine(x, x, x)
        recipe, facts = f4.show("attn_fp4", "recipe"), mine._group.facts
        q, k, v = (mine._group.linear(mine, n, x, w, None) for n, w in enumerate(mine.in_proj_weight.chunk(3)))

        def product(number, part, kind, a, b):
            g = [rule for rule in recipe["layers"] if rule["kind"] == kind][-1]["fprop"]  # later rules over earlier ones

            def spec(side):
                said = {**g["*"], **g.get(side, {})}
                return f4.Spec(said.pop("preset"), **said)

            return torch.from_numpy(f4.gemm(a.detach().contiguous(), b.detach().contiguous(), spec("a"), spec_b=spec("b"),
                                            seed=5, step=1, stream=(number + 1024 * part) * 128))

        out = []
        for part in range(heads):
            cut = slice(16 * part, 16 * part + 16)
            key = k[0, :, cut]
            if recipe.get("center_keys"):
                key = key - key.mean(0, keepdim=True)
            scores = product(4, part, "qk", q[0, :, cut], key) * 0.25
            out.append(product(5, part, "pv", torch.softmax(scores, -1), v[0, :, cut].t()))
        made = mine._group.linear(mine, 3, torch.cat(out, 1)[None], mine.out_proj.weight, None)
        self.assertTrue(same(made.detach(), y.detach()), facts["rows"])


class Types(unittest.TestCase):
    def test_autocast_has_torch_s_types(self):
        torch.manual_seed(0)
        plain, x = nn.Linear(32, 16), torch.randn(4, 32)
        mine = ft.convert(copy.deepcopy(plain), "mxfp4_all")
        with torch.autocast("cpu", torch.bfloat16):
            y, theirs = mine(x), plain(x)
        self.assertEqual((y.dtype, mine(x).dtype), (theirs.dtype, torch.float32))
        rounded = copy.deepcopy(mine)
        with torch.no_grad():
            for p in rounded.parameters():
                p.copy_(p.bfloat16())
        self.assertTrue(same(rounded(x.bfloat16()).detach().float(), y.detach().float()))
        y.float().sum().backward()
        self.assertEqual(mine.weight.grad.dtype, torch.float32)

    def test_parameters_of_sixteen_bits_are_computed_by_way_of_float32(self):
        torch.manual_seed(0)
        plain, x = nn.Linear(32, 16).bfloat16(), torch.randn(4, 32).bfloat16()
        with self.assertWarnsRegex(UserWarning, "weights are bfloat16 on cpu; products are computed in float32 on cpu"):
            mine = ft.convert(copy.deepcopy(plain), "mxfp4_all", seed=3)
        wide = ft.convert(copy.deepcopy(plain).float(), "mxfp4_all", seed=3)
        y = mine(x)
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertTrue(same(y.detach().float(), wide(x.float()).detach().bfloat16().float()))
        y.sum().backward()
        self.assertEqual((mine.weight.grad.dtype, mine.bias.grad.dtype), (torch.bfloat16, torch.bfloat16))
        with self.assertRaisesRegex(f4.Error, "weight is torch.float64 on cpu; accepted: torch.float32 on cpu"):
            ft.convert(nn.Linear(4, 4).double(), "mxfp4")

    def test_inputs_that_are_no_floats_are_refused(self):
        layer = ft.convert(nn.Linear(32, 16), "mxfp4_all")
        for kind in (torch.int64, torch.complex64, torch.float64):
            with self.assertRaisesRegex(f4.Error, f"the input is {kind}; accepted: torch.float32, torch.bfloat16, torch.float16"):
                layer(torch.ones(2, 32, dtype=kind))

    def test_a_second_derivative_has_a_message_of_ours(self):
        layer, x = ft.convert(nn.Linear(32, 16), "mxfp4_all"), torch.randn(4, 32, requires_grad=True)
        gradient = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)[0]
        with self.assertRaisesRegex(f4.Error, "second derivatives of a converted layer do not exist"):
            gradient.square().sum().backward()

    def test_without_numbers_there_are_shapes(self):
        """On torch's device meta, and with its FakeTensors, a converted model has shapes, types and gradients, and no step."""
        for recipe in ("mxfp4_sr", "attn_fp4"):
            plain = nn.Sequential(encoder(), nn.Linear(32, 8))
            x = torch.from_numpy(numbers(24, 32).reshape(4, 6, 32))
            model = quietly(copy.deepcopy(plain).to("meta"), recipe, seed=3)
            y = model(x.to("meta"))
            self.assertEqual((y.device.type, y.dtype, tuple(y.shape)), ("meta", torch.float32, (4, 6, 8)))
            y.sum().backward()
            self.assertEqual({p.grad.device.type for p in model.parameters()}, {"meta"})
            self.assertEqual((model[1].step, {row["fate"] for row in ft.report(model).rows()} & {"left"}), (0, set()))
            # given memory and numbers it is the model that was converted with them
            model.zero_grad(set_to_none=True)
            model.to_empty(device="cpu").load_state_dict(plain.state_dict())
            want = quietly(copy.deepcopy(plain), recipe, seed=3)
            for one in (model, want):
                optimizer = torch.optim.SGD(one.parameters(), 0.125)
                for _ in range(2):
                    optimizer.zero_grad()
                    one(x).square().mean().backward()
                    optimizer.step()
            self.assertTrue(all(same(a.detach(), b.detach()) for a, b in zip(model.parameters(), want.parameters())), recipe)
            self.assertEqual((model[1].step, want[1].step), (2, 2))
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            layer = ft.convert(nn.Linear(32, 8), "mxfp4_all")
            y = layer(torch.ones(3, 32))
            y.sum().backward()
            self.assertEqual((type(y).__name__, tuple(y.shape), tuple(layer.weight.grad.shape)), ("FakeTensor", (3, 8), (8, 32)))

    def test_a_converter_of_torchtitan_s_kind_converts(self):
        class OfAJob(ft.Converter):  # torchtitan makes it with its own two arguments
            def __init__(self, job_config, parallel_dims):
                super().__init__(job_config, skip=["1"])

        made = [torch.nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 8)) for _ in range(2)]
        made[1].load_state_dict(made[0].state_dict())
        converter = OfAJob("mxfp4", None)
        self.assertIsNone(converter.convert(made[0]))
        ft.convert(made[1], "mxfp4", skip=["1"])
        x = torch.from_numpy(numbers(4, 32))
        self.assertTrue(same(made[0](x).detach(), made[1](x).detach()))
        self.assertIsNone(converter.post_optimizer_hook(made[0]))

    def test_a_trace_is_refused(self):
        """It would keep the products of the traced call as constants."""
        for model, given in ((nn.Linear(32, 8), torch.ones(3, 32)), (encoder(), torch.ones(2, 5, 32))):
            for check in (False, True):
                with self.assertRaisesRegex(f4.Error, "a trace .* would keep this call's numbers as constants"):
                    torch.jit.trace(ft.convert(copy.deepcopy(model), "mxfp4_all"), given, check_trace=check)

    @unittest.skipUnless(hasattr(torch, "compiler"), "torch before 2.1")
    def test_compiled_around_its_layers(self):
        for recipe in ("mxfp4_sr", "attn_fp4"):
            plain, x, made = nn.Sequential(nn.Linear(32, 32), encoder(), nn.Linear(32, 8)), torch.ones(4, 6, 32), []
            for compile in (lambda model: model, functools.partial(torch.compile, backend="eager")):
                model = quietly(copy.deepcopy(plain), recipe, seed=3)
                run, optimizer = compile(model), torch.optim.SGD(model.parameters(), 0.125)
                for _ in range(3):
                    optimizer.zero_grad()
                    run(x).square().mean().backward()
                    optimizer.step()
                self.assertEqual(model[0].step, 3)
                made.append([p.detach() for p in model.parameters()])
            self.assertTrue(all(same(a, b) for a, b in zip(*made)), recipe)

    def test_shards_are_refused(self):
        layer = ft.convert(nn.Linear(32, 16), "mxfp4_all")
        weight = layer.weight
        del layer._parameters["weight"]
        layer.weight = weight.detach()
        with self.assertRaisesRegex(f4.Error, "its weight is no parameter any more; FSDP"):
            layer(torch.zeros(2, 32))

        layer = ft.convert(nn.Sequential(nn.Linear(32, 16)), "mxfp4_all")
        layer[0].weight = nn.Parameter(torch.zeros(20, 32))
        with self.assertRaisesRegex(f4.Error, "0: its weight was \\(16, 32\\) .* and is \\(20, 32\\); accepted: resize first"):
            layer(torch.zeros(2, 32))

        class FullyShardedDataParallel(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(32, 16)

        class FSDPModule:
            pass

        class FSDPLinear(FSDPModule, nn.Linear):
            """What fully_shard makes of a layer's class."""

        for model in (FullyShardedDataParallel(), nn.Sequential(FSDPLinear(32, 16))):
            with self.assertRaisesRegex(f4.Error, "sharded by FSDP"):
                ft.convert(model, "mxfp4_all")
        with self.assertRaisesRegex(f4.Error, "linear: the input is \\(2, 31\\); accepted: \\[..., 32\\]"):
            ft.Linear(32, 8)(torch.zeros(2, 31))

    def test_what_a_recipe_asks_of_the_trainer_is_said(self):
        name = next(w.value for w in f4.Recipe if any(f4.show(w.value, "recipe").get("weights", {}).values()))
        with self.assertWarnsRegex(UserWarning, "averages and resets of weights are the trainer's; not done here"):
            ft.convert(nn.Sequential(nn.Linear(32, 32)), name, steps=10)


if __name__ == "__main__":
    unittest.main()
