#!/usr/bin/python3
"""What lies beside weights and caches, and which weights stay by what they are: usage model_roles.py PATH_OF_FP4SIM.

Names and entries are written down from Model-Optimizer, compressed-tensors 0.17.1 and transformers 5.12.1.
"""
import itertools
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from checkpoint_files import *

G = np.float32(0.0021)


def values(*shape):
    return ("BF16", bf16(rng.standard_normal(shape).astype(np.float32)))


def weight(stem, names="modelopt_nvfp4", rows=16, cols=64):
    """A packed weight under the names of a scheme, and its values."""
    codes, scales = rng.integers(0, 256, (rows, cols // 2), dtype=np.uint8), rng.integers(1, 127, (rows, cols // 16), dtype=np.uint8)
    if names == "modelopt_nvfp4":
        return {stem + "weight": ("U8", codes), stem + "weight_scale": ("F8_E4M3", scales), stem + "weight_scale_2": ("F32", G)}, \
            decode_modelopt(nibbles(codes), UE4M3[scales], G)
    s = np.float32(1) / G
    return {stem + "weight_packed": ("U8", codes), stem + "weight_scale": ("F8_E4M3", scales), stem + "weight_global_scale": ("F32", np.full(1, s))}, \
        decode_compressed_tensors(nibbles(codes), UE4M3[scales], s)


def model(folder, tensors, config, optimizer=None):
    folder.mkdir(exist_ok=True)
    save(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(config))
    if optimizer:
        (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": optimizer}))
    return folder


def check_columns(folder):
    """pre_quant_scale multiplies inputs, so it multiplies columns: in every value that is read, and never beside codes that lack it."""
    for dtype, p in (("BF16", bf16(rng.uniform(0.5, 2, 64).astype(np.float32))), ("F32", rng.uniform(0.5, 2, 64).astype(np.float32))):
        tensors, y = weight("a.")
        source = model(folder / "s", tensors | {"a.pre_quant_scale": (dtype, p), "a.bias": values(16)}, {"quantization_config": {"quant_method": "modelopt"}})
        y = y * floats((dtype, p))
        told = json.loads(run("dequantize", source, "--out", folder / "d", "--no-sync", "--force", "--json"))
        assert np.array_equal(floats(load(folder / "d/model.safetensors")["a.weight"]), y) and told["outcomes"]["folded in"] == 1, told["outcomes"]
        for scheme in ("modelopt_nvfp4", "compressed_tensors_nvfp4", "modelopt_mxfp4", "compressed_tensors_mxfp4"):
            told = json.loads(run("quantize", source, "--scheme", scheme, "--out", folder / "q", "--no-sync", "--force", "--json"))
            assert told["outcomes"]["quantised"] == 1 and any("pre_quant_scale" in n for n in told["notes"]), told
            assert not [n for n in load(folder / "q/model.safetensors") if "pre_quant" in n]
            run("dequantize", folder / "q", "--out", folder / "b", "--no-sync", "--force")
            back = floats(load(folder / "b/model.safetensors")["a.weight"])
            assert ((back - y) ** 2).sum() < 0.02 * (y ** 2).sum(), scheme
    # What stays packed under a scheme would stay with it, and no config says so; dequantize of another weight leaves all as it was.
    extra, _ = weight("b.")
    model(folder / "s", tensors | {"a.pre_quant_scale": (dtype, p)} | extra, {})
    error = run("quantize", folder / "s", "--scheme", "modelopt_nvfp4", "--keep", "a.weight", "--out", folder / "no", code=1)
    assert "a.pre_quant_scale" in error and not (folder / "no").exists(), error
    run("dequantize", folder / "s", "--tensors", "b.weight", "--out", folder / "d", "--no-sync", "--force")
    assert {"a.pre_quant_scale", "a.weight_scale"} <= set(load(folder / "d/model.safetensors"))
    model(folder / "s", tensors | {"a.pre_quant_scale": ("F32", np.ones(63, np.float32))}, {})
    assert "a.pre_quant_scale" in run("dequantize", folder / "s", "--out", folder / "no", code=1)


def check_unread(folder):
    """What changes a weight and is not read with it is named, through every command that gives values."""
    beside = {"svdquant_lora_a": values(4, 64), "proj_down": values(64, 4), "smooth_factor": values(64), "weight_g_idx": ("I32", np.zeros(64, np.int32)),
              "weight_zero_point": ("I8", np.zeros((16, 4), np.int8)), "made_up": values(3), "factor": values(1)}
    for (name, tensor), names in itertools.product(beside.items(), ("modelopt_nvfp4", "compressed_tensors_nvfp4")):
        tensors, _ = weight("a.", names)
        source = model(folder / "s", tensors | {"a." + name: tensor} | weight("b.", names)[0], {})
        for words in (("dequantize", source), ("quantize", source, "--scheme", "modelopt_nvfp4"), ("quantize", source, "--scheme", "compressed_tensors_nvfp4"),
                      ("quantize", source, "--scheme", "modelopt_mxfp4")):
            error = run(*words, "--out", folder / "no", code=1)
            assert f"a.{name}" in error and not (folder / "no").exists(), (name, words, error)
            run(*words, "--allow-left", "--out", folder / "left", "--no-sync", "--force")
            assert "a." + name in load(folder / "left/model.safetensors"), (name, words)
    source = model(folder / "s", weight("a.", names)[0], {"quantization_config": {"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"u": {}}}}})
    for words in (("dequantize", source), ("quantize", source, "--scheme", "compressed_tensors_nvfp4")):
        assert "transform_config" in run(*words, "--out", folder / "no", code=1)


FP8 = {"num_bits": 8, "type": "float"}
KINDS = {  # of the source: scheme, names of the scales, entry of config.json, hf_quant_config.json
    "modelopt": ("modelopt_nvfp4", ("k_proj.k_scale", "v_proj.v_scale"), {"quant_method": "modelopt", "kv_cache_scheme": FP8 | {"dynamic": False}}, {"kv_cache_quant_algo": "FP8"}),
    "modelopt, older": ("modelopt_nvfp4", ("k_proj.output_scale", "v_proj.output_scale"), {}, {"kv_cache_quant_algo": "FP8"}),
    "compressed": ("compressed_tensors_nvfp4", ("k_scale", "v_scale"),
                   {"quant_method": "compressed-tensors", "kv_cache_scheme": FP8 | {"dynamic": False, "strategy": "tensor", "symmetric": True, "observer": "minmax"}}, None)}
NAMES = {"modelopt": ("k_proj.k_scale", "v_proj.v_scale"), "compressed_tensors": ("k_scale", "v_scale")}


def check_cache(folder):
    """Scales of the KV cache go with the entry that gives them a meaning, in each pair of schemes, or are named."""
    at = "model.layers.0.self_attn."
    for (kind, (own, names, entry, optimizer)), scheme in itertools.product(KINDS.items(), ("modelopt_nvfp4", "modelopt_mxfp4", "compressed_tensors_nvfp4", "compressed_tensors_mxfp4")):
        scales = {at + name: ("F32", np.float32([0.5 + i])) for i, name in enumerate(names)}
        for config in ({"compression_config": entry}, {"text_config": {"quantization_config": entry}}, {"quantization_config": entry}) if entry else ({},):
            source = model(folder / f"{kind} {scheme}", weight(at + "k_proj.", own)[0] | scales, config, optimizer)
            told = json.loads(run("quantize", source, "--scheme", scheme, "--out", folder / "q", "--no-sync", "--force", "--dry-run", "--json"))
            assert [r["outcome"] for r in told["rows"] if r["tensor"] in scales] == ["copied"] * 2 and not any("does not say" in n for n in told["notes"]), told
        run("quantize", source, "--scheme", scheme, "--out", folder / "q", "--no-sync", "--force")
        got, config = load(folder / "q/model.safetensors"), json.loads((folder / "q/config.json").read_text())["quantization_config"]
        expected = dict(zip((at + n for n in NAMES[scheme[:-6]]), (0.5, 1.5)))
        found = {n: float(floats(t)[0]) for n, t in got.items() if re.search("(k|v|output)_scale$", n)}
        assert found == expected, (kind, scheme, found)
        said = config["kv_cache_scheme"]
        assert (said["num_bits"], said["type"], said["dynamic"]) == (8, "float", False), said
        if scheme.startswith("compressed"):
            assert said["strategy"] == "tensor" and said["symmetric"] is True, said
        else:
            assert json.loads((folder / "q/hf_quant_config.json").read_text())["quantization"]["kv_cache_quant_algo"] == "FP8"
        told = json.loads(run("dequantize", source, "--out", folder / "d", "--no-sync", "--force", "--json"))
        assert told["outcomes"]["dropped"] == 2 and any("KV cache" in n for n in told["notes"]), told
        assert set(load(folder / "d/model.safetensors")) == {at + "k_proj.weight"}
    # A format that the target's engines do not know, and targets that know none.
    w, scales = weight(at + "k_proj.")[0], {at + "k_proj.k_scale": ("F32", np.float32([1]))}
    experts = {"model.layers.0.mlp.experts.0.w1.weight": values(32, 64), "model.layers.0.mlp.experts.gate_up_proj": values(2, 64, 32)}
    for algorithm, scheme, code in (("NVFP4", "modelopt_mxfp4", 0), ("NVFP4", "compressed_tensors_nvfp4", 1), ("INT8", "compressed_tensors_mxfp4", 1), ("FP8", "deepseek_mxfp4", 1),
                                    ("FP8", "gpt_oss_mxfp4", 1)):
        source = model(folder / "other", w | scales | experts, {"model_type": "gpt_oss"}, {"kv_cache_quant_algo": algorithm})
        words = ("quantize", source, "--scheme", scheme, "--out", folder / "o", "--no-sync", "--force")
        told = run(*words, code=code)
        if code:
            assert "KV cache" in told and scheme in told and algorithm in told, told
            run(*words, "--allow-left")
        else:
            assert json.loads((folder / "o/hf_quant_config.json").read_text())["quantization"]["kv_cache_quant_algo"] == algorithm
        (folder / "o/config.json").unlink()


LAYER = ("self_attn.q_proj", "mlp.up_proj", "mlp.down_proj")
# What stays of a model: config.json, weights that become FP4, weights that stay.
ROLES = {
    "GLM": ({"model_type": "glm4_moe", "num_hidden_layers": 2, "num_nextn_predict_layers": 1}, [f"model.layers.1.{n}" for n in LAYER],
            ["model.layers.2.eh_proj", "model.layers.2.shared_head.head"] + [f"model.layers.2.{n}" for n in LAYER]),
    "DeepSeek V3 as text_config": ({"text_config": {"num_hidden_layers": 11}}, [f"language_model.model.layers.10.{n}" for n in LAYER], [f"language_model.model.layers.11.{n}" for n in LAYER]),
    "towers have other counts": ({"num_hidden_layers": 1}, ["model.decoder.layers.1.fc1", "model.layers.0.mlp.up_proj"], ["vision_tower.layers.3.mlp.fc1", "model.layers.1.mlp.up_proj"]),
    "no count": ({}, ["model.layers.7.mlp.up_proj"], []),
    "encoder and decoder": ({"num_hidden_layers": 1, "is_encoder_decoder": True}, ["model.layers.7.mlp.up_proj"], []),
    "GPT-2": ({"model_type": "gpt2"}, ["lin.up"], ["transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_proj", "h.0.mlp.c_fc", "h.0.mlp.c_proj"]),
    "StarCoder, whose layers are Linear": ({"model_type": "gpt_bigcode"}, ["transformer.h.0.attn.c_attn", "h.0.mlp.c_fc"], []),
    "T5": ({"model_type": "t5"}, ["encoder.block.0.layer.0.SelfAttention.q"], ["encoder.block.0.layer.0.SelfAttention.relative_attention_bias", "shared"]),
    "Flux": ({}, ["double_blocks.0.img_attn.qkv"], ["img_in", "txt_in", "final_layer.linear", "time_in.in_layer", "vector_in.in_layer"]),
    "DeepSeek V3.2": ({"num_hidden_layers": 4}, ["model.layers.0.self_attn.indexer.wq_b"], ["model.layers.0.self_attn.indexer.weights_proj"]),
    "Gemma 3n": ({}, ["model.layers.0.mlp.up_proj"], ["model.layers.0.per_layer_input_gate", "model.layers.0.per_layer_projection"])}


def check_roles(folder):
    for kind, (config, quantised, stays) in ROLES.items():
        tensors = {n + ".weight": values(32, 64) for n in (*quantised, *stays)}
        source = model(folder / kind, tensors, config)
        run("quantize", source, "--scheme", "compressed_tensors_nvfp4", "--out", folder / "q", "--no-sync", "--force")
        got = load(folder / "q/model.safetensors")
        assert {n.removesuffix("_packed") for n in got if n.endswith("_packed")} == {n + ".weight" for n in quantised}, (kind, sorted(got))
        for name in stays:
            assert np.array_equal(got[name + ".weight"][1], tensors[name + ".weight"][1]), (kind, name)
        ignore = json.loads((folder / "q/config.json").read_text())["quantization_config"]["ignore"]
        takes = lambda module: not any(re.match(i[3:], module) if i.startswith("re:") else i == module for i in ignore)  # compressed_tensors match.py
        for name in (*quantised, *stays):
            assert takes(name) == (name in quantised), (kind, name, ignore)
    # With every layer GPT-2's own, nothing is left to quantise.
    error = run("quantize", model(folder / "g", {"h.0.mlp.c_fc.weight": values(64, 256)}, {"model_type": "gpt2"}), "--scheme", "modelopt_nvfp4", "--out", folder / "no", code=2)
    assert "Conv1D [in, out]" in error, error
    # Modules of a model with a tower have other names in transformers: patterns match both.
    text = {f"language_model.model.layers.{i}.mlp.{n}.weight": values(32, 64) for i in (0, 1) for n in ("up_proj", "down_proj")}
    towers = {n + ".weight": values(32, 64) for n in ("vision_tower.vision_model.encoder.layers.0.mlp.fc1", "multi_modal_projector.linear_1", "language_model.lm_head")}
    source = model(folder / "v", text | towers, {"vision_config": {}, "text_config": {"num_hidden_layers": 2}, "architectures": ["X"]})
    run("quantize", source, "--scheme", "compressed_tensors_nvfp4", "--keep", "*layers.0.mlp.up_proj.weight", "--out", folder / "q", "--no-sync", "--force")
    ignore = json.loads((folder / "q/config.json").read_text())["quantization_config"]["ignore"]
    takes = lambda module: not any(re.match(i[3:], module) if i.startswith("re:") else i == module for i in ignore)
    for module, is_taken in (("model.vision_tower.vision_model.encoder.layers.0.mlp.fc1", False), ("model.multi_modal_projector.linear_1", False), ("lm_head", False),
                             ("model.language_model.layers.0.mlp.up_proj", False), ("model.language_model.layers.0.mlp.down_proj", True), ("model.language_model.layers.1.mlp.up_proj", True)):
        assert takes(module) == is_taken, (module, ignore)
    # PhiMoE's file says gate, transformers router.
    tensors = {"model.layers.0.block_sparse_moe.gate.weight": values(4, 64), "model.layers.0.block_sparse_moe.experts.0.w1.weight": values(32, 64)}
    source = model(folder / "p", tensors, {"model_type": "mixtral"})
    told = json.loads(run("quantize", source, "--scheme", "compressed_tensors_nvfp4", "--out", folder / "q", "--no-sync", "--force", "--json"))
    ignore = json.loads((folder / "q/config.json").read_text())["quantization_config"]["ignore"]
    for module, is_taken in (("model.layers.0.block_sparse_moe.gate", False), ("model.layers.0.mlp.router", False), ("model.layers.0.mlp.experts.0.w1", True)):
        assert takes(module) == is_taken, (module, ignore)
    # What engines do with experts is said for each scheme; of a model without experts nothing is.
    for scheme, kind, said in (("compressed_tensors_nvfp4", "mixtral", ("transformers 5.12.1", "without them", "vLLM loads")), ("compressed_tensors_mxfp4", "made_up", ("not known",)),
                               ("modelopt_nvfp4", "qwen3_moe", ("vLLM loads", "refuses")), ("deepseek_mxfp4", "deepseek_v4", ("vLLM loads",))):
        told = json.loads(run("quantize", model(folder / "p", tensors, {"model_type": kind}), "--scheme", scheme, "--out", folder / "q", "--no-sync", "--force", "--json"))
        (note,) = [n for n in told["notes"] if n.startswith("experts of " + kind)]
        assert all(s in note for s in said), note
    told = json.loads(run("quantize", model(folder / "p", {"l.up_proj.weight": values(32, 64)}, {"model_type": "llama"}), "--scheme", "modelopt_nvfp4", "--out", folder / "q", "--no-sync", "--force", "--json"))
    assert not [n for n in told["notes"] if n.startswith("experts")], told["notes"]
    # gpt-oss's loader takes models of gpt-oss.
    stack = {"model.layers.0.mlp.experts.gate_up_proj": values(2, 64, 64)}
    error = run("quantize", model(folder / "l", stack, {"model_type": "llama4_text"}), "--scheme", "gpt_oss_mxfp4", "--out", folder / "no", code=2)
    assert "llama4_text" in error and "gpt_oss" in error and not (folder / "no").exists(), error


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for check in (check_columns, check_unread, check_cache, check_roles):
            if len(sys.argv) > 2 and check.__name__ not in sys.argv[2:]:
                continue
            folder = pathlib.Path(name) / check.__name__
            folder.mkdir()
            check(folder)
