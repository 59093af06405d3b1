#!/usr/bin/python3
"""Folders of whole models as engines load them: usage loaders.py PATH_OF_FP4SIM [KIND ..].

Made-up models of six kinds go through every scheme. What is written is held to the rules of the engines that load it, which are written
down here from their published code, with its date: names, types and shapes of tensors, keys of config.json, which modules an engine takes for
quantised, which weights it gives one factor.
"""
import fnmatch
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

FP4SIM = sys.argv[1]
rng = np.random.default_rng(20261126)
WIDTH = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I32": 4}


def run(*words, code=0):
    done = subprocess.run([FP4SIM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def bf16(*shape, size=0.05):
    return ("BF16", ((rng.standard_normal(shape) * size).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))


def save(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(folder):
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + size])
        header.pop("__metadata__", None)
        for name, t in header.items():
            a, b = t["data_offsets"]
            assert b - a == WIDTH[t["dtype"]] * int(np.prod(t["shape"])), (name, t)
            assert name not in out, name
            out[name] = (t["dtype"], tuple(t["shape"]), raw[8 + size + a:8 + size + b], path.name)
    return out


# Kinds of models. `linear`: modules of class Linear that an engine makes, whether or not they have a tensor of their own.
# `weights`: of those that a scheme for linear layers quantises; the rest stays.
HIDDEN, INNER, VOCABULARY, EXPERTS = 128, 192, 64, 4
COMMON = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": VOCABULARY, "torch_dtype": "bfloat16"}


class Kind:
    def __init__(self, name, config):
        self.name, self.config, self.tensors, self.linear, self.weights, self.stacks = name, {**COMMON, **config}, {}, [], [], []
        self.groups = []

    def layer(self, module, *shape, quantised=True):
        self.tensors[module + ".weight"] = bf16(*shape)
        self.linear.append(module)
        if quantised:
            self.weights.append(module)

    def plain(self, name, *shape):
        self.tensors[name] = bf16(*shape)

    def attention(self, at):
        for part, rows in (("q_proj", HIDDEN), ("k_proj", HIDDEN // 2), ("v_proj", HIDDEN // 2), ("o_proj", HIDDEN)):
            self.layer(f"{at}.{part}", rows, HIDDEN)
        self.groups.append([f"{at}.{part}" for part in ("q_proj", "k_proj", "v_proj")])

    def dense(self, at):
        for part, shape in (("gate_proj", (INNER, HIDDEN)), ("up_proj", (INNER, HIDDEN)), ("down_proj", (HIDDEN, INNER))):
            self.layer(f"{at}.{part}", *shape)
        self.groups.append([f"{at}.{part}" for part in ("gate_proj", "up_proj")])

    def ends(self, root="model", tied=False):
        self.plain(f"{root}.embed_tokens.weight", VOCABULARY, HIDDEN)
        self.plain(f"{root}.norm.weight", HIDDEN)
        for i in range(2):
            self.plain(f"{root}.layers.{i}.input_layernorm.weight", HIDDEN)
            self.plain(f"{root}.layers.{i}.post_attention_layernorm.weight", HIDDEN)
        self.linear.append("lm_head")
        if not tied:
            self.plain("lm_head.weight", VOCABULARY, HIDDEN)


def dense(tied=False):
    kind = Kind("tied" if tied else "dense", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": tied})
    kind.ends(tied=tied)
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        kind.dense(f"model.layers.{i}.mlp")
    return kind


def moe_list():
    kind = Kind("moe_list", {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": EXPERTS,
                             "num_experts_per_tok": 2, "moe_intermediate_size": INNER, "head_dim": 32})
    kind.ends()
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        kind.layer(f"model.layers.{i}.mlp.gate", EXPERTS, HIDDEN, quantised=False)
        at = f"model.layers.{i}.mlp.experts"
        for e in range(EXPERTS):
            for part, shape in (("gate_proj", (INNER, HIDDEN)), ("up_proj", (INNER, HIDDEN)), ("down_proj", (HIDDEN, INNER))):
                kind.layer(f"{at}.{e}.{part}", *shape)
        kind.groups.append([f"{at}.{e}.{part}" for e in range(EXPERTS) for part in ("gate_proj", "up_proj")])
        kind.groups.append([f"{at}.{e}.down_proj" for e in range(EXPERTS)])
    return kind


def moe_stack():  # one tensor a projection, [experts, out, in]
    kind = Kind("moe_stack", {"architectures": ["StackForCausalLM"], "model_type": "stack", "num_experts": EXPERTS})
    kind.ends()
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        kind.layer(f"model.layers.{i}.mlp.gate", EXPERTS, HIDDEN, quantised=False)
        at = f"model.layers.{i}.mlp.experts"
        for part, shape in (("gate_proj", (INNER, HIDDEN)), ("up_proj", (INNER, HIDDEN)), ("down_proj", (HIDDEN, INNER))):
            kind.layer(f"{at}.{part}", EXPERTS, *shape)
        kind.groups.append([f"{at}.{part}" for part in ("gate_proj", "up_proj")])
    return kind


def gpt_oss():  # experts [E, in, out] without ".weight"
    kind = Kind("gpt_oss", {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_local_experts": EXPERTS})
    kind.ends()
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            kind.plain(f"model.layers.{i}.self_attn.{part}.bias", HIDDEN)
        kind.plain(f"model.layers.{i}.self_attn.sinks", 4)
        kind.layer(f"model.layers.{i}.mlp.router", EXPERTS, HIDDEN, quantised=False)
        kind.plain(f"model.layers.{i}.mlp.router.bias", EXPERTS)
        at = f"model.layers.{i}.mlp.experts"
        for part, (inner, outer) in (("gate_up_proj", (HIDDEN, 2 * INNER)), ("down_proj", (INNER, HIDDEN))):
            kind.plain(f"{at}.{part}", EXPERTS, inner, outer)
            kind.plain(f"{at}.{part}_bias", EXPERTS, outer)
            kind.stacks.append(f"{at}.{part}")
    return kind


def vision():
    kind = Kind("vision", {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
                           "vision_config": {"depth": 1, "hidden_size": HIDDEN}})
    kind.ends()
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        kind.dense(f"model.layers.{i}.mlp")
    kind.plain("visual.patch_embed.proj.weight", HIDDEN, 3, 2, 14, 14)
    kind.plain("visual.merger.ln_q.weight", HIDDEN)
    for part in ("attn.qkv", "attn.proj", "mlp.up_proj"):
        kind.layer(f"visual.blocks.0.{part}", HIDDEN, HIDDEN, quantised=False)
    kind.layer("visual.merger.mlp.0", HIDDEN, HIDDEN, quantised=False)
    return kind


KINDS = {k.name: k for k in (dense(), dense(True), moe_list(), moe_stack(), gpt_oss(), vision())}


def tokenizer():
    """Byte-level BPE as tokenizer.json has it: 62 bytes, one merge and an added token."""
    letters = [chr(c) for c in range(33, 33 + 60)] + ["\u0120", "\u010a"]
    vocabulary = {text: i for i, text in enumerate(letters)}
    vocabulary["ab"] = 62
    return {"version": "1.0", "added_tokens": [{"id": 63, "content": "<|end|>", "special": True, "normalized": False}],
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "byte_fallback": False, "vocab": vocabulary, "merges": [["a", "b"]]}}


BESIDE = {"tokenizer.json": json.dumps(tokenizer()), "tokenizer_config.json": json.dumps({"eos_token": "<|end|>"}),
          "generation_config.json": json.dumps({"eos_token_id": 63}), "special_tokens_map.json": "{}", "chat_template.jinja": "{{ messages }}",
          "modeling_made_up.py": "raise SystemExit\n", "LICENSE": "made up\n", "assets/notes.txt": "n\n"}


def write_source(folder, kind):
    """Two shards with their index, and what a folder has beside."""
    folder.mkdir()
    names = list(kind.tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for name, held in shards.items():
        save(folder / name, {n: kind.tensors[n] for n in held}, {"format": "pt", "made": "up"})
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {n: s for s, held in shards.items() for n in held}}))
    (folder / "config.json").write_text(json.dumps(kind.config))
    (folder / "assets").mkdir()
    (folder / ".cache").mkdir()
    (folder / ".cache/x").write_text("not of the model")
    (folder / "pytorch_model.bin").write_bytes(b"weights in another form")
    for name, text in BESIDE.items():
        (folder / name).write_text(text)


# What stands in the place of a module's weight [.., N, K]: ending -> (type, shape).
def model_optimizer_nvfp4(n):  # modelopt/torch/export/quant_utils.py, 2026-08-21; vLLM modelopt.py, 2026-08
    return {".weight": ("U8", (*n[:-1], n[-1] // 2)), ".weight_scale": ("F8_E4M3", (*n[:-1], n[-1] // 16)), ".weight_scale_2": ("F32", ())}


def model_optimizer_mxfp4(n):
    return {".weight": ("U8", (*n[:-1], n[-1] // 2)), ".weight_scale": ("U8", (*n[:-1], n[-1] // 32))}


def compressed_nvfp4(n):  # compressed_tensors/compressors/nvfp4/base.py, 2026-08-06
    return {".weight_packed": ("U8", (*n[:-1], n[-1] // 2)), ".weight_scale": ("F8_E4M3", (*n[:-1], n[-1] // 16)),
            ".weight_global_scale": ("F32", (1,))}


def compressed_mxfp4(n):  # compressed_tensors/compressors/mxfp4/base.py, 2026-08-06
    return {".weight_packed": ("U8", (*n[:-1], n[-1] // 2)), ".weight_scale": ("U8", (*n[:-1], n[-1] // 32))}


def deepseek_mxfp4(n):  # vLLM models/deepseek_v4, 2026-08
    return {".weight": ("I8", (*n[:-1], n[-1] // 2)), ".scale": ("F8_E8M0", (*n[:-1], n[-1] // 32))}


def gpt_oss_mxfp4(n):  # transformers integrations/mxfp4.py, 2026-07: blocks run over the inputs, outputs come first
    return {"_blocks": ("U8", (n[0], n[2], n[1] // 32, 16)), "_scales": ("U8", (n[0], n[2], n[1] // 32))}


def takes_by_model_optimizer(module, config):
    """vLLM ModelOptQuantConfigBase.is_layer_excluded, 2026-08: exact names, then parts of names, then wildcards."""
    entry = config["quantization_config"]
    assert entry["quant_method"] == "modelopt" and entry["quant_algo"] in ("W4A16_NVFP4", "mxfp4"), entry
    ignore = entry["ignore"]
    return not (module in ignore or any(i in module for i in ignore) or any(fnmatch.fnmatch(module, i) for i in ignore))


def takes_by_compressed(module, config):
    """compressed_tensors QuantizationConfig, 2026-08-06: targets by class, without what `ignore` names."""
    entry = config["quantization_config"]
    assert entry["quant_method"] == "compressed-tensors" and entry["quantization_status"] == "compressed", entry
    (group,) = entry["config_groups"].values()
    weights = group["weights"]
    nvfp4 = entry["format"] == "nvfp4-pack-quantized"
    assert group["targets"] == ["Linear"] and group["format"] == entry["format"] and group["input_activations"] is None, group
    assert (weights["num_bits"], weights["type"], weights["symmetric"], weights["dynamic"]) == (4, "float", True, False), weights
    assert (weights["strategy"], weights["group_size"]) == (("tensor_group", 16) if nvfp4 else ("group", 32)), weights
    assert set(weights) <= {"num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic", "actorder", "scale_dtype",
                            "zp_dtype", "observer", "observer_kwargs"}, "QuantizationArgs"
    return not any(re.match(i[3:], module) if i.startswith("re:") else i == module for i in entry["ignore"])  # utils/match.py


def takes_by_deepseek(module, config):
    """vLLM DeepseekV4FP8Config, 2026-08: FP8 unless named, routed experts by expert_dtype."""
    entry = config["quantization_config"]
    assert (entry["quant_method"], entry["scale_fmt"], entry["weight_block_size"]) == ("fp8", "ue8m0", [128, 128]), entry
    assert config["expert_dtype"] == "fp4"
    return module not in entry["modules_to_not_convert"]


def takes_by_gpt_oss(module, config):
    """transformers Mxfp4Config, 2026-07: experts, unless a pattern names them."""
    entry = config["quantization_config"]
    assert entry["quant_method"] == "mxfp4", entry
    return not any(fnmatch.fnmatch(module, p) or fnmatch.fnmatch(module, p + ".*") for p in entry["modules_to_not_convert"])


# scheme -> (tensors of a module, does the engine take a module, ending of the factor, modules that it quantises)
SCHEMES = {
    "modelopt_nvfp4": (model_optimizer_nvfp4, takes_by_model_optimizer, ".weight_scale_2", "linear"),
    "modelopt_mxfp4": (model_optimizer_mxfp4, takes_by_model_optimizer, "", "linear"),
    "compressed_tensors_nvfp4": (compressed_nvfp4, takes_by_compressed, ".weight_global_scale", "linear"),
    "compressed_tensors_mxfp4": (compressed_mxfp4, takes_by_compressed, "", "linear"),
    "deepseek_mxfp4": (deepseek_mxfp4, takes_by_deepseek, "", "experts"),
    "gpt_oss_mxfp4": (gpt_oss_mxfp4, takes_by_gpt_oss, "", "stacks"),
}


def quantised_modules(kind, takes):
    if takes == "stacks":
        return kind.stacks
    return [m for m in kind.weights if takes == "linear" or ".experts." in m]


def check_scheme(kind, scheme, source, out):
    layout, takes, factor, which = SCHEMES[scheme]
    modules = quantised_modules(kind, which)
    words = ("quantize", source, "--scheme", scheme, "--out", out, "--no-sync")
    if not modules:
        why = "gpt_oss alone" if which == "stacks" else "nothing becomes"  # transformers' Mxfp4 loader knows gpt-oss
        assert why in run(*words, code=2) and not out.exists(), (kind.name, scheme)
        return
    run(*words)
    tensors, config = load(out), json.loads((out / "config.json").read_text())
    expected = set()
    for name, (dtype, array) in kind.tensors.items():
        module = name.removesuffix(".weight") if which != "stacks" else name
        if module in modules:
            for ending, (kind_of, shape) in layout(array.shape).items():
                got = tensors[module + ending]
                assert got[:2] == (kind_of, shape), (scheme, module + ending, got[:2], kind_of, shape)
                expected.add(module + ending)
        else:
            assert tensors[name][:3] == (dtype, array.shape, array.tobytes()), (scheme, name, tensors[name][:2])
            expected.add(name)
    assert set(tensors) == expected, (scheme, set(tensors) ^ expected)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {n: t[3] for n, t in tensors.items()}, scheme
    assert index["metadata"]["total_size"] == sum(len(t[2]) for t in tensors.values())
    # The engine and the files agree on every linear layer.
    for module in kind.linear if which != "stacks" else [m.rsplit(".", 1)[0] for m in kind.stacks]:
        in_file = module in modules or any(m.startswith(module + ".") for m in modules)
        assert takes(module, config) == in_file, (scheme, module, config["quantization_config"])
    own = out / "hf_quant_config.json"
    assert own.exists() == scheme.startswith("modelopt")
    if own.exists():  # vLLM and SGLang refuse another producer
        entry = json.loads(own.read_text())
        assert entry["producer"]["name"] == "modelopt"
        assert entry["quantization"]["exclude_modules"] == config["quantization_config"]["ignore"]
        assert entry["quantization"]["quant_algo"] == config["quantization_config"]["quant_algo"]
    if factor:  # vLLM and SGLang take the largest of a fused layer's
        for group in kind.groups:
            assert len({tensors[m + factor][2] for m in group}) == 1, (scheme, group)
        assert len({tensors[g[0] + factor][2] for g in kind.groups}) > 1
    check_beside(source, out)
    back = out.parent / (out.name + ".back")
    run("dequantize", out, "--type", "bf16", "--out", back, "--no-sync")
    assert json.loads((back / "config.json").read_text()) == kind.config, scheme
    assert not (back / "hf_quant_config.json").exists()
    check_beside(source, back)
    decoded = load(back)
    for name, (dtype, array) in kind.tensors.items():
        assert decoded[name][:2] == (dtype, array.shape), (scheme, name, decoded[name][:2])
        x, y = ((np.frombuffer(b, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float)
                for b in (array.tobytes(), decoded[name][2]))
        assert ((x - y) ** 2).sum() <= 0.03 * (x ** 2).sum(), (scheme, name)


def check_beside(source, out):
    for name in BESIDE:
        assert (out / name).read_bytes() == (source / name).read_bytes(), name
    assert not (out / "pytorch_model.bin").exists() and not (out / ".cache").exists()
    for path in out.glob("*.safetensors"):
        raw = path.read_bytes()
        header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
        assert header["__metadata__"] == {"format": "pt", "made": "up"}


def main(folder):
    for kind in KINDS.values():
        if len(sys.argv) > 2 and kind.name not in sys.argv[2:]:
            continue
        source = folder / kind.name
        write_source(source, kind)
        for scheme in SCHEMES:
            check_scheme(kind, scheme, source, folder / f"{kind.name}.{scheme}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(pathlib.Path(name))
