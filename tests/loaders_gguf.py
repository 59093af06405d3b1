#!/usr/bin/python3
"""GGUFs made of Hugging Face folders, held to what llama.cpp loads: usage loaders_gguf.py PATH_OF_FP4SIM.

Names, order of rows, types, entries and limits are written down here from llama.cpp, build 11669 (2026-10): conversion/*.py,
gguf-py/gguf/constants.py, src/llama-model.cpp.
"""
import copy
import json
import math
import pathlib
import struct
import sys
import tempfile

import numpy as np

from loaders import EXPERTS, HIDDEN, KINDS, VOCABULARY, Kind, run, tokenizer, write_source

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 39: (32, 17), 40: (64, 36)}


def read_gguf(path):
    """Entries, and name -> (type, shape slowest first, bytes)."""
    raw, at = path.read_bytes(), 24
    magic, version, tensors, count = struct.unpack("<4sIQQ", raw[:24])
    assert magic == b"GGUF" and version == 3

    def take(form):
        nonlocal at
        size = struct.calcsize("<" + form)
        at += size
        return struct.unpack("<" + form, raw[at - size:at])[0]

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return raw[at - size:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            item, n = take("I"), take("Q")
            return [value(item) for _ in range(n)]
        return take(NUMBERS[kind])

    entries = {}
    for _ in range(count):
        key = text()
        assert key not in entries, key
        entries[key] = value(take("I"))
    listed = []
    for _ in range(tensors):
        name, axes = text(), take("I")
        shape = tuple(take("Q") for _ in range(axes))[::-1]
        listed.append((name, take("I"), shape, take("Q")))
        assert len(name.encode()) < 64 and axes <= 4, name
    data = (at + 31) // 32 * 32
    out = {}
    for name, kind, shape, offset in listed:
        block, size = BLOCKS[kind]
        assert shape[-1] % block == 0 and offset % 32 == 0 and name not in out, name
        end = data + offset + math.prod(shape) // block * size
        assert end <= len(raw)
        out[name] = (kind, shape, raw[data + offset:end])
    return entries, out


def values(tensor, factor=None):
    kind, shape, raw = tensor
    if kind == 0:
        return np.frombuffer(raw, np.float32).reshape(shape)
    if kind == 30:
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    halves = lambda b: np.concatenate([b & 15, b >> 4], -1)
    if kind == 39:
        b = np.frombuffer(raw, np.uint8).reshape(-1, 17)
        return (E2M1[halves(b[:, 1:])] * np.ldexp(np.float32(1), b[:, :1].astype(int) - 127)).reshape(shape)
    b = np.frombuffer(raw, np.uint8).reshape(-1, 36)
    s = b[:, :4].astype(int)
    ue4m3 = np.where(s < 8, (s & 7) * 2.0**-9, (1 + (s & 7) / 8) * 2.0 ** ((s >> 3) - 7))
    y = (E2M1[halves(b[:, 4:].reshape(-1, 4, 8))] * ue4m3[..., None]).reshape(shape)
    return y if factor is None else y * factor.reshape(-1, *[1] * (len(shape) - 1))


def source_of(kind, name):
    return (kind.tensors[name][1].astype(np.uint32) << 16).view(np.float32)


def pairs(x, heads):
    """A head's rows, halves to pairs: llama.cpp rotates neighbours, transformers halves."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def expected_tensors(kind, llama, adds_one=False, four_norms=False):
    """GGUF name -> values in llama.cpp's order."""
    out, stacks = {}, {}
    for name in kind.tensors:
        stem, ending = name.rsplit(".", 1)
        x = source_of(kind, name)
        if adds_one and name.endswith("norm.weight"):
            x = x + np.float32(1)
        if stem in WHOLE:
            out[f"{WHOLE[stem]}.{ending}"] = x
            continue
        _, _, layer, rest = stem.split(".", 3)
        if rest.startswith("mlp.experts."):
            _, _, expert, part = rest.split(".")
            stacks.setdefault(f"blk.{layer}.ffn_{part.removesuffix('_proj')}_exps.weight", {})[int(expert)] = x
            continue
        if llama and rest in ("self_attn.q_proj", "self_attn.k_proj"):
            x = pairs(x, 4 if rest.endswith("q_proj") else 2)
        own = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"} if four_norms else {}
        out[f"blk.{layer}.{own.get(rest, LAYER.get(rest))}.{ending}"] = x
    for name, experts in stacks.items():
        out[name] = np.stack([experts[e] for e in range(EXPERTS)])
    return out


def check(folder, kind, architecture, llama, scheme, words=(), **norms):
    out = folder / f"{kind.name}.{scheme}{len(words)}"
    run("quantize", folder / kind.name, "--scheme", scheme, "--out", out, "--no-sync", *words)
    assert sorted(p.name for p in out.iterdir()) == ["fp4sim.json", "model.gguf"]
    entries, tensors = read_gguf(out / "model.gguf")
    at = architecture + "."
    c = kind.config
    expect = {"general.architecture": architecture, at + "context_length": 128, at + "embedding_length": HIDDEN, at + "block_count": 2,
              at + "feed_forward_length": c["intermediate_size"], at + "attention.head_count": 4, at + "attention.head_count_kv": 2,
              at + "rope.freq_base": 10000.0, at + "vocab_size": VOCABULARY, "general.quantization_version": 2,
              at + "rope.dimension_count": 32, "general.file_type": 39 if "nv" in scheme else 38}
    if "num_experts" in c:
        expect |= {at + "expert_count": EXPERTS, at + "expert_used_count": 2, at + "expert_feed_forward_length": c["moe_intermediate_size"]}
    for key, value in expect.items():
        assert entries[key] == value, (kind.name, key, entries.get(key), value)
    assert abs(entries[at + "attention.layer_norm_rms_epsilon"] - 1e-6) < 1e-12
    assert entries["tokenizer.ggml.model"] == "gpt2" and entries["tokenizer.ggml.pre"] == "gpt-2"
    assert len(entries["tokenizer.ggml.tokens"]) == len(entries["tokenizer.ggml.token_type"]) == VOCABULARY
    assert entries["tokenizer.ggml.tokens"][62:] == ["ab", "<|end|>"] and entries["tokenizer.ggml.token_type"][62:] == [1, 3]
    assert entries["tokenizer.ggml.merges"] == ["a b"] and entries["tokenizer.ggml.eos_token_id"] == 63
    assert entries["tokenizer.chat_template"] == "{{ messages }}"
    expected = expected_tensors(kind, llama, **norms)
    factors = {n for n in tensors if n.endswith(".scale")}
    assert set(tensors) - factors == set(expected), (kind.name, set(tensors) ^ set(expected))
    quantised = 0
    for name, x in expected.items():
        number, shape, _ = tensors[name]
        assert shape == x.shape, (name, shape, x.shape)
        stays = x.ndim < 2 or name.startswith(("token_embd", "output.")) or "gate_inp" in name
        factor = tensors.get(name.removesuffix("weight") + "scale")
        if factor is not None:  # llama.cpp: create_tensor(.., "scale", {1} or {n_expert})
            assert factor[:2] == (0, (EXPERTS if x.ndim > 2 else 1,)), name
        y = values(tensors[name], None if factor is None else values(factor))
        if stays:
            assert number == (30 if x.ndim > 1 and "gate_inp" not in name else 0) and np.array_equal(x, y), name
            continue
        quantised += 1
        assert number == (40 if "nv" in scheme else 39) and (factor is not None) == bool(words), name
        error = ((x - y).astype(float) ** 2).sum() / (x.astype(float) ** 2).sum()
        assert error < 0.03, (kind.name, name, error)
    if words:  # engines that join q, k and v, gate and up, take the largest of their factors
        for i in range(2):
            for names in (("attn_q", "attn_k", "attn_v"), ("ffn_gate", "ffn_up"), ("ffn_gate_exps", "ffn_up_exps")):
                own = {f"blk.{i}.{n}.scale" for n in names} & factors
                assert len(own) in (0, len(names)) and len({tensors[n][2] for n in own}) <= 1, own
        assert len({tensors[n][2] for n in factors}) > 2, factors
    assert quantised == 14 and len(factors) == (quantised if words else 0), quantised


def gemma():
    kind = Kind("gemma", {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "head_dim": 32, "sliding_window": 64,
                          "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "tie_word_embeddings": True})
    kind.ends(tied=True)
    for i in range(2):
        kind.attention(f"model.layers.{i}.self_attn")
        kind.dense(f"model.layers.{i}.mlp")
        kind.plain(f"model.layers.{i}.pre_feedforward_layernorm.weight", HIDDEN)
        kind.plain(f"model.layers.{i}.post_feedforward_layernorm.weight", HIDDEN)
    return kind


def check_refusals(folder):
    for name in ("moe_stack", "gpt_oss", "vision"):
        write_source(folder / name, KINDS[name])
        error = run("quantize", folder / name, "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
        assert KINDS[name].config["architectures"][0] in error and "convert_hf_to_gguf.py" in error, error
        assert not (folder / "no").exists()
    error = run("quantize", folder / "dense", "--scheme", "ggml_mxfp4", "--out", folder / "no.gguf", code=2)
    assert "folder" in error, error
    path = folder / "moe_list/config.json"
    path.write_text(json.dumps({**KINDS["moe_list"].config, "norm_topk_prob": False}))
    error = run("quantize", folder / "moe_list", "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    assert "norm_topk_prob is false" in error and "config.json" in error, error
    path = folder / "dense/tokenizer.json"
    whole = tokenizer()
    whole["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "x+"}}
    path.write_text(json.dumps(whole))
    error = run("quantize", folder / "dense", "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    assert "tokenizer.json" in error and "'x+'" in error and "convert_hf_to_gguf.py" in error, error
    path.unlink()
    error = run("quantize", folder / "dense", "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    assert "tokenizer.model" in error, error


def check_factors(folder):
    """llama.cpp's graphs of Gemma and Qwen2 read no factor of a tensor: none is written for them."""
    source = folder / "gemma"
    for words in (("--spec", "nvfp4"), ("--spec", "vllm_nvfp4")):
        error = run("quantize", source, "--scheme", "ggml_nvfp4", *words, "--out", folder / "no", code=2)
        assert "has a factor" in error and "gemma2" in error and "tensor_scale=none" in error and not (folder / "no").exists(), error
    run("quantize", source, "--scheme", "modelopt_nvfp4", "--out", folder / "carried", "--no-sync")
    assert "has a factor" in run("quantize", folder / "carried", "--scheme", "ggml_nvfp4", "--out", folder / "no", code=2)
    for given, out in ((folder / "carried", "anew"), (source, "plain")):
        run("quantize", given, "--scheme", "ggml_nvfp4", "--spec", "nvfp4,tensor_scale=none", "--out", folder / out, "--no-sync")
        assert not [n for n in read_gguf(folder / out / "model.gguf")[1] if n.endswith(".scale")]
    error = run("quantize", folder / "plain/model.gguf", "--scheme", "ggml_nvfp4", "--spec", "nvfp4", "--out", folder / "no", code=2)
    assert "gemma2" in error, error


def check_carried(folder):
    """Packed weights keep their bits: rows as pairs, experts as one stack, as quantising the weights themselves gives them."""
    for which in ("dense", "moe_list"):
        for scheme, packed, spec in (("ggml_nvfp4", "modelopt_nvfp4", "nvfp4"), ("ggml_nvfp4", "compressed_tensors_nvfp4", "nvfp4"),
                                     ("ggml_mxfp4", "compressed_tensors_mxfp4", "mxfp4")):
            between, carried, direct = (folder / f"{which}.{packed}.{word}" for word in ("between", "carried", "direct"))
            run("quantize", folder / which, "--scheme", packed, "--out", between, "--no-sync")
            run("quantize", between, "--scheme", scheme, "--out", carried, "--no-sync")
            run("quantize", folder / which, "--scheme", scheme, "--spec", spec, "--out", direct, "--no-sync")
            got, expected = (read_gguf(f / "model.gguf")[1] for f in (carried, direct))
            assert sum(t[0] in (39, 40) for t in got.values()) == 14, (which, packed)
            assert got.keys() == expected.keys() and [n for n in got if got[n] != expected[n]] == [], (which, packed)


def check_complete(folder):
    """A GGUF that llama.cpp would not load, or load with other numbers than config.json's, is not written."""
    layer = "model.layers.1."
    lacks = lambda name: lambda k: k.tensors.pop(name)
    says = lambda **more: lambda k: k.config.update(more)
    grows = lambda name, *shape: lambda k: k.plain(name, *shape)
    cases = [("dense", lacks(layer + "input_layernorm.weight"), "blk.1.attn_norm.weight"), ("dense", lacks(layer + "self_attn.q_proj.weight"), "blk.1.attn_q.weight"),
             ("dense", lacks(layer + "mlp.down_proj.weight"), "blk.1.ffn_down.weight"), ("dense", lacks("lm_head.weight"), "tie_word_embeddings"),
             ("dense", lacks("model.embed_tokens.weight"), "token_embd"), ("dense", lacks("model.norm.weight"), "output_norm"),
             ("dense", says(num_hidden_layers=3), "blk.2."), ("dense", says(num_hidden_layers=1), "num_hidden_layers is 1"),
             ("dense", grows(layer + "self_attn.q_proj.bias", HIDDEN), "blk.0.attn_q.bias"), ("dense", says(vocab_size=100), "embed_tokens"),
             ("dense", says(head_dim=64), "(128, 128)"), ("dense", says(intermediate_size=256), "(128, 256)"),
             ("moe_list", says(num_experts=5), "(5, 128, 192)"), ("moe_list", says(moe_intermediate_size=64), "(4, 128, 64)"),
             ("dense", says(rope_theta="big"), 'rope_theta is "big"'), ("dense", says(rope_scaling=[1]), "rope_scaling is [1]"),
             ("dense", says(max_position_embeddings=1e30), "max_position_embeddings"), ("dense", says(max_position_embeddings=128.5), "128.5"),
             ("dense", says(num_attention_heads=-4), "num_attention_heads"), ("dense", says(num_key_value_heads="2"), "num_key_value_heads")]
    for i, (which, change, word) in enumerate(cases):
        kind = copy.deepcopy(KINDS[which])
        change(kind)
        write_source(folder / f"incomplete{i}", kind)
        error = run("quantize", folder / f"incomplete{i}", "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
        assert word in error and "config.json" in error and not (folder / "no").exists(), (i, word, error)


def check_sentencepiece(folder):
    """tokenizer.model of three pieces, made by hand: text, score, kind; add_dummy_prefix off."""
    field = lambda number, kind, data: bytes([number << 3 | kind]) + (bytes([len(data)]) + data if kind == 2 else data)
    piece = lambda text, score, kind: field(1, 2, field(1, 2, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind])))
    model = piece("<unk>", 0, 2) + piece("</s>", 0, 3) + piece("\u2581ab", -1.5, 1) + piece("<0x0A>", 0, 6) + field(3, 2, field(3, 0, b"\0"))
    source = folder / "pieces"
    write_source(source, KINDS["dense"])
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "</s>"}, "add_bos_token": False}))
    (source / "tokenizer.model").write_bytes(model)
    run("quantize", source, "--scheme", "ggml_mxfp4", "--out", folder / "p", "--no-sync")
    entries, _ = read_gguf(folder / "p/model.gguf")
    assert entries["tokenizer.ggml.model"] == "llama" and entries["tokenizer.ggml.pre"] == "default"
    assert entries["tokenizer.ggml.tokens"][:4] == ["<unk>", "</s>", "\u2581ab", "<0x0A>"] and len(entries["tokenizer.ggml.tokens"]) == VOCABULARY
    assert entries["tokenizer.ggml.scores"][2] == -1.5 and entries["tokenizer.ggml.token_type"][:5] == [2, 3, 1, 6, 5]
    assert entries["tokenizer.ggml.add_space_prefix"] is False and entries["tokenizer.ggml.add_bos_token"] is False
    assert entries["tokenizer.ggml.eos_token_id"] == 1


def check_added_tokens(folder):
    """Tokens put before and behind a text: gguf-py/gguf/vocab.py, where tokenizer_config.json has the last word on whether."""
    bytes_alone = {"type": "ByteLevel"}
    template = lambda *single: {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}} if t == "A" else {"SpecialToken": {"id": t}} for t in single]}
    both = lambda *steps: {"type": "Sequence", "processors": list(steps)}
    own = {"bos_token": "ab", "eos_token": {"content": "<|end|>"}}
    cases = [(template("ab", "A"), {}, (True, None, 63, None)), (both(bytes_alone, template("ab", "A")), {}, (True, False, 63, None)),
             (template("!", "A"), {}, (False, None, 63, None)), (template("A"), {}, (None, None, 63, None)),
             (bytes_alone, {}, (False, False, 63, None)), (bytes_alone, {"add_bos_token": True}, (True, False, 63, None)),
             (template("ab", "A"), {"add_bos_token": False}, (False, None, 63, None)), (template("!", "A"), {"cls_token": "!"}, (True, None, 63, None)),
             (template("A", "<|end|>"), {}, (None, True, 63, None)), (template("A", "!"), {}, (None, True, 0, 63))]
    for i, (processor, settings, expected) in enumerate(cases):
        source = folder / f"added{i}"
        write_source(source, KINDS["dense"])
        (source / "tokenizer.json").write_text(json.dumps({**tokenizer(), "post_processor": processor}))
        (source / "tokenizer_config.json").write_text(json.dumps({**own, **settings}))
        run("quantize", source, "--scheme", "ggml_mxfp4", "--out", folder / f"a{i}", "--no-sync")
        entries, _ = read_gguf(folder / f"a{i}/model.gguf")
        got = tuple(entries.get(f"tokenizer.ggml.{key}") for key in ("add_bos_token", "add_eos_token", "eos_token_id", "eot_token_id"))
        assert got == expected and entries["tokenizer.ggml.bos_token_id"] == 62, (processor, settings, got, expected)


