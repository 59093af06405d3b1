"""Are the layers of fp4sim.torch the three products of a recipe, and what torch expects of a layer?

Every product is computed again from its definition by fp4sim.gemm, whose bytes are the command line's: operands, specs,
Hadamard, accumulator and the place of the random bits (stream = layer * 128 + product * 32, include/fp4/rng.h).
"""
import gc
import unittest

from support import f4, np, numbers, same, torch

if torch is None:
    print("[test skipped] no torch")
    raise SystemExit(0)
import fp4sim.torch as ft  # noqa: E402

RECIPES = ["mxfp4", "nvfp4", "nvfp4_te", "mxfp8", "mxfp4_sr"]


def recipes():
    known = {word.value for word in f4.Recipe}
    return [name for name in RECIPES if name in known] + sorted(known - set(RECIPES))


def is_by_definition(recipe):
    """No estimator, no operand quantised twice, no scale held over steps, nothing plain: three products and no more."""
    for name in ("fprop", "dgrad", "wgrad"):
        for side in "ab":
            o = recipe[name][side]
            plain = o["element"] == "fp32" and o["scale"] == "none"
            if plain or o.get("source", "high_precision") != "high_precision" or o["tensor_scale"] == "hold":
                return False
            if o.get("estimator", "ste") != "ste" or o.get("scale_gradient", "none") != "none":
                return False
    shared = recipe["fprop"]["b"]["block"] == recipe["dgrad"]["b"]["block"] and "stochastic" in str(recipe["fprop"]["b"])
    if recipe.get("phases") or isinstance(recipe["layers"], list):
        return False
    layers = recipe["layers"]  # a share of two layers below a quarter is none of them
    all_layers = layers == "all" or layers.get("skip_last", 1) < 0.25
    return recipe["quantise"] and all_layers and not shared


def spec_of(operand):
    fields = {f for f in f4.Spec().to_dict()}
    return f4.Spec(**{k: v for k, v in operand.items() if k in fields})


def product(recipe, number, layer, step, a, b):
    g = recipe[("fprop", "dgrad", "wgrad")[number]]
    h = g["hadamard"]
    return f4.gemm(np.ascontiguousarray(a), np.ascontiguousarray(b), spec_of(g["a"]), spec_b=spec_of(g["b"]),
                   accumulator=g["accumulator"], hadamard=h["size"], signs=h["signs"], normalise=h["normalise"], seed=5,
                   stream=layer * 128 + number * 32, step=step)


class Layers(unittest.TestCase):
    def test_an_mlp_trains_by_the_products_of_its_recipe(self):
        judged = 0
        for name in recipes():
            recipe = f4.show(name, "recipe")
            if judged == 5 or not is_by_definition(recipe):
                continue
            judged += 1
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
            ft.convert(model, name, seed=5)
            weights = [p.detach().numpy().copy() for p in model.parameters()]
            for step in range(1, 21):
                draw = np.random.default_rng(step)
                x, target = (draw.standard_normal((40, n)).astype(np.float32) for n in (48, 32))
                given = torch.from_numpy(x).requires_grad_()
                y = model(given)
                loss = ((y - torch.from_numpy(target)) ** 2).mean()
                model.zero_grad()
                loss.backward()
                # The same step from its definition; elementwise float32 arithmetic has one result.
                w0, b0, w1, b1 = weights
                before = product(recipe, 0, 0, step, x, w0) + b0
                hidden = np.maximum(before, np.float32(0))
                out = product(recipe, 0, 1, step, hidden, w1) + b1
                self.assertTrue(same(y.detach(), out), (name, step, "y"))
                leaf = torch.from_numpy(out).requires_grad_()
                dy = torch.autograd.grad(((leaf - torch.from_numpy(target)) ** 2).mean(), leaf)[0].numpy()
                dw1 = product(recipe, 2, 1, step, dy.T, hidden.T)
                dh = np.where(before > 0, product(recipe, 1, 1, step, dy, w1.T), np.float32(0))
                dw0 = product(recipe, 2, 0, step, dh.T, x.T)
                dx = product(recipe, 1, 0, step, dh, w0.T)
                sums = [np.add.reduce(g, axis=0, dtype=np.float32) for g in (dh, dy)]
                got = [p.grad.numpy() for p in model.parameters()]
                for label, mine, wanted in (("w0", got[0], dw0), ("w1", got[2], dw1), ("x", given.grad.numpy(), dx)):
                    self.assertTrue(same(mine, wanted), (name, step, label))
                    self.assertTrue(np.isfinite(mine).all() and mine.any())
                self.assertTrue(np.allclose(got[1], sums[0], 1e-4, 1e-6) and np.allclose(got[3], sums[1], 1e-4, 1e-6))
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.5 * p.grad
                weights = [p.detach().numpy().copy() for p in model.parameters()]
        self.assertEqual(judged, 5)

    def test_a_layer_used_twice_has_the_gradients_of_each_use(self):
        recipe = next(word.value for word in f4.Recipe if any(
            f4.show(word, "recipe")["fprop"][s].get("estimator", "ste") != "ste" for s in "ab"))
        layer = ft.Linear(32, 32, recipe=recipe, seed=5)
        x = torch.from_numpy(numbers(8, 32))
        first = layer(x)
        alone = torch.autograd.grad(first.sum(), layer.weight, retain_graph=True)[0].clone()
        layer(x * 3)
        self.assertTrue(same(torch.autograd.grad(first.sum(), layer.weight)[0], alone))

    def test_evaluation_keeps_nothing_and_changes_nothing(self):
        layer = ft.Linear(32, 16, recipe="mxfp4", seed=5)
        x = torch.from_numpy(numbers(4, 3, 32))
        y = layer(x)
        self.assertEqual((layer.step, tuple(y.shape)), (1, (4, 3, 16)))
        with torch.no_grad():
            self.assertTrue(same(layer(x), y.detach()))
        layer.eval()
        self.assertTrue(same(layer(x).detach(), y.detach()))
        self.assertEqual(layer.step, 1)
        layer(x).sum().backward()  # evaluation has gradients, too
        self.assertEqual(tuple(layer.weight.grad.shape), (16, 32))

    def kept(self, model, x):
        """What a forward keeps for its backward beside parameters, and Y."""
        found = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: found.append(t) or t, lambda t: t):
            y = model(x)
        own = {p.data_ptr() for p in model.parameters()}
        return [t for t in found if t.data_ptr() not in own and t.dtype is not torch.int64], y

    def test_a_layer_on_a_device_keeps_codes_for_wgrad_in_place_of_its_input(self):
        """Bits a number: those of a code and of its share of a scale, and 16 bytes of alignment; the gradient's bits are those of X."""
        from fp4sim import _torch_ops

        _torch_ops.LENT.add("cpu")  # as if these were CUDA tensors
        self.addCleanup(_torch_ops.LENT.discard, "cpu")
        for name, bits in (("mxfp4", 4 + 8 / 32), ("nvfp4", 4 + 8 / 16), ("nvfp4_te", 4 + 8 / 16), ("mxfp8", 8 + 8 / 32)):
            model = ft.convert(torch.nn.Sequential(torch.nn.Linear(64, 32)), name, seed=5)
            for rows in (256, 40):
                x = torch.from_numpy(numbers(rows, 64)).requires_grad_()
                ft.set_step(model, 3)
                (codes,), y = self.kept(model, x)
                self.assertEqual(codes.dtype, torch.uint8)
                self.assertLessEqual(8 * codes.numel(), bits * 64 * max(rows, 128) + 48 * 8, name)
                dy = numbers(rows, 32, seed=1)
                y.backward(torch.from_numpy(dy))
                want = product(f4.show(name, "recipe"), 2, 0, 3, dy.T, x.detach().numpy().T)
                self.assertTrue(same(model[0].weight.grad, want), name)
                model.zero_grad()
            model[0].weight.requires_grad_(False)
            self.assertEqual(self.kept(model, x)[0], [], name)
        for name in ("dge_wang", "quartet", "ue5m3_hold50"):  # an estimator, a source and a held scale meet X itself
            model = ft.convert(torch.nn.Sequential(torch.nn.Linear(64, 32)), name, seed=5)
            self.assertTrue(same(self.kept(model, x)[0][0].detach(), x.detach()), name)

    def test_evaluation_moves_no_held_scale(self):
        model = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 32)), "ue5m3_hold50", seed=1)
        x = torch.from_numpy(numbers(8, 32))
        model(x).sum().backward()
        held = ft.state(model)
        model.eval()
        model(x * 5).sum().backward()
        self.assertEqual(ft.state(model), held)

    def test_a_state_put_back_goes_on_with_the_same_bits(self):
        name = next((w.value for w in f4.Recipe if "hold" in str(f4.show(w, "recipe"))), "nvfp4")
        x = torch.from_numpy(numbers(8, 32))
        model = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 32)), name, seed=1)
        model(x).sum().backward()
        ft.step(model)
        saved, weights = ft.state(model), {k: v.clone() for k, v in model.state_dict().items()}
        want = model(x * 5).detach()
        other = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 32)), name, seed=1)
        other.load_state_dict(weights)
        ft.load_state(other, saved)
        self.assertTrue(same(other(x * 5).detach(), want))

    def test_gradients_keep_their_memory(self):
        layer = ft.Linear(64, 64, recipe="nvfp4", seed=5)
        x = torch.from_numpy(numbers(16, 64)).requires_grad_()
        y = layer(x)
        y.sum().backward()
        kept = x.grad.numpy().copy()
        del y
        for _ in range(5):
            ft.set_step(layer, 1)
            layer(x.detach()).sum().backward()
        gc.collect()
        self.assertTrue(same(x.grad, kept))

    def test_arrays_of_other_libraries_come_in_by_dlpack(self):
        x, w = (torch.randn(6, 32, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
        for name, call in {"quantize": lambda a, b: ft.quantize(a, "nvfp4").codes, "gemm": lambda a, b: ft.gemm(a, b, "mxfp4"),
                           "fake_quantize": lambda a, b: ft.fake_quantize(a, "mxfp4"),
                           "hadamard": lambda a, b: ft.hadamard(a, 16)}.items():
            self.assertTrue(torch.equal(call(x.numpy(), w.numpy()), call(x, w)), name)

    def test_fake_quantize_passes_gradients_straight_through(self):
        x = torch.from_numpy(numbers(8, 32)).requires_grad_()
        y = ft.fake_quantize(x, "nvfp4", seed=3)
        self.assertTrue(same(y.detach(), f4.quantize(x.detach(), "nvfp4", seed=3).dequantize()))
        y.backward(torch.full_like(x, 2.0))
        self.assertTrue(same(x.grad, np.full((8, 32), 2, np.float32)))

    def test_products_summed_by_torch_have_the_recipe_s_operands(self):
        for name in ("mxfp4", "mxfp4_sr_rht", "nvfp4", "nvfp4_te", "mxfp8", "bf16"):
            made = []
            for sums in ("recipe", "torch"):
                torch.manual_seed(1)
                model = ft.convert(torch.nn.Sequential(torch.nn.Linear(48, 64)), name, seed=5, sums=sums)
                x = torch.from_numpy(numbers(40, 48, seed=2)).requires_grad_()
                y = model(x)
                y.backward(torch.from_numpy(numbers(40, 64, seed=3)))
                made.append([y.detach(), x.grad, *(p.grad for p in model.parameters())])
            for a, b in zip(*made):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                self.assertLess(float((a - b).norm()), 1e-6 * float(a.norm()), name)
            where = {row["where"] for row in ft.report(model).rows()}
            self.assertEqual(where, {"cpu, quantised exactly, summed by torch"})
        # operands one by one: a row of the identity picks a quantised weight out
        layer = ft.convert(torch.nn.Linear(32, 16, bias=False), "mxfp4_all", seed=5, sums="torch")
        picked = layer(torch.eye(32)).detach().t().numpy()
        self.assertTrue(np.array_equal(picked, f4.quantize(layer.weight.detach(), "mxfp4").dequantize()))
        for name, why in (("fp32", "element fp32"), ("quartet", "estimator"), ("ue5m3_hold50", "tensor_scale hold"),
                          ("attn_fp4", "single ones"), ("hot_channels", "split")):
            with self.assertRaisesRegex(f4.Error, f"sums: torch's cannot stand for those of recipe {name}: .*{why}"):
                ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 32)), name, sums="torch")

    def test_a_build_without_device_code_goes_by_the_host_and_says_so(self):
        from fp4sim import _torch_ops

        layer, x = ft.convert(torch.nn.Sequential(torch.nn.Linear(32, 16)), "mxfp4_all", seed=5), torch.randn(4, 32)
        want = layer(x).detach()
        _torch_ops.LENT.add("cpu")  # as if these were CUDA tensors
        try:
            self.assertTrue(same(layer(x).detach(), want))
            self.assertRegex(ft.report(layer).rows()[0]["where"], "^(cpu|host: gpu: .*no GPU backend.*)$")
        finally:
            _torch_ops.LENT.discard("cpu")

    def test_wrong_words(self):
        def mlp():
            return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 8))

        model = ft.convert(mlp(), "mxfp4", skip="1")
        self.assertEqual([type(m) for m in model], [ft.Linear, torch.nn.Linear])
        for call, says in (
            (lambda: ft.convert(mlp(), "mxfp5"), "unknown word 'mxfp5'; did you mean"),
            (lambda: ft.convert(mlp(), "mxfp4", skip=["head"]), "skip: no linear layer 'head'; accepted: 0, 1"),
            (lambda: ft.convert(torch.nn.ReLU(), "mxfp4"), "the model has no torch.nn.Linear"),
            (lambda: ft.convert(mlp(), "nvfp4_2509_final_bf16"), "steps: the recipe has phases"),
            (lambda: ft.convert(mlp(), "mxfp4", plain=["head"]), "plain: no linear layer 'head'"),
            (lambda: ft.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3])), "labels: 3 is out of range; accepted: 0 .. 2"),
            (lambda: ft.cross_entropy(torch.zeros(2, 3), torch.tensor([0])), "logits: is .2, 3.; accepted: 1 x 3"),
            (lambda: ft.convert(mlp().double(), "mxfp4"), "accepted: torch.float32 on cpu"),
        ):
            with self.assertRaisesRegex(f4.Error, says):
                call()


if __name__ == "__main__":
    unittest.main()