def check_rotary(folder):
    """Llama 3's scaling of the frequencies (transformers modeling_rope_utils.py) as rope_freqs.weight."""
    kind = KINDS["dense"]
    source = folder / "rotary"
    write_source(source, kind)
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    (source / "config.json").write_text(json.dumps({**kind.config, "rope_scaling": scaling}))
    run("quantize", source, "--scheme", "ggml_mxfp4", "--out", folder / "r", "--no-sync")
    _, tensors = read_gguf(folder / "r/model.gguf")
    got = values(tensors["rope_freqs.weight"])
    for i, f in enumerate(got):
        wave = 2 * math.pi * 10000 ** (2 * i / 32)
        smooth = (64 / wave - 1) / 3
        want = 1 if wave < 16 else 8 if wave > 64 else 1 / ((1 - smooth) / 8 + smooth)
        assert abs(f - want) < 1e-6 * want, (i, f, want)
    assert len(got) == 16
    for i, (scaling, length) in enumerate((({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, 32),
                                           ({"type": "yarn", "factor": 4.0}, 128), ({"rope_type": "linear", "factor": 2.5}, None))):
        (source / "config.json").write_text(json.dumps({**kind.config, "rope_scaling": scaling}))
        run("quantize", source, "--scheme", "ggml_mxfp4", "--out", folder / f"r{i}", "--no-sync")
        entries, tensors = read_gguf(folder / f"r{i}/model.gguf")
        told = {key.removeprefix("llama.rope.scaling."): v for key, v in entries.items() if ".rope.scaling." in key}
        expected = {"type": scaling.get("type", scaling.get("rope_type")), "factor": scaling["factor"]} | ({"original_context_length": length} if length else {})
        assert told == expected and "rope_freqs.weight" not in tensors, told
    (source / "config.json").write_text(json.dumps({**kind.config, "rope_scaling": {"rope_type": "linear"}}))
    assert "no factor" in run("quantize", source, "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        KINDS["gemma"] = gemma()
        for which, architecture, llama in (("dense", "llama", True), ("tied", "llama", True), ("moe_list", "qwen3moe", False)):
            write_source(folder / which, KINDS[which])
            for scheme, words in (("ggml_mxfp4", ()), ("ggml_nvfp4", ()), ("ggml_nvfp4", ("--spec", "nvfp4"))):
                check(folder, KINDS[which], architecture, llama, scheme, words)
        write_source(folder / "gemma", KINDS["gemma"])
        check(folder, KINDS["gemma"], "gemma2", False, "ggml_mxfp4", (), adds_one=True, four_norms=True)
        check_factors(folder)
        check_carried(folder)
        check_complete(folder)
        check_sentencepiece(folder)
        check_added_tokens(folder)
        check_rotary(folder)
        check_refusals(folder)
